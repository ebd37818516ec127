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
  Scratch<std::uint32_t> marks;
  std::size_t mark_count = 0;
  Scratch<std::uint64_t> steps;  // packed, each of the element's width
};

}  // namespace

struct SparseDecoder::State {
  ElementModel model;
  std::uint64_t elements = 0;
  std::uint64_t top = 0;
  std::uint64_t budget = 0;  // tokens that may still come
  unsigned last_pace = 0;
  std::array<ClassPart, kClasses> parts;
  std::vector<std::uint8_t> head, plain;
  TokenBuffer tokens;
  Scratch<std::uint32_t> large;

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
  set.begin = tokens.size;
  marked = 0;
  if (set.token_count == 0) return true;
  const std::span<std::uint8_t> symbols(tokens.grow(set.token_count), set.token_count);
  tokens.size += set.token_count;
  if (!rans.decode(*set.code.model, symbols)) return false;
  marked = set.token_count -
           static_cast<std::uint64_t>(std::count(symbols.begin(), symbols.end(), set.code.escape));
  return true;
}

Status SparseDecoder::State::read_tokens(RansDecoder& rans) {
  tokens.size = 0;
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
    part.magnitudes = tokens.size;
    const std::span<std::uint8_t> symbols(tokens.grow(part.large_count), part.large_count);
    tokens.size += part.large_count;
    if (!rans.decode(*part.table, symbols)) return malformed("ends inside its steps");
  }
  return {};
}

template <class T>
Status SparseDecoder::State::read_plain(BitReader& in) {
  for (ClassPart& part : parts) {
    if (part.positions.kind == kNone) continue;
    const MarkSet& set = part.positions;
    if (!join_gaps(tokens.span(set.begin, set.begin + set.token_count), set.code, in, elements, part.marks,
                   part.mark_count)) {
      return malformed("marks an element past its slab");
    }
    if (in.left() < part.count) return malformed("ends inside its signs");
    T* steps = reinterpret_cast<T*>(part.steps.reserve(part.count * sizeof(T) / 8 + 64));
    std::uint64_t at = in.count();
    kernels().join_signs[std::countr_zero(sizeof(T))](in.data(), at, part.count, steps);
    in.set_count(at);
    if (part.large.kind == kNone) continue;
    std::size_t large_marks = 0;
    if (!join_gaps(tokens.span(part.large.begin, part.large.begin + part.large.token_count), part.large.code, in,
                   part.count, large, large_marks)) {
      return malformed("marks a step past its class");
    }
    std::size_t next_mark = 0;
    std::uint64_t position = 0;
    for (std::uint64_t i = 0; i < part.large_count; ++i, ++position) {
      if (part.large.kind == kMarked) {
        position = large.data()[i];
      } else {
        while (next_mark < large_marks && large.data()[next_mark] == position) ++next_mark, ++position;
      }
      const unsigned token = tokens.bytes.data()[part.magnitudes + i];
      const unsigned extra = extra_bits_of(token);
      if (in.left() < extra) return malformed("ends inside its steps");
      const T magnitude = static_cast<T>(base_of(token) + in.get_wide(extra) + 2);
      steps[position] = steps[position] == 1 ? magnitude : static_cast<T>(T{0} - magnitude);
    }
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
    c.active = part.positions.kind != kNone;
    if (!c.active) continue;
    c.complement = part.positions.kind == kUnmarked;
    c.marks = part.marks.data();
    c.marks_end = part.marks.data() + part.mark_count;
    c.steps = part.steps.data();
    c.step_count = part.count;
  }
  const Kernels::Apply kernel = kernels().apply[std::countr_zero(sizeof(T))];
  constexpr std::size_t kChunkBytes = kChunkElements * sizeof(T);
  for (std::size_t at = 0; at < slab.size(); at += kChunkBytes) {
    const std::size_t bytes = std::min(kChunkBytes, slab.size() - at);
    kernel(slab.data() + at, bytes / sizeof(T), rule, cursor);
    hash.add(slab.subspan(at, bytes));
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
  if (part.positions.kind == kMarked) {
    for (std::size_t i = 0; i < part.mark_count; ++i) patch(part.marks.data()[i], steps[i]);
  } else if (part.positions.kind == kUnmarked) {
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
