// Which instruction sets the loops are compiled for. Included before any header of Highway.
#pragma once

// AVX-512 (HWY_AVX3), AVX2, and the compiler's baseline (SSE2 or scalar code on x86-64). The sets between
// them (SSSE3, SSE4: processors before 2013) and the newer AVX-512 variants (bits 4, 6, 7: Sapphire Rapids,
// Zen 4, Ice Lake) gain nothing for these loops and would only make the build longer.
#define HWY_DISABLED_TARGETS ((1LL << 12) | (1LL << 11) | (1LL << 7) | (1LL << 6) | (1LL << 4))
