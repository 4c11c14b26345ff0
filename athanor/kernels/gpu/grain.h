// Grain: how work is divided on a kind of device. This is the only place with numbers that differ between
// CPUs and GPUs. The generator of loops and the templates start tuning from them.
#pragma once
#include <cstdint>
#include <limits>

namespace athanor {

struct GpuTraits;

struct Grain {
  static constexpr int64_t no_limit = std::numeric_limits<int64_t>::max();

  /// The items of a group run one after another, on a core with vector registers (OpenCL on processors): an
  /// item does whole rows, in vectors, and starting a group takes as long as some thousands of
  /// multiplications. Otherwise the items run side by side, and neighbours take neighbouring elements.
  bool coarse = false;

  // Items of a group, at most.
  int64_t items = 64;           // of templates without tiles
  int64_t element_items = 256;  // of kernels with an item for each element
  int64_t pool_items = 256;
  int64_t loop_items = 256;
  int64_t joined_items = 256;
  int64_t row_items = no_limit, column_items = no_limit;  // that reduce together

  // What an item does.
  int64_t width = 1;                        // neighbouring elements, in a vector
  int64_t row_lanes = 1, column_lanes = 1;  // partial sums of a reduction
  int64_t joined_elements = 4;              // each item has to find its loop first
  int64_t winograd_chunks = 1;
  int64_t zeros = 64;  // of a group that clears memory

  // Parts that work is split into, for each compute unit, if there is too little of it.
  int64_t gemm_parts = 2, reduction_parts = 8, shifted_parts = 8, scan_parts = 256;

  /// Numbers that fit a cache between two steps of an algorithm; no limit where nothing is gained by it.
  int64_t cached_floats = no_limit;
  /// What is computed while a byte is moved between two steps of an algorithm, roughly: for best guesses.
  double flops_per_byte = 40;
};

/// GPUs, and processors.
inline constexpr Grain fine_grain{};
inline constexpr Grain coarse_grain{.coarse = true,
                                    .items = 1,
                                    .element_items = 1024,
                                    .pool_items = 64,
                                    .loop_items = Grain::no_limit,
                                    .joined_items = 4096,
                                    .row_items = 1,
                                    .column_items = 1,
                                    .width = 16,
                                    .row_lanes = 32,
                                    .column_lanes = 64,
                                    .joined_elements = 1,
                                    .winograd_chunks = 8,
                                    .zeros = 16384,
                                    .gemm_parts = 1,
                                    .reduction_parts = 2,
                                    .shifted_parts = 4,
                                    .scan_parts = 2,
                                    .cached_floats = 3 << 20,
                                    .flops_per_byte = 2};

/// How many of `tiles` a group does, so that it has `least` work if one tile has `work`, and enough groups
/// remain for the device. 1 where groups cost nothing to start.
int64_t tiles_of_group(const GpuTraits& traits, int64_t tiles, int64_t work, int64_t least);

}  // namespace athanor
