#include <algorithm>
#include <cstring>

#include "chunker/codec/classes.h"
#include "chunker/codec/sparse.h"
#include "chunker/codec/sparse_format.h"
#include "chunker/codec/steps.h"

namespace p2pw::codec {

struct SparseEncoder::State {
  Changes changes;
  ElementModel model;
  unsigned top = 0;
  BitWriter head, plain;
  std::vector<std::uint8_t> tokens;  // of all sequences
  struct Part {
    const RansModel* model;
    std::size_t begin, end;  // in tokens
  };
  std::vector<Part> parts;
  std::vector<std::unique_ptr<RansModel>> tables;
  std::size_t tables_used = 0;
  std::vector<std::uint32_t> marks;
  std::vector<std::uint16_t> words;
  unsigned last_pace = 0;

  template <class T>
  std::uint64_t compare(ByteView parent, ByteView now);
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
  if (!model.is_float) return 0;
  // One block of 64 elements in 16 is enough to know where the weights lie.
  std::vector<std::uint32_t> histogram(std::size_t{1} << model.exponent_bits);
  const std::size_t count = parent.size() / sizeof(T);
  std::uint32_t seen = 0;
  for (std::size_t block = 0; block < count; block += 64 * 16) {
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

std::uint64_t complement_of(std::span<const std::uint32_t> positions, std::uint32_t universe,
                            std::vector<std::uint32_t>& out) {
  out.clear();
  std::uint32_t next = 0;
  for (std::uint32_t position : positions) {
    while (next < position) out.push_back(next++);
    ++next;
  }
  while (next < universe) out.push_back(next++);
  return out.size();
}

}  // namespace

template <class T>
std::uint64_t SparseEncoder::State::compare(ByteView parent, ByteView now) {
  for (auto& c : changes) c.count = 0, c.size = 0;
  if (now.empty() || std::memcmp(parent.data(), now.data(), now.size()) == 0) return 0;
  top = top_exponent<T>(parent, model);
  std::uint64_t changed = 0;
  for (std::size_t at = 0; at < now.size(); at += sizeof(T)) {
    const T before = load_le<T>(parent.data() + at), after = load_le<T>(now.data() + at);
    ClassChanges& c = changes[model.is_float ? class_of(exponent_of(before, model), top) : 0];
    if (before != after) {
      c.reserve(c.count + 1, sizeof(T));
      c.ranks[c.count] = c.size;
      T* steps = c.steps_as<T>();
      steps[c.count] = model.is_float ? static_cast<T>(to_line(after) - to_line(before)) : static_cast<T>(after - before);
      ++c.count;
      ++changed;
    }
    ++c.size;
  }
  return changed;
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
  const std::size_t begin = tokens.size();
  split_gaps(positions, code, tokens, plain);
  head.put_golomb(tokens.size() - begin, count_order);
  put_pace(pace);
  parts.push_back({code.model, begin, tokens.size()});
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
    complement_of(ranks, c.size, marks);
    put_marks(marks, c.size, kCountOrder);
  }
}

template <class T>
void SparseEncoder::State::put_steps(const ClassChanges& c) {
  const T* steps = c.steps_as<T>();
  plain.reserve(c.count);
  std::vector<std::uint32_t> large;
  for (std::size_t i = 0; i < c.count; ++i) {
    plain.put(steps[i] >> (sizeof(T) * 8 - 1), 1);
    if (magnitude_of(steps[i]) != 1) large.push_back(static_cast<std::uint32_t>(i));
  }
  head.reserve(8);
  if (large.empty()) {
    head.put(kNone, 2);
    return;
  }
  const unsigned kept = last_pace;
  if (large.size() <= c.count / 2) {
    head.put(kMarked, 2);
    put_marks(large, c.count, kCountOrder);
  } else {
    head.put(kUnmarked, 2);
    complement_of(large, static_cast<std::uint32_t>(c.count), marks);
    put_marks(marks, c.count, kCountOrder);
  }
  last_pace = kept;
  std::uint64_t counts[kMagnitudeTokens] = {};
  const std::size_t begin = tokens.size();
  for (std::uint32_t i : large) {
    const std::uint64_t v = magnitude_of(steps[i]) - 2;
    const MagnitudeToken token = magnitude_token(v);
    tokens.push_back(token.token);
    ++counts[token.token];
    plain.reserve(64);
    plain.put_wide(v & ((std::uint64_t{1} << token.extra_bits) - 1), token.extra_bits);
  }
  if (tables_used == tables.size()) tables.push_back(std::make_unique<RansModel>());
  RansModel& table = *tables[tables_used++];
  put_table(counts, head, table);
  parts.push_back({&table, begin, tokens.size()});
}

void SparseEncoder::State::put(Bytes& out) {
  head.clear();
  plain.clear();
  tokens.clear();
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
  const unsigned lane_count = tokens.size() < kOneLaneBelow ? 1 : kLanes;
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
    sequences.push_back({part.model, std::span(tokens).subspan(part.begin, part.end - part.begin)});
  }
  const auto coded = rans_encode(sequences, lane_count, lanes, words);
  head.reserve(8);
  head.put(lane_count == 1 ? 0 : 1, 1);
  head.put_golomb(coded.size(), kWordsOrder);

  ByteWriter writer(out);
  writer.bytes(head.bytes());
  for (unsigned lane = 0; lane < lane_count; ++lane) {
    for (unsigned b = 0; b < 4; ++b) writer.u8(lanes[lane] >> (8 * b));
  }
  for (std::uint16_t word : coded) {
    writer.u8(word);
    writer.u8(word >> 8);
  }
  if (plain_bytes.size() > 2 * lane_count) writer.bytes(plain_bytes.subspan(2 * lane_count));
}

SparseEncoder::SparseEncoder() : state_(std::make_unique<State>()) {}
SparseEncoder::~SparseEncoder() = default;
SparseEncoder::SparseEncoder(SparseEncoder&&) noexcept = default;

std::uint64_t SparseEncoder::compare(ByteView parent, ByteView now, const ElementModel& model) {
  state_->model = model;
  switch (model.width) {
    case 1: return state_->compare<std::uint8_t>(parent, now);
    case 2: return state_->compare<std::uint16_t>(parent, now);
    case 4: return state_->compare<std::uint32_t>(parent, now);
    default: return state_->compare<std::uint64_t>(parent, now);
  }
}

void SparseEncoder::put(Bytes& out) { state_->put(out); }

}  // namespace p2pw::codec
