#define ZSTD_STATIC_LINKING_ONLY  // ZSTD_c_literalCompressionMode
#include "chunker/codec/zstd_coder.h"

#include <zstd.h>

#include <bit>
#include <new>

namespace p2pw::codec {
namespace {

constexpr int kPatchLevel = 9;     // side files are few and small: worth the time
constexpr int kPlaneLevel = -50;   // no matches to be found in a plane, only its Huffman coder is wanted

}  // namespace

struct ZstdCoder::State {
  ZSTD_CCtx* compressor = ZSTD_createCCtx();
  ZSTD_DCtx* decompressor = ZSTD_createDCtx();
  State() {
    if (compressor == nullptr || decompressor == nullptr) throw std::bad_alloc();
  }
  ~State() {
    ZSTD_freeCCtx(compressor);
    ZSTD_freeDCtx(decompressor);
  }

  bool run(ByteView in, Bytes& out) {
    const std::size_t before = out.size();
    out.resize(before + in.size());
    const std::size_t used = ZSTD_compress2(compressor, out.data() + before, in.size(), in.data(), in.size());
    out.resize(ZSTD_isError(used) != 0 ? before : before + used);
    return ZSTD_isError(used) == 0 && used < in.size();
  }
};

ZstdCoder::ZstdCoder() : state_(std::make_unique<State>()) {}
ZstdCoder::~ZstdCoder() = default;
ZstdCoder::ZstdCoder(ZstdCoder&&) noexcept = default;

bool ZstdCoder::patch(ByteView parent, ByteView now, Bytes& out) {
  if (now.empty()) return false;
  ZSTD_CCtx* c = state_->compressor;
  ZSTD_CCtx_reset(c, ZSTD_reset_session_and_parameters);
  ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, kPatchLevel);
  // The window must reach from the end of `now` back over the whole parent.
  const int window = static_cast<int>(std::bit_width(parent.size() + now.size()));
  ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, window < ZSTD_WINDOWLOG_MIN ? ZSTD_WINDOWLOG_MIN : window);
  if (!parent.empty()) ZSTD_CCtx_refPrefix(c, parent.data(), parent.size());
  return state_->run(now, out);
}

bool ZstdCoder::compress(ByteView plane, Bytes& out) {
  if (plane.empty()) return false;
  ZSTD_CCtx* c = state_->compressor;
  ZSTD_CCtx_reset(c, ZSTD_reset_session_and_parameters);
  ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, kPlaneLevel);
  ZSTD_CCtx_setParameter(c, ZSTD_c_literalCompressionMode, ZSTD_ps_enable);
  return state_->run(plane, out);
}

Status ZstdCoder::unpatch(ByteView parent, ByteView packed, std::span<std::byte> out) {
  ZSTD_DCtx* d = state_->decompressor;
  ZSTD_DCtx_reset(d, ZSTD_reset_session_and_parameters);
  ZSTD_DCtx_setParameter(d, ZSTD_d_windowLogMax, 25);  // two slabs
  if (!parent.empty()) ZSTD_DCtx_refPrefix(d, parent.data(), parent.size());
  std::size_t used = ZSTD_decompressDCtx(d, out.data(), out.size(), packed.data(), packed.size());
  if (ZSTD_isError(used) != 0) {
    return fail(ErrorCode::malformed, std::string("frame's zstd part: ") + ZSTD_getErrorName(used));
  }
  if (used != out.size()) return fail(ErrorCode::malformed, "frame's zstd part is shorter than its slab");
  return {};
}

}  // namespace p2pw::codec
