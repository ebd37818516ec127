#include "chunker/codec/sparse.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "chunker/codec/bit_io.h"

namespace p2pw::codec {
namespace {

constexpr unsigned kClasses = 16;

struct Change {
  std::uint32_t rank;
  std::uint64_t step;
};

unsigned class_of(unsigned exponent, unsigned top) {
  return exponent >= top ? 0 : std::min(top - exponent, kClasses - 1);
}

unsigned rice_for(std::uint64_t gaps_sum, std::uint64_t count) {
  if (count == 0) return 0;
  const std::uint64_t scaled = gaps_sum * 45 / (count * 65);  // about ln 2 times the mean
  return scaled < 2 ? 0 : static_cast<unsigned>(std::bit_width(scaled)) - 1;
}

}  // namespace

struct SparseCoder::State {
  std::array<std::vector<Change>, kClasses> classes;
  std::array<std::uint32_t, kClasses> sizes;

  template <class T>
  static T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }

  template <class T>
  static unsigned top_exponent(ByteView parent, const ElementModel& model) {
    if (!model.is_float) return 0;
    std::vector<std::uint32_t> histogram(std::size_t{1} << model.exponent_bits);
    const std::size_t count = parent.size() / sizeof(T);
    for (std::size_t i = 0; i < count; ++i) {
      ++histogram[exponent_of(load<T>(parent.data() + i * sizeof(T)), model)];
    }
    for (std::size_t e = histogram.size(); e-- > 0;) {
      if (histogram[e] >= count / 100 + 1) return static_cast<unsigned>(e);
    }
    return static_cast<unsigned>(histogram.size() - 1);
  }

  void put_class(std::size_t c, unsigned bits, Bytes& out) {
    auto& changes = classes[c];
    ByteWriter(out).varint(changes.size());
    if (changes.empty()) return;
    const bool complement = changes.size() > sizes[c] / 2;
    std::vector<std::uint32_t> marks;
    if (complement) {
      std::uint32_t next = 0;
      for (const Change& change : changes) {
        while (next < change.rank) marks.push_back(next++);
        ++next;
      }
      while (next < sizes[c]) marks.push_back(next++);
    } else {
      for (const Change& change : changes) marks.push_back(change.rank);
    }
    BitWriter writer(out);
    const unsigned k = rice_for(sizes[c], marks.size());
    std::uint32_t previous = 0;
    for (std::uint32_t mark : marks) {
      const std::uint32_t gap = mark - previous;
      previous = mark + 1;
      writer.put_unary(gap >> k);
      writer.put(gap & ((1u << k) - 1), k);
    }
    std::uint64_t sum = 0;
    auto magnitude_of = [&](std::uint64_t step) {
      const bool negative = (step >> (bits - 1)) != 0;
      const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
      return std::pair{negative, (negative ? ~step + 1 : step) & mask};
    };
    for (const Change& change : changes) sum += std::min<std::uint64_t>(magnitude_of(change.step).second - 1, 1u << 30);
    const unsigned m = static_cast<unsigned>(std::bit_width(sum / changes.size()));
    writer.put(m, 6);
    for (const Change& change : changes) {
      const auto [negative, magnitude] = magnitude_of(change.step);
      writer.put(negative, 1);
      const std::uint64_t value = ((magnitude - 1) >> m) + 1;  // Exp-Golomb of order m
      const unsigned length = static_cast<unsigned>(std::bit_width(value)) - 1;
      writer.put_unary(length);
      writer.put_wide(value & ((std::uint64_t{1} << length) - 1), length);
      writer.put_wide((magnitude - 1) & ((std::uint64_t{1} << m) - 1), m);
    }
    writer.finish();
  }

  Status get_class(std::size_t c, unsigned bits, BitReader& reader, std::uint64_t count) {
    auto& changes = classes[c];
    changes.resize(count);
    const bool complement = count > sizes[c] / 2;
    const std::uint64_t marks = complement ? sizes[c] - count : count;
    const unsigned k = rice_for(sizes[c], marks);
    std::uint64_t next = 0;
    std::size_t filled = 0;
    for (std::uint64_t i = 0; i < marks; ++i) {
      const std::uint64_t gap = reader.get_unary() << k | reader.get(k);
      if (!reader.ok() || gap >= sizes[c] - next) return fail(ErrorCode::malformed, "frame marks an element past its class");
      if (complement) {
        for (std::uint64_t r = next; r < next + gap; ++r) changes[filled++].rank = static_cast<std::uint32_t>(r);
      } else {
        changes[filled++].rank = static_cast<std::uint32_t>(next + gap);
      }
      next += gap + 1;
    }
    if (complement) {
      for (; next < sizes[c]; ++next) changes[filled++].rank = static_cast<std::uint32_t>(next);
    }
    const unsigned m = static_cast<unsigned>(reader.get(6));
    for (Change& change : changes) {
      const bool negative = reader.get(1) != 0;
      const std::uint64_t length = reader.get_unary();
      if (!reader.ok() || length + m > 64) return fail(ErrorCode::malformed, "frame has a step that no element can take");
      const unsigned l = static_cast<unsigned>(length);
      std::uint64_t value = reader.get_wide(l) | (l == 64 ? 0 : std::uint64_t{1} << l);
      value = ((value - 1) << m | reader.get_wide(m)) + 1;
      change.step = negative ? ~value + 1 : value;
    }
    if (!reader.ok()) return fail(ErrorCode::malformed, "frame ends inside a class");
    (void)bits;
    return {};
  }

  template <class T>
  std::uint64_t encode(ByteView parent, ByteView now, const ElementModel& model, Bytes& out) {
    if (std::memcmp(parent.data(), now.data(), now.size()) == 0) return 0;
    for (auto& changes : classes) changes.clear();
    sizes.fill(0);
    const unsigned top = top_exponent<T>(parent, model);
    std::uint64_t changed = 0;
    for (std::size_t at = 0; at < now.size(); at += sizeof(T)) {
      const T before = load<T>(parent.data() + at), after = load<T>(now.data() + at);
      const unsigned c = class_of(exponent_of(before, model), top);
      if (before != after) {
        T x = before, y = after;
        if (model.is_float) x = to_line(x), y = to_line(y);
        classes[c].push_back({sizes[c], static_cast<T>(y - x)});
        ++changed;
      }
      ++sizes[c];
    }
    ByteWriter writer(out);
    writer.varint(top);
    for (std::size_t c = 0; c < kClasses; ++c) put_class(c, sizeof(T) * 8, out);
    return changed;
  }

  template <class T>
  Status decode(ByteReader& in, const ElementModel& model, std::uint64_t changed, std::span<std::byte> slab) {
    const std::uint64_t top = in.varint();
    if (!in.ok() || top >> std::max(model.exponent_bits, 1u) != 0) return fail(ErrorCode::malformed, "frame has no class table");
    sizes.fill(0);
    for (std::size_t at = 0; at < slab.size(); at += sizeof(T)) {
      ++sizes[class_of(exponent_of(load<T>(slab.data() + at), model), static_cast<unsigned>(top))];
    }
    std::uint64_t total = 0;
    for (std::size_t c = 0; c < kClasses; ++c) {
      classes[c].clear();
      const std::uint64_t count = in.varint();
      if (!in.ok() || count > sizes[c]) return fail(ErrorCode::malformed, "frame changes more elements than a class has");
      total += count;
      if (count == 0) continue;
      BitReader reader(in.rest());
      P2PW_CHECK(get_class(c, sizeof(T) * 8, reader, count));
      in.bytes(reader.used());
    }
    if (total != changed || !in.finished()) return fail(ErrorCode::malformed, "frame's counts disagree");
    std::array<std::size_t, kClasses> next{};
    sizes.fill(0);
    for (std::size_t at = 0; at < slab.size(); at += sizeof(T)) {
      T bits = load<T>(slab.data() + at);
      const unsigned c = class_of(exponent_of(bits, model), static_cast<unsigned>(top));
      if (next[c] < classes[c].size() && classes[c][next[c]].rank == sizes[c]) {
        const T step = static_cast<T>(classes[c][next[c]++].step);
        bits = model.is_float ? from_line(static_cast<T>(to_line(bits) + step)) : static_cast<T>(bits + step);
        std::memcpy(slab.data() + at, &bits, sizeof bits);
      }
      ++sizes[c];
    }
    return {};
  }
};

SparseCoder::SparseCoder() : state_(std::make_unique<State>()) {}
SparseCoder::~SparseCoder() = default;
SparseCoder::SparseCoder(SparseCoder&&) noexcept = default;

std::uint64_t SparseCoder::encode(ByteView parent, ByteView now, const ElementModel& model, Bytes& out) {
  switch (model.width) {
    case 1: return state_->encode<std::uint8_t>(parent, now, model, out);
    case 2: return state_->encode<std::uint16_t>(parent, now, model, out);
    case 4: return state_->encode<std::uint32_t>(parent, now, model, out);
    default: return state_->encode<std::uint64_t>(parent, now, model, out);
  }
}

Status SparseCoder::decode(ByteReader& in, const ElementModel& model, std::uint64_t changed,
                           std::span<std::byte> slab) {
  switch (model.width) {
    case 1: return state_->decode<std::uint8_t>(in, model, changed, slab);
    case 2: return state_->decode<std::uint16_t>(in, model, changed, slab);
    case 4: return state_->decode<std::uint32_t>(in, model, changed, slab);
    default: return state_->decode<std::uint64_t>(in, model, changed, slab);
  }
}

}  // namespace p2pw::codec
