#pragma once

// Which instruction sets the kernels are compiled for: SSE4, AVX2 and AVX-512 on x86, NEON on ARM, and the baseline.
// The others would cost compile time and gain little. Include before <hwy/foreach_target.h>; Highway's header expands
// the names. SVE has vectors without a size known to the compiler, which cannot be kept in arrays as the register tiles
// are. Builds with sanitizers, which compile slowly, keep one vector target and the baseline.
#ifdef ROOKERY_FEW_TARGETS
#define ROOKERY_MORE_DISABLED_TARGETS (HWY_SSE4 | HWY_AVX3)
#else
#define ROOKERY_MORE_DISABLED_TARGETS 0
#endif
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | ROOKERY_MORE_DISABLED_TARGETS)
