// The instruction sets for kernels of products, and of what is computed in tiles of the same width. Included
// before any header of Highway.
#pragma once

// Of x86's older instruction sets, only the baseline is worth its compile time. Sizeless vectors cannot be
// elements of arrays.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
