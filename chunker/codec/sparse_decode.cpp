#include <algorithm>
#include <cstring>

#include "chunker/codec/classes.h"
#include "chunker/codec/sparse.h"
#include "chunker/codec/sparse_format.h"
#include "chunker/codec/steps.h"

namespace p2pw::codec {
namespace {

Error malformed(const char* what) { return fail(ErrorCode::malformed, std::string("frame ") + what); }

struct MarkSet {
  unsigned kind = kNone;
  std::uint64_t token_count = 0;
  GapCode code;
  std::size_t begin = 0;  // in tokens
};

struct ClassPart {
  MarkSet positions, large;
  std::uint64_t count = 0;        // changed elements
  std::uint64_t large_count = 0;  // of them, with a step other than +-1
  std::unique_ptr<RansModel> table;
  std::size_t magnitudes = 0;  // begin, in tokens
  std::vector<std::uint32_t> marks;
  std::vector<std::uint8_t> steps;
};

}  // namespace

struct SparseDecoder::State {
  ElementModel model;
  std::uint64_t elements = 0;
  std::uint64_t top = 0;
  std::uint64_t budget = 0;  // tokens that may still come
  unsigned last_pace = 0;
  std::array<ClassPart, kClasses> parts;
  std::vector<std::uint8_t> head, plain, tokens;
  std::vector<std::uint32_t> large;

  bool get_pace(BitReader& in, GapCode& code) {
    std::uint64_t folded = 0;
    if (!in.get_golomb(2, folded) || folded > 2 * kMaxPace) return false;
    const int half = static_cast<int>(folded / 2);
    const int pace = static_cast<int>(last_pace) + (folded % 2 != 0 ? -half - 1 : half);
    if (pace < static_cast<int>(kMinPace) || pace > static_cast<int>(kMaxPace)) return false;
    last_pace = static_cast<unsigned>(pace);
    code = gap_code(last_pace);
    return true;
  }
  bool get_marks(BitReader& in, MarkSet& set) {
    if (!in.get_golomb(kCountOrder, set.token_count) || set.token_count > budget) return false;
    budget -= set.token_count;
    return set.token_count == 0 || get_pace(in, set.code);
  }
  bool get_kind(BitReader& in, MarkSet& set) {
    set = {};
    if (in.left() < 2) return false;
    set.kind = static_cast<unsigned>(in.get(2));
    return set.kind <= kUnmarked;
  }
  Status read_head(BitReader& in, std::uint64_t& lane_count, std::uint64_t& word_count);
  Status read_tokens(RansDecoder& rans);
  bool read_set(RansDecoder& rans, MarkSet& set, std::uint64_t& marked);
  template <class T>
  Status read_plain(BitReader& in);
  template <class T>
  Status apply(std::span<std::byte> slab);
  Status decode(ByteView body, std::uint64_t changed, std::span<std::byte> slab);
};

Status SparseDecoder::State::read_head(BitReader& in, std::uint64_t& lane_count, std::uint64_t& word_count) {
  top = 0;
  last_pace = kFirstPace;
  budget = 3 * elements + 64;
  if (model.is_float && (!in.get_golomb(model.exponent_bits, top) || top >> model.exponent_bits != 0)) {
    return malformed("has no top exponent");
  }
  for (unsigned k = 0; k < kClasses; ++k) {
    ClassPart& part = parts[k];
    part.positions = part.large = {};
    part.count = part.large_count = 0;
    if (k != 0 && !model.is_float) continue;
    if (!get_kind(in, part.positions)) return malformed("ends inside its class table");
    if (part.positions.kind != kNone) {
      if (part.positions.kind == kUnmarked && (!in.get_golomb(kCountOrder, part.count) || part.count > elements)) {
        return malformed("changes more elements than its slab has");
      }
      if (!get_marks(in, part.positions)) return malformed("has a class with a wrong gap table");
      const unsigned kept = last_pace;
      if (!get_kind(in, part.large)) return malformed("ends inside its class table");
      if (part.large.kind != kNone) {
        if (!get_marks(in, part.large)) return malformed("has a class with a wrong step table");
        if (part.table == nullptr) part.table = std::make_unique<RansModel>();
        if (!get_table(in, kMagnitudeTokens, *part.table)) return malformed("has a class with a wrong step table");
      }
      last_pace = kept;
    }
    last_pace -= last_pace >= kMinPace + 8 ? 8 : 0;
  }
  if (in.left() == 0) return malformed("ends inside its class table");
  lane_count = in.get(1) != 0 ? kLanes : 1;
  if (!in.get_golomb(kWordsOrder, word_count)) return malformed("ends inside its class table");
  return {};
}

bool SparseDecoder::State::read_set(RansDecoder& rans, MarkSet& set, std::uint64_t& marked) {
  set.begin = tokens.size();
  marked = 0;
  if (set.token_count == 0) return true;
  tokens.resize(tokens.size() + set.token_count);
  const auto symbols = std::span(tokens).subspan(set.begin);
  if (!rans.decode(*set.code.model, symbols)) return false;
  marked = set.token_count -
           static_cast<std::uint64_t>(std::count(symbols.begin(), symbols.end(), set.code.escape));
  return true;
}

Status SparseDecoder::State::read_tokens(RansDecoder& rans) {
  tokens.clear();
  std::uint64_t total = 0;
  for (ClassPart& part : parts) {
    if (part.positions.kind == kNone) continue;
    std::uint64_t marked = 0;
    if (!read_set(rans, part.positions, marked)) return malformed("ends inside its gaps");
    if (part.positions.kind == kMarked) part.count = marked;
    total += part.count;
    if (total > elements) return malformed("changes more elements than its slab has");
    if (part.large.kind == kNone) continue;
    if (!read_set(rans, part.large, marked)) return malformed("ends inside its steps");
    if (marked > part.count) return malformed("has more steps than changes");
    part.large_count = part.large.kind == kMarked ? marked : part.count - marked;
    part.magnitudes = tokens.size();
    tokens.resize(tokens.size() + part.large_count);
    if (!rans.decode(*part.table, std::span(tokens).subspan(part.magnitudes))) return malformed("ends inside its steps");
  }
  return {};
}

template <class T>
Status SparseDecoder::State::read_plain(BitReader& in) {
  for (ClassPart& part : parts) {
    if (part.positions.kind == kNone) continue;
    const MarkSet& set = part.positions;
    if (!join_gaps(std::span(tokens).subspan(set.begin, set.token_count), set.code, in, elements, part.marks)) {
      return malformed("marks an element past its slab");
    }
    if (in.left() < part.count) return malformed("ends inside its signs");
    part.steps.resize(part.count * sizeof(T));
    T* steps = reinterpret_cast<T*>(part.steps.data());
    for (std::uint64_t i = 0; i < part.count; ++i) steps[i] = in.get(1) != 0 ? static_cast<T>(~T{0}) : T{1};
    if (part.large.kind == kNone) continue;
    if (!join_gaps(std::span(tokens).subspan(part.large.begin, part.large.token_count), part.large.code, in, part.count,
                   large)) {
      return malformed("marks a step past its class");
    }
    std::size_t next_mark = 0;
    std::uint64_t position = 0;
    for (std::uint64_t i = 0; i < part.large_count; ++i, ++position) {
      if (part.large.kind == kMarked) {
        position = large[i];
      } else {
        while (next_mark < large.size() && large[next_mark] == position) ++next_mark, ++position;
      }
      const unsigned token = tokens[part.magnitudes + i];
      const unsigned extra = extra_bits_of(token);
      if (in.left() < extra) return malformed("ends inside its steps");
      const T magnitude = static_cast<T>(base_of(token) + in.get_wide(extra) + 2);
      steps[position] = steps[position] == 1 ? magnitude : static_cast<T>(T{0} - magnitude);
    }
  }
  return {};
}

template <class T>
Status SparseDecoder::State::apply(std::span<std::byte> slab) {
  std::array<std::uint32_t, kClasses> seen{};
  std::array<std::size_t, kClasses> mark{}, step{};
  for (std::size_t at = 0; at < slab.size(); at += sizeof(T)) {
    T bits = load_le<T>(slab.data() + at);
    const unsigned k = model.is_float ? class_of(exponent_of(bits, model), static_cast<unsigned>(top)) : 0;
    const ClassPart& part = parts[k];
    const std::uint32_t rank = seen[k]++;
    if (part.positions.kind == kNone) continue;
    const bool marked = mark[k] < part.marks.size() && part.marks[mark[k]] == rank;
    mark[k] += marked ? 1 : 0;
    if (marked != (part.positions.kind == kMarked)) continue;
    if (step[k] == part.count) return malformed("was made from another parent: a class is larger than it says");
    T s;
    std::memcpy(&s, part.steps.data() + sizeof(T) * step[k]++, sizeof s);
    bits = model.is_float ? from_line(static_cast<T>(to_line(bits) + s)) : static_cast<T>(bits + s);
    store_le(slab.data() + at, bits);
  }
  for (unsigned k = 0; k < kClasses; ++k) {
    if (parts[k].positions.kind != kNone && (mark[k] != parts[k].marks.size() || step[k] != parts[k].count)) {
      return malformed("was made from another parent: a class is smaller than it says");
    }
  }
  return {};
}

Status SparseDecoder::State::decode(ByteView body, std::uint64_t changed, std::span<std::byte> slab) {
  constexpr std::size_t kPad = 8, kMaxHead = 16384;
  elements = slab.size() / model.width;
  const std::size_t head_bytes = std::min(body.size(), kMaxHead);
  head.assign(head_bytes + kPad, 0);
  std::memcpy(head.data(), body.data(), head_bytes);
  BitReader head_bits(head.data(), head_bytes);
  std::uint64_t lane_count = 0, word_count = 0;
  P2PW_CHECK(read_head(head_bits, lane_count, word_count));
  ByteReader in(body);
  in.bytes((head_bits.count() + 7) / 8);
  const ByteView lane_bytes = in.bytes(lane_count * 4);
  if (word_count > body.size()) return malformed("ends inside its words");
  const ByteView words = in.bytes(word_count * 2);
  if (!in.ok()) return malformed("ends inside its words");
  Lanes lanes;
  for (std::size_t lane = 0; lane < lane_count; ++lane) lanes[lane] = load_le<std::uint32_t>(lane_bytes.data() + 4 * lane);
  RansDecoder rans(lanes, static_cast<unsigned>(lane_count), words);
  P2PW_CHECK(read_tokens(rans));
  if (!rans.finished()) return malformed("has words left over");
  std::uint64_t total = 0;
  for (const ClassPart& part : parts) total += part.count;
  if (total != changed) return malformed("changes another number of elements than it says");

  const ByteView rest = in.rest();
  plain.assign(2 * lane_count + rest.size() + kPad, 0);
  for (std::size_t lane = 0; lane < lane_count; ++lane) {
    store_le(plain.data() + 2 * lane, static_cast<std::uint16_t>(rans.lanes()[lane]));
  }
  if (!rest.empty()) std::memcpy(plain.data() + 2 * lane_count, rest.data(), rest.size());
  BitReader plain_bits(plain.data(), 2 * lane_count + rest.size());
  switch (model.width) {
    case 1: P2PW_CHECK(read_plain<std::uint8_t>(plain_bits)); return apply<std::uint8_t>(slab);
    case 2: P2PW_CHECK(read_plain<std::uint16_t>(plain_bits)); return apply<std::uint16_t>(slab);
    case 4: P2PW_CHECK(read_plain<std::uint32_t>(plain_bits)); return apply<std::uint32_t>(slab);
    default: P2PW_CHECK(read_plain<std::uint64_t>(plain_bits)); return apply<std::uint64_t>(slab);
  }
}

SparseDecoder::SparseDecoder() : state_(std::make_unique<State>()) {}
SparseDecoder::~SparseDecoder() = default;
SparseDecoder::SparseDecoder(SparseDecoder&&) noexcept = default;

Status SparseDecoder::decode(ByteView body, const ElementModel& model, std::uint64_t changed,
                             std::span<std::byte> slab) {
  state_->model = model;
  return state_->decode(body, changed, slab);
}

}  // namespace p2pw::codec
