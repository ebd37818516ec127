#include "chunker/codec/planes.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "chunker/codec/field.h"
#include "chunker/codec/kernels.h"
#include "protocol/limits.h"

namespace p2pw::codec {
namespace {

constexpr unsigned kShareOrder = 3;  // Exp-Golomb order of a share in the table
constexpr std::size_t kPad = 80;

Error malformed(const char* what) { return fail(ErrorCode::malformed, std::string("frame ") + what); }

std::uint64_t load_element(const std::byte* at, unsigned width) {
  std::uint64_t value = 0;
  for (unsigned b = 0; b < width; ++b) value |= static_cast<std::uint64_t>(at[b]) << (8 * b);
  return value;
}

// The window of 255 token values that holds most of a sample of the slab.
std::uint32_t best_window(ByteView now, unsigned width, const FieldRule& rule) {
  const std::uint64_t mask = (std::uint64_t{1} << rule.token_bits) - 1;
  std::vector<std::uint32_t> seen(static_cast<std::size_t>(mask) + 1);
  const std::size_t count = now.size() / width;
  for (std::size_t block = 0; block < count; block += 64 * 64) {
    for (std::size_t i = block; i < std::min(count, block + 64); ++i) {
      ++seen[load_element(now.data() + i * width, width) >> rule.token_shift & mask];
    }
  }
  std::uint64_t inside = 0, best = 0;
  std::uint32_t window = 0;
  for (std::size_t end = 0; end < seen.size(); ++end) {
    inside += seen[end];
    if (end >= kOutside) inside -= seen[end - kOutside];
    if (inside > best) {
      best = inside;
      window = static_cast<std::uint32_t>(end + 1 >= kOutside ? end + 1 - kOutside : 0);
    }
  }
  return window;
}

void count_tokens(const std::uint8_t* tokens, std::size_t count, std::uint64_t counts[256]) {
  std::uint32_t part[8][256] = {};  // apart, so that equal neighbours do not wait for each other
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    std::uint64_t eight = load_le<std::uint64_t>(tokens + i);
    for (std::size_t k = 0; k < 8; ++k, eight >>= 8) ++part[k][eight & 0xFF];
  }
  for (; i < count; ++i) ++part[0][tokens[i]];
  for (std::size_t s = 0; s < 256; ++s) {
    counts[s] = 0;
    for (const auto& p : part) counts[s] += p[s];
  }
}

// Calls f with the place of each escape, in order, as long as it returns true.
template <class F>
void for_each_escape(const std::uint8_t* tokens, std::size_t count, F f) {
  const std::uint8_t* const end = tokens + count;
  for (const std::uint8_t* at = tokens; at != end; ++at) {
    at = static_cast<const std::uint8_t*>(std::memchr(at, kOutside, static_cast<std::size_t>(end - at)));
    if (at == nullptr || !f(static_cast<std::size_t>(at - tokens))) return;
  }
}

}  // namespace

// Body: window (16 bits, if windowed), table (Exp-Golomb shares until they sum to 4096), bytes from here: number of
// escapes, their values (16 bits), lanes, number of words, words, rest.
void PlanesCoder::encode_tokens(ByteView now, const ElementModel& model, Bytes& out) {
  const std::size_t count = now.size() / model.width;
  FieldRule rule = field_rule(model);
  if (rule.windowed()) rule.window = best_window(now, model.width, rule);
  std::uint8_t* tokens = tokens_.reserve(count + 64);
  std::uint8_t* rest = rest_.reserve(count * rule.rest_bits() / 8 + kPad);
  kernels().split_fields[std::countr_zero(model.width)](now.data(), count, rule, tokens, rest);

  std::uint64_t counts[256];
  count_tokens(tokens, count, counts);
  const Shares shares = shares_of(counts);
  model_.build(shares);
  table_.clear();
  table_.reserve(16);
  if (rule.windowed()) table_.put(rule.window, 16);
  std::uint32_t total = 0;
  for (std::size_t s = 0; total < kProbabilityScale; ++s) {
    table_.put_golomb(shares.share[s], kShareOrder);
    total += shares.share[s];
  }
  ByteWriter writer(out);
  writer.bytes(table_.bytes());
  if (rule.windowed()) {
    const std::uint64_t mask = (std::uint64_t{1} << rule.token_bits) - 1;
    writer.varint(counts[kOutside]);
    if (counts[kOutside] != 0) {
      for_each_escape(tokens, count, [&](std::size_t i) {
        const std::uint64_t value = load_element(now.data() + i * model.width, model.width) >> rule.token_shift & mask;
        writer.u8(static_cast<std::uint32_t>(value));
        writer.u8(static_cast<std::uint32_t>(value >> 8));
        return true;
      });
    }
  }
  Lanes lanes;
  lanes.fill(kLaneLow);
  const RansSequence sequence{&model_, {tokens, count}};
  const auto words = rans_encode({&sequence, 1}, kMaxLanes, lanes, words_);
  for (std::uint32_t lane : lanes) {
    for (unsigned b = 0; b < 4; ++b) writer.u8(lane >> (8 * b));
  }
  writer.varint(words.size());
  const std::size_t start = out.size(), rest_bytes = (count * rule.rest_bits() + 7) / 8;
  out.resize(start + 2 * words.size() + rest_bytes);
  put_words(words, out.data() + start);
  if (rest_bytes != 0) std::memcpy(out.data() + start + 2 * words.size(), rest, rest_bytes);
}

Status PlanesCoder::decode_tokens(ByteView body, const ElementModel& model, std::span<std::byte> slab) {
  const std::size_t count = slab.size() / model.width;
  FieldRule rule = field_rule(model);
  const std::size_t head_bytes = std::min<std::size_t>(body.size(), 1024);
  head_.assign(head_bytes + kPad, 0);
  if (head_bytes != 0) std::memcpy(head_.data(), body.data(), head_bytes);
  BitReader head(head_.data(), head_bytes);
  if (rule.windowed()) {
    if (head.left() < 16) return malformed("ends inside its table");
    rule.window = static_cast<std::uint32_t>(head.get(16));
  }
  Shares shares;
  for (std::uint64_t total = 0, share = 0; total < kProbabilityScale; total += share) {
    if (shares.used == 256 || !head.get_golomb(kShareOrder, share) || share >= kProbabilityScale ||
        total + share > kProbabilityScale) {
      return malformed("has a wrong table");
    }
    shares.share[shares.used++] = static_cast<std::uint16_t>(share);
  }
  model_.build(shares);
  ByteReader in(body);
  in.bytes((head.count() + 7) / 8);
  ByteView escapes;
  if (rule.windowed()) {
    const std::uint64_t outside = in.varint();
    if (outside > count) return malformed("has more escapes than elements");
    escapes = in.bytes(2 * outside);
  }
  const ByteView lane_bytes = in.bytes(4 * kMaxLanes);
  const std::uint64_t word_count = in.varint();
  if (word_count > body.size()) return malformed("ends inside its words");
  const ByteView words = in.bytes(2 * word_count);
  const ByteView rest = in.bytes((count * rule.rest_bits() + 7) / 8);
  if (!in.finished()) return malformed("is not as long as its tables say");
  Lanes lanes;
  for (std::size_t lane = 0; lane < kMaxLanes; ++lane) lanes[lane] = load_le<std::uint32_t>(lane_bytes.data() + 4 * lane);
  RansDecoder rans(lanes, kMaxLanes, words);
  const std::span<std::uint8_t> tokens(tokens_.reserve(count + 64), count);
  if (!rans.decode(model_, tokens) || !rans.finished()) return malformed("has tokens that do not come out");
  kernels().join_fields[std::countr_zero(model.width)](tokens.data(), rest.data(), rest.size(), count, rule, slab.data());
  if (rule.windowed()) {
    const std::uint64_t mask = (std::uint64_t{1} << rule.token_bits) - 1;
    std::size_t next = 0;
    bool enough = true;
    for_each_escape(tokens.data(), count, [&](std::size_t i) {
      enough = next != escapes.size();
      if (!enough) return false;
      const std::uint64_t value = load_le<std::uint16_t>(escapes.data() + next) & mask;
      next += 2;
      std::byte* at = slab.data() + i * model.width;
      const std::uint64_t bits = (load_element(at, model.width) & rule.rest_mask) | value << rule.token_shift;
      for (unsigned b = 0; b < model.width; ++b) at[b] = static_cast<std::byte>(bits >> (8 * b) & 0xFF);
      return true;
    });
    if (!enough || next != escapes.size()) return malformed("has a wrong number of escapes");
  }
  return {};
}

void PlanesCoder::encode(ByteView now, const ElementModel& model, Bytes& out) {
  if (model.is_float || model.width == 1) return encode_tokens(now, model, out);
  ByteWriter writer(out);
  plane_.resize(now.size() / model.width);
  for (unsigned plane = 0; plane < model.width; ++plane) {
    for (std::size_t i = 0; i < plane_.size(); ++i) plane_[i] = now[i * model.width + plane];
    packed_.clear();
    const bool smaller = zstd_.compress(plane_, packed_);
    writer.varint(smaller ? packed_.size() + 1 : 0);
    writer.bytes(smaller ? packed_ : plane_);
  }
}

Status PlanesCoder::decode(ByteView body, const ElementModel& model, std::span<std::byte> slab) {
  if (model.is_float || model.width == 1) return decode_tokens(body, model, slab);
  ByteReader in(body);
  plane_.resize(slab.size() / model.width);
  for (unsigned plane = 0; plane < model.width; ++plane) {
    const std::uint64_t packed = in.varint();
    ByteView bytes = in.bytes(packed == 0 ? plane_.size() : packed - 1);
    if (!in.ok()) return malformed("ends inside a plane");
    if (packed != 0) {
      P2PW_CHECK(zstd_.unpatch({}, bytes, plane_));
      bytes = plane_;
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) slab[i * model.width + plane] = bytes[i];
  }
  if (!in.finished()) return malformed("goes on after its last plane");
  return {};
}

}  // namespace p2pw::codec
