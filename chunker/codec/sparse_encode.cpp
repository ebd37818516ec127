#include <algorithm>
#include <bit>
#include <cstring>

#include "chunker/codec/classes.h"
#include "chunker/codec/kernels.h"
#include "chunker/codec/sparse.h"
#include "chunker/codec/sparse_format.h"
#include "chunker/codec/steps.h"

namespace p2pw::codec {

struct SparseEncoder::State {
  Changes changes;
  ElementModel model;
  unsigned top = 0;
  BitWriter head, plain;
  TokenBuffer tokens;  // of all sequences
  struct Part {
    const RansModel* model;
    std::size_t begin, end;  // in tokens
  };
  std::vector<Part> parts;
  std::vector<std::unique_ptr<RansModel>> tables;
  std::size_t tables_used = 0;
  Scratch<std::uint32_t> marks, large;
  std::vector<std::uint16_t> words;
  unsigned last_pace = 0;

  template <class T>
  std::uint64_t compare_floats(ByteView parent, ByteView now, SlabHash& hash);
  template <class T>
  std::uint64_t compare_integers(ByteView parent, ByteView now, SlabHash& hash);
  template <class T>
  std::uint64_t compare(ByteView parent, ByteView now, SlabHash& hash) {
    return model.is_float ? compare_floats<T>(parent, now, hash) : compare_integers<T>(parent, now, hash);
  }
  void put_pace(unsigned pace);
  void put_marks(std::span<const std::uint32_t> positions, std::uint64_t universe, unsigned count_order);
  void put_positions(const ClassChanges& c);
  template <class T>
  void put_steps(const ClassChanges& c);
  void put(Bytes& out);
};

namespace {

template <class T>
unsigned top_exponent(ByteView parent, const ElementModel& model) {
  // One block of 64 elements in 256 is enough to know where the weights lie.
  std::vector<std::uint32_t> histogram(std::size_t{1} << model.exponent_bits);
  const std::size_t count = parent.size() / sizeof(T);
  std::uint32_t seen = 0;
  for (std::size_t block = 0; block < count; block += 64 * 256) {
    for (std::size_t i = block; i < std::min(count, block + 64); ++i, ++seen) {
      ++histogram[exponent_of(load_le<T>(parent.data() + i * sizeof(T)), model)];
    }
  }
  std::uint32_t above = 0;
  for (std::size_t e = histogram.size(); e-- > 0;) {
    above += histogram[e];
    if (above * std::uint64_t{100} >= seen) return static_cast<unsigned>(e);
  }
  return 0;
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
std::uint64_t SparseEncoder::State::compare_floats(ByteView parent, ByteView now, SlabHash& hash) {
  top = top_exponent<T>(parent, model);
  const ClassRule rule(model, top);
  const Kernels::Compare kernel = kernels().compare[std::countr_zero(sizeof(T))];
  CompareCursor cursor{};
  constexpr std::size_t kChunkBytes = kChunkElements * sizeof(T);
  for (std::size_t at = 0; at < now.size(); at += kChunkBytes) {
    const std::size_t bytes = std::min(kChunkBytes, now.size() - at);
    for (unsigned c = 0; c < kClasses; ++c) {
      changes[c].reserve(cursor.count[c] + kChunkElements, cursor.count[c], sizeof(T));
      cursor.ranks[c] = changes[c].ranks.data();
      cursor.steps[c] = changes[c].steps.data();
    }
    kernel(parent.data() + at, now.data() + at, bytes / sizeof(T), rule, cursor);
    hash.add(now.subspan(at, bytes));
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
std::uint64_t SparseEncoder::State::compare_integers(ByteView parent, ByteView now, SlabHash& hash) {
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
  return c.count;
}

void SparseEncoder::State::put_pace(unsigned pace) {
  const int difference = static_cast<int>(pace) - static_cast<int>(last_pace);
  head.put_golomb(static_cast<std::uint64_t>(difference < 0 ? -2 * difference - 1 : 2 * difference), 2);
  last_pace = pace;
}

void SparseEncoder::State::put_marks(std::span<const std::uint32_t> positions, std::uint64_t universe,
                                     unsigned count_order) {
  if (positions.empty()) {
    head.put_golomb(0, count_order);
    return;
  }
  const unsigned pace = pace_for(positions.size(), universe);
  const GapCode code = gap_code(pace);
  const std::size_t begin = tokens.size;
  split_gaps(positions, code, tokens, plain);
  head.put_golomb(tokens.size - begin, count_order);
  put_pace(pace);
  parts.push_back({code.model, begin, tokens.size});
}

void SparseEncoder::State::put_positions(const ClassChanges& c) {
  const std::span<const std::uint32_t> ranks(c.ranks.data(), c.count);
  head.reserve(8);
  if (c.count == 0) {
    head.put(kNone, 2);
  } else if (c.count <= c.size / 2) {
    head.put(kMarked, 2);
    put_marks(ranks, c.size, kCountOrder);
  } else {
    head.put(kUnmarked, 2);
    head.put_golomb(c.count, kCountOrder);
    put_marks(complement_of(ranks, c.size, marks), c.size, kCountOrder);
  }
}

template <class T>
void SparseEncoder::State::put_steps(const ClassChanges& c) {
  const T* steps = c.steps_as<T>();
  plain.reserve(c.count);
  std::uint64_t at = plain.count();
  const std::size_t found = kernels().split_steps[std::countr_zero(sizeof(T))](steps, c.count, plain.data(), at,
                                                                                large.reserve(c.count + 64));
  plain.set_count(at);
  const std::span<const std::uint32_t> positions(large.data(), found);
  head.reserve(8);
  if (found == 0) {
    head.put(kNone, 2);
    return;
  }
  const unsigned kept = last_pace;
  if (found <= c.count / 2) {
    head.put(kMarked, 2);
    put_marks(positions, c.count, kCountOrder);
  } else {
    head.put(kUnmarked, 2);
    put_marks(complement_of(positions, static_cast<std::uint32_t>(c.count), marks), c.count, kCountOrder);
  }
  last_pace = kept;
  std::uint64_t counts[kMagnitudeTokens] = {};
  const std::size_t begin = tokens.size;
  std::uint8_t* to = tokens.grow(found);
  plain.reserve(found * sizeof(T) * 8);
  for (std::uint32_t i : positions) {
    const std::uint64_t v = magnitude_of(steps[i]) - 2;
    const MagnitudeToken token = magnitude_token(v);
    *to++ = token.token;
    ++counts[token.token];
    plain.put_wide(v & ((std::uint64_t{1} << token.extra_bits) - 1), token.extra_bits);
  }
  tokens.size += found;
  if (tables_used == tables.size()) tables.push_back(std::make_unique<RansModel>());
  RansModel& table = *tables[tables_used++];
  put_table(counts, head, table);
  parts.push_back({&table, begin, tokens.size});
}

void SparseEncoder::State::put(Bytes& out) {
  head.clear();
  plain.clear();
  tokens.size = 0;
  parts.clear();
  tables_used = 0;
  last_pace = kFirstPace;
  if (model.is_float) head.put_golomb(top, model.exponent_bits);
  for (unsigned k = 0; k < (model.is_float ? kClasses : 1); ++k) {
    const ClassChanges& c = changes[k];
    put_positions(c);
    if (c.count != 0) {
      switch (model.width) {
        case 1: put_steps<std::uint8_t>(c); break;
        case 2: put_steps<std::uint16_t>(c); break;
        case 4: put_steps<std::uint32_t>(c); break;
        default: put_steps<std::uint64_t>(c); break;
      }
    }
    last_pace -= last_pace >= kMinPace + 8 ? 8 : 0;
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
  std::vector<RansSequence> sequences;
  for (const Part& part : parts) {
    sequences.push_back({part.model, tokens.span(part.begin, part.end)});
  }
  const auto coded = rans_encode(sequences, lane_count, lanes, words);
  head.reserve(8);
  head.put(lane_count == 1 ? 0 : 1, 1);
  head.put_golomb(coded.size(), kWordsOrder);

  const ByteView rest = plain_bytes.subspan(std::min<std::size_t>(plain_bytes.size(), 2 * lane_count));
  const std::size_t start = out.size(), words_bytes = coded.size() * 2;
  out.resize(start + head.byte_count() + 4 * lane_count + words_bytes + rest.size());
  std::byte* to = out.data() + start;
  std::memcpy(to, head.bytes().data(), head.byte_count());
  to += head.byte_count();
  for (unsigned lane = 0; lane < lane_count; ++lane, to += 4) store_le(to, lanes[lane]);
  put_words(coded, to);
  to += words_bytes;
  if (!rest.empty()) std::memcpy(to, rest.data(), rest.size());
}

SparseEncoder::SparseEncoder() : state_(std::make_unique<State>()) {}
SparseEncoder::~SparseEncoder() = default;
SparseEncoder::SparseEncoder(SparseEncoder&&) noexcept = default;

std::uint64_t SparseEncoder::compare(ByteView parent, ByteView now, const ElementModel& model, SlabHash& hash) {
  state_->model = model;
  switch (model.width) {
    case 1: return state_->compare<std::uint8_t>(parent, now, hash);
    case 2: return state_->compare<std::uint16_t>(parent, now, hash);
    case 4: return state_->compare<std::uint32_t>(parent, now, hash);
    default: return state_->compare<std::uint64_t>(parent, now, hash);
  }
}

void SparseEncoder::put(Bytes& out) { state_->put(out); }

}  // namespace p2pw::codec
