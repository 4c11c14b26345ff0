// Matrix products by matrix units: tiles of A and B go through local memory to the registers of waves. The
// kernel is written for one problem and has no other case in it.
#pragma once
#include <vector>

#include "athanor/kernels/gpu/matrix_unit.h"
#include "athanor/kernels/gpu/templates/tile_problem.h"

namespace athanor::gpu {

/// A point of the tuning space.
struct TilePoint {
  const MatrixUnit* unit = nullptr;
  int64_t m = 128, n = 128, k = 32;  // of a group's tile
  int64_t waves_m = 2, waves_n = 2;  // that share it
  int64_t stages = 2;                // tiles of each matrix in local memory at a time
  bool async = false;                // filled by asynchronous copies, else through registers
  bool boxes = false;                // or by copies of boxes, for units that read local memory
  int64_t splits = 1;                // parts of K, which a second launch adds
  int64_t streams = 0;               // groups that divide all tiles' steps (tile_stream.h); 0: a tile each

  int64_t items() const { return waves_m * waves_n * unit->wave; }
  /// How many sums a lane holds in the loop along k, with those that it adds to others.
  int64_t loop_sums() const { return m * n / items() + (unit->promotes_after > 0 ? unit->c.elements : 0); }
};

/// The product as a unit computes it. Lanes of some units hold runs of C's rows, those of others runs of its
/// columns. If C lies in memory the other way, the unit computes C' = B' A'.
TileProblem oriented(const TileProblem& problem, const MatrixUnit& unit);

/// The units by which tiles of a type are multiplied, best first: those of the type; if there are none, those
/// of a wider type, which elements become in local memory: 8-bit floats f16 or bf16, and these f32 where
/// lanes multiply alone. {} if there are neither.
std::vector<const MatrixUnit*> tile_units(DType input, bool tf32, const GpuTraits& traits);
/// The points worth timing for the problem, best guess first; {} if no unit multiplies its type, or if
/// matrices lie in memory in a way that this engine does not read. {} also for results with fewer rows or
/// columns than `least_side`.
std::vector<TilePoint> tile_points(const TileProblem& problem, const GpuTraits& traits,
                                   int64_t least_side = 8);
/// Whether products of the type are better guesses by tiles than by other kernels: if a matrix unit
/// multiplies it, or if the traits say so.
bool tiles_lead(DType input, const GpuTraits& traits);
/// Whether a device can run it.
bool fits(const TileProblem& problem, const TilePoint& point, const GpuTraits& traits);
/// The launches of products that together make one result, and those that finish their epilogue's reductions.
/// `points[i]` is a point of oriented(products[i]). The candidate is named after the longest product.
GpuCandidate tile_candidate(std::vector<TileProblem> products, const std::vector<TilePoint>& points,
                            const GpuTraits& traits);

}  // namespace athanor::gpu
