#include "chunker/codec/kernels.h"

#include <atomic>

#include "chunker/codec/kernels_tables.h"

namespace p2pw::codec {
namespace {

bool has(Simd simd) {
#if P2PW_X86
  switch (simd) {
    case Simd::scalar: return true;
    case Simd::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
    case Simd::avx512:
      return has(Simd::avx2) && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
             __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512bitalg") &&
             __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("gfni");
  }
  return false;
#else
  return simd == Simd::scalar;
#endif
}

const Kernels* table_of(Simd simd) {
#if P2PW_X86
  if (simd == Simd::avx512) return &kAvx512Kernels;
  if (simd == Simd::avx2) return &kAvx2Kernels;
#endif
  return &kScalarKernels;
}

std::atomic<const Kernels*> current{nullptr};

}  // namespace

Simd detected_simd() { return has(Simd::avx512) ? Simd::avx512 : has(Simd::avx2) ? Simd::avx2 : Simd::scalar; }

const Kernels& kernels() {
  const Kernels* table = current.load(std::memory_order_relaxed);
  if (table == nullptr) {
    table = table_of(detected_simd());
    current.store(table, std::memory_order_relaxed);
  }
  return *table;
}

bool force_simd(Simd simd) {
  if (!has(simd)) return false;
  current.store(table_of(simd), std::memory_order_relaxed);
  return true;
}

}  // namespace p2pw::codec
