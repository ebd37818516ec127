#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "chunker/codec/classes.h"
#include "chunker/codec/kernels.h"
#include "chunker/codec/sparse.h"
#include "chunker/codec/sparse_format.h"
#include "chunker/codec/steps.h"

namespace p2pw::codec {

struct SparseEncoder::State {
  struct ClassCode {
    ClassHead head;
    std::size_t gaps_begin = 0, steps_begin = 0, end = 0;  // in tokens
    std::size_t coarse_begin = 0, coarse_end = 0;          // in coarse
    TokenCounts step_counts;
    RansModel step_model;
  };

  Changes changes;
  ElementModel model;
  unsigned top = 0;
  std::array<ClassCode, kClasses> codes;
  BitWriter head, plain;
  TokenBuffer tokens;  // of all sequences
  Scratch<std::uint32_t> marks;
  Scratch<std::uint32_t> coarse;  // where magnitudes have plain bits
  std::size_t coarse_count = 0;
  std::vector<std::uint16_t> words;

  template <class T>
  std::uint64_t compare_floats(ByteView parent, ByteView now, SlabHash& hash, SlabHash* parent_hash);
  template <class T>
  std::uint64_t compare_integers(ByteView parent, ByteView now, SlabHash& hash, SlabHash* parent_hash);
  template <class T>
  std::uint64_t compare(ByteView parent, ByteView now, SlabHash& hash, SlabHash* parent_hash) {
    return model.is_float ? compare_floats<T>(parent, now, hash, parent_hash)
                          : compare_integers<T>(parent, now, hash, parent_hash);
  }
  unsigned class_count() const { return model.is_float ? kClasses : 1; }
  void code_positions(const ClassChanges& c, ClassCode& code);
  template <class T>
  void code_steps(const ClassChanges& c, ClassCode& code);
  void code_class(const ClassChanges& c, ClassCode& code);
  void choose_tables();
  template <class T>
  void code_magnitudes(const ClassChanges& c, const ClassCode& code);
  void put(Bytes& out);
};

namespace {

constexpr std::uint64_t kTopShare = 200;  // one in

// The exponent that all but the largest few of the weights do not exceed. One cache line in 61 is looked at: enough to
// know, and at a stride that falls on other columns in each row of a tensor.
template <class T>
unsigned top_exponent(ByteView parent, const ElementModel& model) {
  constexpr std::size_t kLine = 64, kStride = 61 * kLine;
  for (std::size_t at = 0; at < parent.size(); at += kStride) __builtin_prefetch(parent.data() + at);
  std::vector<std::uint32_t> histogram(std::size_t{1} << model.exponent_bits);
  std::uint32_t seen = 0;
  for (std::size_t line = 0; line < parent.size(); line += kStride) {
    const std::size_t end = std::min(parent.size(), line + kLine);
    for (std::size_t at = line; at < end; at += sizeof(T), ++seen) {
      ++histogram[exponent_of(load_le<T>(parent.data() + at), model)];
    }
  }
  std::uint32_t above = 0;
  for (std::size_t e = histogram.size(); e-- > 0;) {
    above += histogram[e];
    if (above * kTopShare >= seen) return static_cast<unsigned>(e);
  }
  return 0;
}

TokenCounts count_tokens(const std::uint8_t* tokens, std::size_t count) {
  std::uint32_t part[4][kMagnitudeTokens] = {};  // apart, so that equal neighbours do not wait for each other
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (std::size_t k = 0; k < 4; ++k) ++part[k][tokens[i + k]];
  }
  for (; i < count; ++i) ++part[0][tokens[i]];
  TokenCounts counts{};
  for (const auto& p : part) {
    for (unsigned t = 0; t < kMagnitudeTokens; ++t) counts[t] += p[t];
  }
  return counts;
}

// The positions below `universe` that are not in `positions`.
std::span<const std::uint32_t> complement_of(std::span<const std::uint32_t> positions, std::uint32_t universe,
                                             Scratch<std::uint32_t>& out) {
  std::uint32_t* to = out.reserve(universe - positions.size());
  const std::uint32_t* first = to;
  std::uint32_t next = 0;
  for (std::uint32_t position : positions) {
    while (next < position) *to++ = next++;
    ++next;
  }
  while (next < universe) *to++ = next++;
  return {first, to};
}

}  // namespace

template <class T>
std::uint64_t SparseEncoder::State::compare_floats(ByteView parent, ByteView now, SlabHash& hash, SlabHash* parent_hash) {
  top = top_exponent<T>(parent, model);
  const ClassRule rule(model, top);
  const Kernels::Compare kernel = kernels().compare[std::countr_zero(sizeof(T))];
  CompareCursor cursor{};
  TrailingHash hasher(hash, now);
  std::optional<TrailingHash> parent_hasher;
  if (parent_hash != nullptr) parent_hasher.emplace(*parent_hash, parent);
  constexpr std::size_t kChunkBytes = kChunkElements * sizeof(T);
  for (std::size_t at = 0; at < now.size(); at += kChunkBytes) {
    const std::size_t bytes = std::min(kChunkBytes, now.size() - at);
    for (unsigned c = 0; c < kClasses; ++c) {
      changes[c].reserve(cursor.count[c] + kChunkElements, cursor.count[c], sizeof(T));
      cursor.ranks[c] = changes[c].ranks.data();
      cursor.steps[c] = changes[c].steps.data();
    }
    kernel(parent.data() + at, now.data() + at, bytes / sizeof(T), rule, cursor);
    hasher.reached(at + bytes);
    if (parent_hasher) parent_hasher->reached(at + bytes);
  }
  std::uint64_t changed = 0;
  for (unsigned c = 0; c < kClasses; ++c) {
    changes[c].count = cursor.count[c];
    changes[c].size = cursor.size[c];
    changed += cursor.count[c];
  }
  return changed;
}

template <class T>
std::uint64_t SparseEncoder::State::compare_integers(ByteView parent, ByteView now, SlabHash& hash,
                                                     SlabHash* parent_hash) {
  ClassChanges& c = changes[0];
  for (auto& other : changes) other.count = 0, other.size = 0;
  c.size = static_cast<std::uint32_t>(now.size() / sizeof(T));
  constexpr std::size_t kBlockBytes = 64 * sizeof(T);
  for (std::size_t at = 0; at < now.size(); at += kBlockBytes) {
    const std::size_t bytes = std::min(kBlockBytes, now.size() - at);
    if (std::memcmp(parent.data() + at, now.data() + at, bytes) == 0) continue;
    c.reserve(c.count + 64, c.count, sizeof(T));
    for (std::size_t i = at; i < at + bytes; i += sizeof(T)) {
      const T before = load_le<T>(parent.data() + i), after = load_le<T>(now.data() + i);
      c.ranks.data()[c.count] = static_cast<std::uint32_t>(i / sizeof(T));
      c.steps_as<T>()[c.count] = static_cast<T>(after - before);
      c.count += before != after ? 1 : 0;
    }
  }
  hash.add(now);
  if (parent_hash != nullptr) parent_hash->add(parent);
  return c.count;
}

void SparseEncoder::State::code_positions(const ClassChanges& c, ClassCode& code) {
  std::span<const std::uint32_t> positions(c.ranks.data(), c.count);
  code.head.positions = Positions::changed;
  if (c.count > c.size / 2) {
    code.head.positions = Positions::unchanged;
    code.head.changed = c.count;
    positions = complement_of(positions, c.size, marks);
  }
  if (positions.empty()) return;
  code.head.pace = pace_for(positions.size(), c.size);
  split_gaps(positions, gap_code(code.head.pace), tokens, plain);
}

template <class T>
void SparseEncoder::State::code_steps(const ClassChanges& c, ClassCode& code) {
  const T* steps = c.steps_as<T>();
  plain.reserve(c.count);
  std::uint64_t at = plain.count();
  const std::size_t large =
      kernels().split_signs[std::countr_zero(sizeof(T))](steps, c.count, plain.data(), at);
  plain.set_count(at);
  if (large == 0) return;
  code.head.steps = Steps::derived;
  std::uint8_t* to = tokens.grow(c.count);
  tokens.size += c.count;
  code.coarse_begin = coarse_count;
  std::uint32_t* places = coarse.reserve(coarse_count + c.count, coarse_count);
  // Most magnitudes are small, but which are not is unpredictable: no branch depends on it.
  for (std::size_t i = 0; i < c.count; ++i) {
    const T v = static_cast<T>(magnitude_of(steps[i]) - 1);
    to[i] = static_cast<std::uint8_t>(std::min<T>(v, kExactTokens));
    places[coarse_count] = static_cast<std::uint32_t>(i);
    coarse_count += v >= kExactTokens ? 1 : 0;
  }
  code.coarse_end = coarse_count;
  for (std::size_t k = code.coarse_begin; k < coarse_count; ++k) {
    to[places[k]] = magnitude_token(static_cast<T>(magnitude_of(steps[places[k]]) - 1)).token;
  }
  code.step_counts = count_tokens(to, c.count);
}

// The plain bits of magnitudes, now that the table is known.
template <class T>
void SparseEncoder::State::code_magnitudes(const ClassChanges& c, const ClassCode& code) {
  const T* steps = c.steps_as<T>();
  std::uint8_t* step_tokens = tokens.bytes.data() + code.steps_begin;
  const auto put = [&](std::size_t i) {
    const T v = static_cast<T>(magnitude_of(steps[i]) - 1);
    std::uint8_t& token = step_tokens[i];
    if (code.step_model.has(token)) {
      const unsigned extra = extra_bits_of(token);
      plain.put_wide(v & ((std::uint64_t{1} << extra) - 1), extra);
    } else {
      token = kUnforeseen;
      plain.put_wide(v, 8 * sizeof(T));
    }
  };
  bool exact_foreseen = true;
  for (std::uint8_t token = 0; token < kExactTokens; ++token) {
    exact_foreseen &= code.step_counts[token] == 0 || code.step_model.has(token);
  }
  if (exact_foreseen) {
    plain.reserve((code.coarse_end - code.coarse_begin) * 8 * sizeof(T));
    for (std::size_t k = code.coarse_begin; k < code.coarse_end; ++k) put(coarse.data()[k]);
  } else {
    plain.reserve(c.count * 8 * sizeof(T));
    for (std::size_t i = 0; i < c.count; ++i) put(i);
  }
}

void SparseEncoder::State::code_class(const ClassChanges& c, ClassCode& code) {
  code.head = {};
  code.gaps_begin = code.steps_begin = code.end = tokens.size;
  if (c.count == 0) return;
  code_positions(c, code);
  code.steps_begin = tokens.size;
  code.head.gap_tokens = code.steps_begin - code.gaps_begin;
  switch (model.width) {
    case 1: code_steps<std::uint8_t>(c, code); break;
    case 2: code_steps<std::uint16_t>(c, code); break;
    case 4: code_steps<std::uint32_t>(c, code); break;
    default: code_steps<std::uint64_t>(c, code); break;
  }
  code.end = tokens.size;
}

// The class with most large steps is the base; others carry a table where what follows from the base's costs more.
void SparseEncoder::State::choose_tables() {
  int chosen = -1;
  std::size_t most = 0;
  for (unsigned k = 0; k < class_count(); ++k) {
    if (codes[k].head.steps == Steps::ones) continue;
    const std::size_t large = changes[k].count - codes[k].step_counts[0];
    if (large > most) {
      chosen = static_cast<int>(k);
      most = large;
    }
  }
  if (chosen < 0) return;
  const StepTable base = StepTable::nearest(codes[static_cast<unsigned>(chosen)].step_counts);
  for (unsigned k = 0; k < class_count(); ++k) {
    ClassCode& code = codes[k];
    if (code.head.steps == Steps::ones) continue;
    const int distance = static_cast<int>(k) - chosen;
    Shares shares = distance == 0 ? base.shares() : base.derived_shares(distance);
    code.head.steps = Steps::derived;
    if (distance == 0) {
      code.head.steps = Steps::base;
      code.head.table = base;
    } else {
      const std::uint64_t cost = cost_of(code.step_counts, shares, 8 * model.width), least = least_cost_of(code.step_counts);
      if (cost > least) {
        const StepTable own = StepTable::nearest(code.step_counts);
        if (cost > least + own.bits()) {
          code.head.steps = Steps::carried;
          code.head.table = own;
          shares = own.shares();
        }
      }
    }
    code.step_model.build(shares);
  }
}

void SparseEncoder::State::put(Bytes& out) {
  head.clear();
  plain.clear();
  tokens.size = 0;
  coarse_count = 0;
  for (unsigned k = 0; k < class_count(); ++k) code_class(changes[k], codes[k]);
  choose_tables();
  for (unsigned k = 0; k < class_count(); ++k) {
    if (codes[k].head.steps == Steps::ones) continue;
    switch (model.width) {
      case 1: code_magnitudes<std::uint8_t>(changes[k], codes[k]); break;
      case 2: code_magnitudes<std::uint16_t>(changes[k], codes[k]); break;
      case 4: code_magnitudes<std::uint32_t>(changes[k], codes[k]); break;
      default: code_magnitudes<std::uint64_t>(changes[k], codes[k]); break;
    }
  }
  HeadCoding coding;
  if (model.is_float) head.put_golomb(top, model.exponent_bits);
  std::vector<RansSequence> sequences;
  for (unsigned k = 0; k < class_count(); ++k) {
    const ClassCode& code = codes[k];
    put_class_head(code.head, coding, head);
    if (code.steps_begin != code.gaps_begin) {
      sequences.push_back({gap_code(code.head.pace).model, tokens.span(code.gaps_begin, code.steps_begin)});
    }
    if (code.end != code.steps_begin) sequences.push_back({&code.step_model, tokens.span(code.steps_begin, code.end)});
  }
  const unsigned lane_count = tokens.size < kOneLaneBelow ? 1 : kLanes;
  Lanes lanes;
  const ByteView plain_bytes = plain.bytes();
  for (unsigned lane = 0; lane < lane_count; ++lane) {
    std::uint32_t payload = 0;
    for (unsigned b = 0; b < 2; ++b) {
      if (2 * lane + b < plain_bytes.size()) payload |= static_cast<std::uint32_t>(plain_bytes[2 * lane + b]) << (8 * b);
    }
    lanes[lane] = kLaneLow | payload;
  }
  const auto coded = rans_encode(sequences, lane_count, lanes, words);
  head.reserve(8);
  head.put(lane_count == 1 ? 0 : 1, 1);
  head.put_golomb(coded.size(), kWordsOrder);

  const ByteView rest = plain_bytes.subspan(std::min<std::size_t>(plain_bytes.size(), 2 * lane_count));
  const std::size_t start = out.size(), words_bytes = coded.size() * 2;
  out.resize(start + head.byte_count() + 4 * lane_count + words_bytes + rest.size());
  std::byte* to = out.data() + start;
  if (head.byte_count() != 0) std::memcpy(to, head.bytes().data(), head.byte_count());
  to += head.byte_count();
  for (unsigned lane = 0; lane < lane_count; ++lane, to += 4) store_le(to, lanes[lane]);
  put_words(coded, to);
  to += words_bytes;
  if (!rest.empty()) std::memcpy(to, rest.data(), rest.size());
}

SparseEncoder::SparseEncoder() : state_(std::make_unique<State>()) {}
SparseEncoder::~SparseEncoder() = default;
SparseEncoder::SparseEncoder(SparseEncoder&&) noexcept = default;

std::uint64_t SparseEncoder::compare(ByteView parent, ByteView now, const ElementModel& model, SlabHash& hash,
                                     SlabHash* parent_hash) {
  if (now.empty() || std::memcmp(parent.data(), now.data(), now.size()) == 0) {  // stops at the first difference
    hash.add(now);  // the caller takes it for the parent's, too
    return 0;
  }
  state_->model = model;
  switch (model.width) {
    case 1: return state_->compare<std::uint8_t>(parent, now, hash, parent_hash);
    case 2: return state_->compare<std::uint16_t>(parent, now, hash, parent_hash);
    case 4: return state_->compare<std::uint32_t>(parent, now, hash, parent_hash);
    default: return state_->compare<std::uint64_t>(parent, now, hash, parent_hash);
  }
}

void SparseEncoder::put(Bytes& out) { state_->put(out); }

}  // namespace p2pw::codec
