#include <algorithm>
#include <bit>
#include <cstring>

#include "chunker/codec/classes.h"
#include "chunker/codec/kernels.h"
#include "chunker/codec/sparse.h"
#include "chunker/codec/sparse_format.h"
#include "chunker/codec/steps.h"

namespace p2pw::codec {
namespace {

Error malformed(const char* what) { return fail(ErrorCode::malformed, std::string("frame ") + what); }

struct ClassPart {
  ClassHead head;
  GapCode code;
  std::size_t gaps_begin = 0, steps_begin = 0;  // in tokens
  std::uint64_t count = 0;                      // changed elements
  RansModel step_model;
  Scratch<std::uint32_t> marks;
  std::size_t mark_count = 0;
  Scratch<std::uint64_t> steps;  // packed, each of the element's width
  bool active() const { return head.positions != Positions::none; }
};

}  // namespace

struct SparseDecoder::State {
  ElementModel model;
  std::uint64_t elements = 0;
  std::uint64_t top = 0;
  std::array<ClassPart, kClasses> parts;
  std::vector<std::uint8_t> head, plain;
  TokenBuffer tokens;
  Scratch<std::uint32_t> coarse;  // where magnitudes have plain bits

  Status read_head(BitReader& in, std::uint64_t& lane_count, std::uint64_t& word_count);
  Status build_tables();
  Status read_tokens(RansDecoder& rans);
  std::span<std::uint8_t> take_tokens(std::uint64_t count) {
    const std::span<std::uint8_t> symbols(tokens.grow(count), count);
    tokens.size += count;
    return symbols;
  }
  template <class T>
  bool read_magnitudes(BitReader& in, ClassPart& part);
  template <class T>
  Status read_plain(BitReader& in);
  template <class T>
  Status apply_floats(std::span<std::byte> slab, SlabHash& hash);
  template <class T>
  Status apply_integers(std::span<std::byte> slab, SlabHash& hash);
  template <class T>
  Status finish(BitReader& in, std::span<std::byte> slab, SlabHash& hash) {
    P2PW_CHECK(read_plain<T>(in));
    return model.is_float ? apply_floats<T>(slab, hash) : apply_integers<T>(slab, hash);
  }
  Status decode(ByteView body, std::uint64_t changed, std::span<std::byte> slab, SlabHash& hash);
};

Status SparseDecoder::State::read_head(BitReader& in, std::uint64_t& lane_count, std::uint64_t& word_count) {
  top = 0;
  if (model.is_float && (!in.get_golomb(model.exponent_bits, top) || top >> model.exponent_bits != 0)) {
    return malformed("has no top exponent");
  }
  HeadCoding coding;
  std::uint64_t gap_tokens = 0;
  for (unsigned k = 0; k < kClasses; ++k) {
    ClassPart& part = parts[k];
    part.head = {};
    part.count = 0;
    if (k != 0 && !model.is_float) continue;
    if (!get_class_head(in, coding, part.head)) return malformed("has a wrong class table");
    if (part.head.positions == Positions::changed && part.head.gap_tokens == 0) return malformed("has an empty class");
    part.count = part.head.changed;
    gap_tokens += part.head.gap_tokens;
    // Every gap token but the escapes marks an element, and an escape passes at least eight.
    if (part.count > elements || gap_tokens > 2 * elements + kClasses) return malformed("has more marks than elements");
    if (part.head.gap_tokens != 0) part.code = gap_code(part.head.pace);
  }
  if (in.left() == 0) return malformed("ends inside its class table");
  lane_count = in.get(1) != 0 ? kLanes : 1;
  if (!in.get_golomb(kWordsOrder, word_count)) return malformed("ends inside its class table");
  return build_tables();
}

Status SparseDecoder::State::build_tables() {
  int base = -1;
  for (unsigned k = 0; k < kClasses; ++k) {
    if (parts[k].head.steps == Steps::base) base = static_cast<int>(k);
  }
  for (unsigned k = 0; k < kClasses; ++k) {
    ClassPart& part = parts[k];
    if (part.head.carries_table()) {
      part.step_model.build(part.head.table.shares());
    } else if (part.head.steps == Steps::derived) {
      if (base < 0) return malformed("has a step table that follows from none");
      const StepTable& table = parts[static_cast<unsigned>(base)].head.table;
      part.step_model.build(table.derived_shares(static_cast<int>(k) - base));
    }
  }
  return {};
}

Status SparseDecoder::State::read_tokens(RansDecoder& rans) {
  tokens.size = 0;
  std::uint64_t total = 0;
  for (ClassPart& part : parts) {
    if (!part.active()) continue;
    part.gaps_begin = tokens.size;
    part.mark_count = 0;
    if (part.head.gap_tokens != 0) {
      const auto symbols = take_tokens(part.head.gap_tokens);
      if (!rans.decode(*part.code.model, symbols)) return malformed("ends inside its gaps");
      part.mark_count = symbols.size() - static_cast<std::size_t>(std::count(symbols.begin(), symbols.end(), part.code.escape));
    }
    if (part.head.positions == Positions::changed) part.count = part.mark_count;
    total += part.count;
    if (total > elements) return malformed("changes more elements than its slab has");
    part.steps_begin = tokens.size;
    if (part.head.steps != Steps::ones && !rans.decode(part.step_model, take_tokens(part.count))) {
      return malformed("ends inside its steps");
    }
  }
  return {};
}

template <class T>
bool SparseDecoder::State::read_magnitudes(BitReader& in, ClassPart& part) {
  using Signed = std::make_signed_t<T>;
  T* steps = reinterpret_cast<T*>(part.steps.data());
  const std::uint8_t* magnitudes = tokens.bytes.data() + part.steps_begin;
  std::uint32_t* places = coarse.reserve(part.count + 1);
  std::size_t count = 0;
  // Most magnitudes are small, but which are not is unpredictable: no branch depends on it.
  for (std::size_t i = 0; i < part.count; ++i) {
    const T negative = static_cast<T>(static_cast<Signed>(steps[i]) >> (8 * sizeof(T) - 1));
    const bool is_coarse = magnitudes[i] >= kExactTokens;
    const T exact = static_cast<T>(is_coarse ? 1 : magnitudes[i] + 1);
    steps[i] = static_cast<T>((exact ^ negative) - negative);
    places[count] = static_cast<std::uint32_t>(i);
    count += is_coarse ? 1 : 0;
  }
  for (std::size_t k = 0; k < count; ++k) {
    const unsigned token = magnitudes[places[k]];
    const bool foreseen = token != kUnforeseen;
    const unsigned extra = foreseen ? extra_bits_of(token) : 8 * sizeof(T);
    if (in.left() < extra) return false;
    const T magnitude = static_cast<T>((foreseen ? base_of(token) : 0) + in.get_wide(extra) + 1);
    T& step = steps[places[k]];
    step = static_cast<Signed>(step) < 0 ? static_cast<T>(T{0} - magnitude) : magnitude;
  }
  return true;
}

template <class T>
Status SparseDecoder::State::read_plain(BitReader& in) {
  for (ClassPart& part : parts) {
    if (!part.active()) continue;
    std::size_t found = 0;
    if (!join_gaps(tokens.span(part.gaps_begin, part.gaps_begin + part.head.gap_tokens), part.code, in, elements,
                   part.marks, found)) {
      return malformed("marks an element past its slab");
    }
    if (in.left() < part.count) return malformed("ends inside its signs");
    std::uint64_t at = in.count();
    kernels().join_signs[std::countr_zero(sizeof(T))](in.data(), at, part.count,
                                                      part.steps.reserve(part.count * sizeof(T) / 8 + 64));
    in.set_count(at);
  }
  for (ClassPart& part : parts) {
    if (part.head.steps != Steps::ones && !read_magnitudes<T>(in, part)) return malformed("ends inside its steps");
  }
  return {};
}

template <class T>
Status SparseDecoder::State::apply_floats(std::span<std::byte> slab, SlabHash& hash) {
  const ClassRule rule(model, static_cast<unsigned>(top));
  ApplyCursor cursor{};
  for (unsigned k = 0; k < kClasses; ++k) {
    const ClassPart& part = parts[k];
    ApplyCursor::Class& c = cursor.classes[k];
    c.active = part.active();
    if (!c.active) continue;
    c.complement = part.head.positions == Positions::unchanged;
    c.marks = part.marks.data();
    c.marks_end = part.marks.data() + part.mark_count;
    c.steps = part.steps.data();
    c.step_count = part.count;
  }
  TrailingHash hasher(hash, slab);
  const Kernels::Apply kernel = kernels().apply[std::countr_zero(sizeof(T))];
  constexpr std::size_t kChunkBytes = kChunkElements * sizeof(T);
  for (std::size_t at = 0; at < slab.size(); at += kChunkBytes) {
    const std::size_t bytes = std::min(kChunkBytes, slab.size() - at);
    kernel(slab.data() + at, bytes / sizeof(T), rule, cursor);
    hasher.reached(at + bytes);
  }
  for (const ApplyCursor::Class& c : cursor.classes) {
    if (c.active && (c.overrun || c.marks != c.marks_end || c.step != c.step_count)) {
      return malformed("was made from another parent: a class is not as large as it says");
    }
  }
  return {};
}

template <class T>
Status SparseDecoder::State::apply_integers(std::span<std::byte> slab, SlabHash& hash) {
  const ClassPart& part = parts[0];
  const T* steps = reinterpret_cast<const T*>(part.steps.data());
  auto patch = [&](std::uint64_t element, T step) {
    std::byte* at = slab.data() + element * sizeof(T);
    store_le(at, static_cast<T>(load_le<T>(at) + step));
  };
  if (part.head.positions == Positions::changed) {
    for (std::size_t i = 0; i < part.mark_count; ++i) patch(part.marks.data()[i], steps[i]);
  } else if (part.head.positions == Positions::unchanged) {
    if (part.count + part.mark_count != elements) return malformed("says two things of how many elements changed");
    std::uint64_t element = 0;
    std::size_t mark = 0;
    for (std::uint64_t i = 0; i < part.count; ++i, ++element) {
      while (mark < part.mark_count && part.marks.data()[mark] == element) ++mark, ++element;
      patch(element, steps[i]);
    }
  }
  hash.add(slab);
  return {};
}

Status SparseDecoder::State::decode(ByteView body, std::uint64_t changed, std::span<std::byte> slab,
                                    SlabHash& hash) {
  constexpr std::size_t kPad = 80, kMaxHead = 16384;
  elements = slab.size() / model.width;
  const std::size_t head_bytes = std::min(body.size(), kMaxHead);
  head.assign(head_bytes + kPad, 0);
  if (head_bytes != 0) std::memcpy(head.data(), body.data(), head_bytes);
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
    case 1: return finish<std::uint8_t>(plain_bits, slab, hash);
    case 2: return finish<std::uint16_t>(plain_bits, slab, hash);
    case 4: return finish<std::uint32_t>(plain_bits, slab, hash);
    default: return finish<std::uint64_t>(plain_bits, slab, hash);
  }
}

SparseDecoder::SparseDecoder() : state_(std::make_unique<State>()) {}
SparseDecoder::~SparseDecoder() = default;
SparseDecoder::SparseDecoder(SparseDecoder&&) noexcept = default;

Status SparseDecoder::decode(ByteView body, const ElementModel& model, std::uint64_t changed,
                             std::span<std::byte> slab, SlabHash& hash) {
  state_->model = model;
  return state_->decode(body, changed, slab, hash);
}

}  // namespace p2pw::codec
