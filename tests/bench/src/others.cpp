// What others do, each in its plainest form: the ideas of the systems that ship weight deltas today, and general tools.
#include <zstd.h>

#include <cstring>
#include <type_traits>

#include "chunker/codec/bit_io.h"
#include "chunker/codec/element.h"
#include "tests/bench/src/competitor.h"

namespace p2pw::bench {
namespace {

using codec::load_le;
using codec::model_of;
using codec::store_le;

// Calls f with a value of the element's unsigned type.
template <class F>
void with_type(Dtype dtype, F f) {
  switch (model_of(dtype).width) {
    case 1: return f(std::uint8_t{});
    case 2: return f(std::uint16_t{});
    case 4: return f(std::uint32_t{});
    default: return f(std::uint64_t{});
  }
}

class Zstd {
 public:
  Zstd() : compressor_(ZSTD_createCCtx()), decompressor_(ZSTD_createDCtx()) {}
  ~Zstd() {
    ZSTD_freeCCtx(compressor_);
    ZSTD_freeDCtx(decompressor_);
  }
  void pack(const Bytes& plain, int level, Bytes& out) {
    const std::size_t before = out.size(), bound = ZSTD_compressBound(plain.size());
    out.resize(before + bound);
    out.resize(before + ZSTD_compressCCtx(compressor_, out.data() + before, bound, plain.data(), plain.size(), level));
  }
  bool unpack(ByteView packed, Bytes& plain) {
    plain.resize(ZSTD_getFrameContentSize(packed.data(), packed.size()));
    return ZSTD_decompressDCtx(decompressor_, plain.data(), plain.size(), packed.data(), packed.size()) == plain.size();
  }
  ZSTD_CCtx* compressor() { return compressor_; }
  ZSTD_DCtx* decompressor() { return decompressor_; }

 private:
  ZSTD_CCtx* compressor_;
  ZSTD_DCtx* decompressor_;
};

class Copy : public Competitor {
 public:
  void encode(std::span<std::byte>, ByteView after, Dtype, Bytes& out) override { out.insert(out.end(), after.begin(), after.end()); }
  bool decode(ByteView frame, Dtype, std::span<std::byte> slab) override {
    std::memcpy(slab.data(), frame.data(), frame.size());
    return true;
  }
};

class Xor : public Competitor {
 public:
  void encode(std::span<std::byte> before, ByteView after, Dtype, Bytes& out) override {
    plain_.resize(after.size());
    for (std::size_t i = 0; i < after.size(); ++i) plain_[i] = before[i] ^ after[i];
    zstd_.pack(plain_, 1, out);
  }
  bool decode(ByteView frame, Dtype, std::span<std::byte> slab) override {
    if (!zstd_.unpack(frame, plain_) || plain_.size() != slab.size()) return false;
    for (std::size_t i = 0; i < slab.size(); ++i) slab[i] ^= plain_[i];
    return true;
  }

 private:
  Zstd zstd_;
  Bytes plain_;
};

// Gaps in natural order, then what changed. Gap: one number of type G, its greatest value means "as far, and on".
template <class G, bool kSteps>
class Gaps : public Competitor {
 public:
  void encode(std::span<std::byte> before, ByteView after, Dtype dtype, Bytes& out) override {
    gaps_.clear();
    values_.clear();
    with_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      std::size_t next = 0;
      for (std::size_t i = 0; i < after.size() / sizeof(T); ++i) {
        const T was = load_le<T>(before.data() + i * sizeof(T)), is = load_le<T>(after.data() + i * sizeof(T));
        if (was == is) continue;
        std::size_t gap = i - next;
        for (; gap >= kLongest; gap -= kLongest) put(gaps_, kLongest);
        put(gaps_, static_cast<G>(gap));
        put(values_, kSteps ? zigzag(static_cast<T>(line(is, dtype) - line(was, dtype))) : is);
        next = i + 1;
      }
    });
    plain_.clear();
    put(plain_, static_cast<std::uint32_t>(gaps_.size()));
    plain_.insert(plain_.end(), gaps_.begin(), gaps_.end());
    plain_.insert(plain_.end(), values_.begin(), values_.end());
    zstd_.pack(plain_, 1, out);
  }
  bool decode(ByteView frame, Dtype dtype, std::span<std::byte> slab) override {
    if (!zstd_.unpack(frame, plain_)) return false;
    const std::byte* gap = plain_.data() + 4;
    const std::byte* end = gap + load_le<std::uint32_t>(plain_.data());
    with_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      const std::byte* value = end;
      for (std::size_t i = 0; gap != end; gap += sizeof(G)) {
        const G g = load_le<G>(gap);
        i += g;
        if (g == kLongest) continue;
        std::byte* at = slab.data() + i++ * sizeof(T);
        const T v = load_le<T>(value);
        value += sizeof(T);
        store_le(at, kSteps ? unline(static_cast<T>(line(load_le<T>(at), dtype) + unzigzag(v)), dtype) : v);
      }
    });
    return true;
  }

 private:
  static constexpr G kLongest = static_cast<G>(~G{0});
  template <class T>
  static void put(Bytes& to, T value) {
    to.resize(to.size() + sizeof value);
    store_le(to.data() + to.size() - sizeof value, value);
  }
  template <class T>
  static T line(T bits, Dtype dtype) { return model_of(dtype).is_float ? codec::to_line(bits) : bits; }
  template <class T>
  static T unline(T place, Dtype dtype) { return line(place, dtype); }
  template <class T>
  static T zigzag(T step) {
    using Signed = std::make_signed_t<T>;
    return static_cast<T>(static_cast<T>(step << 1) ^ static_cast<T>(static_cast<Signed>(step) >> (8 * sizeof(T) - 1)));
  }
  template <class T>
  static T unzigzag(T folded) { return static_cast<T>(static_cast<T>(folded >> 1) ^ static_cast<T>(T{0} - (folded & 1))); }

  Zstd zstd_;
  Bytes gaps_, values_, plain_;
};

class IndexValue : public Competitor {
 public:
  void encode(std::span<std::byte> before, ByteView after, Dtype dtype, Bytes& out) override {
    with_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      for (std::size_t i = 0; i < after.size() / sizeof(T); ++i) {
        const T is = load_le<T>(after.data() + i * sizeof(T));
        if (load_le<T>(before.data() + i * sizeof(T)) == is) continue;
        out.resize(out.size() + 4 + sizeof(T));
        store_le(out.data() + out.size() - 4 - sizeof(T), static_cast<std::uint32_t>(i));
        store_le(out.data() + out.size() - sizeof(T), is);
      }
    });
  }
  bool decode(ByteView frame, Dtype dtype, std::span<std::byte> slab) override {
    with_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      for (std::size_t at = 0; at < frame.size(); at += 4 + sizeof(T)) {
        const std::size_t i = load_le<std::uint32_t>(frame.data() + at);
        store_le(slab.data() + i * sizeof(T), load_le<T>(frame.data() + at + 4));
      }
    });
    return true;
  }
};

// `zstd --patch-from`, as the library call behind it.
class PatchFrom : public Competitor {
 public:
  void encode(std::span<std::byte> before, ByteView after, Dtype, Bytes& out) override {
    ZSTD_CCtx* c = zstd_.compressor();
    ZSTD_CCtx_reset(c, ZSTD_reset_session_and_parameters);
    ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, 3);
    ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, 25);
    ZSTD_CCtx_setParameter(c, ZSTD_c_enableLongDistanceMatching, 1);
    ZSTD_CCtx_refPrefix(c, before.data(), before.size());
    const std::size_t start = out.size(), bound = ZSTD_compressBound(after.size());
    out.resize(start + bound);
    out.resize(start + ZSTD_compress2(c, out.data() + start, bound, after.data(), after.size()));
  }
  bool decode(ByteView frame, Dtype, std::span<std::byte> slab) override {
    before_.assign(slab.begin(), slab.end());
    ZSTD_DCtx* d = zstd_.decompressor();
    ZSTD_DCtx_refPrefix(d, before_.data(), before_.size());
    return ZSTD_decompressDCtx(d, slab.data(), slab.size(), frame.data(), frame.size()) == slab.size();
  }

 private:
  Zstd zstd_;
  Bytes before_;
};

template <class T>
std::unique_ptr<Competitor> make() { return std::make_unique<T>(); }

}  // namespace

std::vector<Entry> other_codecs() {
  return {{"all of it, raw", make<Copy>},
          {"xor + zstd -1", make<Xor>},
          {"u16 gaps + values + zstd -1", make<Gaps<std::uint16_t, false>>},
          {"u8 gaps + zigzag steps + zstd -1", make<Gaps<std::uint8_t, true>>},
          {"raw index + value", make<IndexValue>},
          {"zstd --patch-from -3", make<PatchFrom>, true}};
}

}  // namespace p2pw::bench
