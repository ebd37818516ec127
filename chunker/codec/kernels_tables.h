// The tables of each instruction set, and what their files share.
#pragma once

#include "chunker/codec/kernels.h"
#include "chunker/codec/simd_target.h"

namespace p2pw::codec {

extern const Kernels kScalarKernels;
#if P2PW_X86
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#endif

}  // namespace p2pw::codec
