// Grain: how work is divided on a kind of device. All that differs between kinds is here: numbers and, if a
// template has several dimensions to choose, functions that choose them (templates/points.h). The generator
// of loops and the templates start tuning from it. None of them asks which kind a device is.
#pragma once
#include <cstdint>
#include <limits>

namespace athanor {

struct GpuTraits;

namespace gpu {
struct Points;
extern const Points fine_points, coarse_points;
}  // namespace gpu

/// The numbers are those of GPUs.
struct Grain {
  static constexpr int64_t no_limit = std::numeric_limits<int64_t>::max();

  /// Items that run side by side on a compute unit, and so can share work. 1 if the items of a group run one
  /// after another.
  int64_t side_by_side = 256;

  // Items of a group, at most.
  int64_t items = 64;           // of templates without tiles
  int64_t element_items = 256;  // of kernels with an item for each element
  int64_t pool_items = 256;
  int64_t loop_items = 256;
  int64_t joined_items = 256;
  int64_t dot_items = 128;                                // that share a sum
  int64_t row_items = no_limit, column_items = no_limit;  // that reduce together

  // What an item does.
  int64_t width = 1, widest = 4;            // neighbouring elements, in a vector: at least, and at most
  int64_t row_lanes = 1, column_lanes = 1;  // partial sums of a reduction
  int64_t dot_side = 2;                     // rows and columns of a result of dot products
  int64_t shifted_rows = 4, shifted_vectors = 1;
  int64_t joined_elements = 4;  // each item has to find its loop first
  int64_t loop_vector = 16;     // bytes of an operand of a loop, at most, that are moved at once
  int64_t winograd_chunks = 1;
  int64_t zeros = 64;  // of a group that clears memory

  int64_t row_alignment = 16;  // bytes at whose multiples rows of matrices should begin
  /// Whether exp, log, tanh and erf, some 20 instructions, are cheap beside the 8 bytes of an f32 that is
  /// written and read: GPUs compute some 50 operations or more in the time of 8 bytes.
  bool cheap_functions = true;

  // About how many elements of whole rows (or planes) an item computes. 1: each item computes one element,
  // and its neighbours the neighbouring ones.
  int64_t loop_elements = 1, pool_elements = 1, copied_elements = 1;
  int64_t chunk_elements = 1;   // that are computed before they are reduced, so that both loops are vectors
  int64_t results_in_turn = 1;  // reductions that an item computes, at most

  // Multiplications for which a group is worth starting. 0: any.
  int64_t shifted_work = 0, shifted_weights_work = 0;

  /// Items of a loop for each compute unit, before one of them does several elements: half of what a unit of
  /// most GPUs holds. (A guess: each item then has many bytes in flight.)
  int64_t loop_filling = 1024;

  /// Whether loops over the same rows run in one launch, row by row: between them, a row stays in the caches
  /// of the unit whose items share it.
  bool chains_rows = true;

  /// Elements that each item reduces, at least, before more items or a second launch share them.
  int64_t reduced = 16;

  // Parts that work is split into, for each compute unit, if there is too little of it.
  int64_t gemm_parts = 2, reduction_parts = 8, shifted_parts = 8, scan_parts = 256;

  /// Numbers that fit a cache between two steps of an algorithm; no limit if that gains nothing.
  int64_t cached_floats = no_limit;
  /// Roughly how many operations take as long as moving a byte between two steps of an algorithm; for best
  /// guesses.
  double flops_per_byte = 40;
  /// Groups that surely fill a device, for probes.
  int64_t probed_groups = 8192;

  const gpu::Points* points = &gpu::fine_points;
};

/// GPUs: the items of a group run side by side.
inline constexpr Grain fine_grain{};
/// Processors (by OpenCL): the items of a group run one after another, on a core with vector registers, and
/// starting a group takes as long as some thousands of multiplications.
inline constexpr Grain coarse_grain{.side_by_side = 1,
                                    .items = 1,
                                    .element_items = 1024,
                                    .pool_items = 64,
                                    .loop_items = Grain::no_limit,
                                    .joined_items = 4096,
                                    .dot_items = 1,
                                    .row_items = 1,
                                    .column_items = 1,
                                    .width = 16,
                                    .widest = 16,
                                    .row_lanes = 32,
                                    .column_lanes = 64,
                                    .dot_side = 4,
                                    .shifted_rows = 8,
                                    .shifted_vectors = 8,
                                    .joined_elements = 1,
                                    .loop_vector = 0,  // PARALLEL makes vectors
                                    .winograd_chunks = 8,
                                    .zeros = 16384,
                                    .row_alignment = 1,
                                    .cheap_functions = false,
                                    .loop_elements = 8192,
                                    .pool_elements = 1024,
                                    .copied_elements = 4096,
                                    .chunk_elements = 1024,  // they stay in the first cache
                                    .results_in_turn = 16,
                                    .shifted_work = 32768,
                                    .shifted_weights_work = 8192,
                                    .chains_rows = false,
                                    .reduced = 4096,
                                    .gemm_parts = 1,
                                    .reduction_parts = 2,
                                    .shifted_parts = 4,
                                    .scan_parts = 2,
                                    .cached_floats = 3 << 20,
                                    .flops_per_byte = 2,
                                    .probed_groups = 1024,
                                    .points = &gpu::coarse_points};

/// How many of `tiles` a group does, so that it has `least` work if one tile has `work`, and enough groups
/// remain for the device.
int64_t tiles_of_group(const GpuTraits& traits, int64_t tiles, int64_t work, int64_t least);

}  // namespace athanor
