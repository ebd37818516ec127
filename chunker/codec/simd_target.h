// P2PW_SIMD_BEGIN(set) ... P2PW_SIMD_END(): functions between them are compiled for that instruction set.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#define P2PW_X86 1
#else
#define P2PW_X86 0
#endif

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own intrinsics' deliberately undefined operands (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define P2PW_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define P2PW_TARGET(set) P2PW_PRAGMA(clang attribute push(__attribute__((target(set))), apply_to = function))
#define P2PW_SIMD_END() P2PW_PRAGMA(clang attribute pop)
#else
#define P2PW_TARGET(set) P2PW_PRAGMA(GCC push_options) P2PW_PRAGMA(GCC target(set))
#define P2PW_SIMD_END() P2PW_PRAGMA(GCC pop_options)
#endif

#define P2PW_SIMD_BEGIN_AVX2() P2PW_TARGET("avx2,bmi,bmi2,lzcnt,popcnt")
#define P2PW_SIMD_BEGIN_AVX512() P2PW_TARGET("avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,gfni")
