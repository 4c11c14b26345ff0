// How long a product takes by a tile, for ranking tiles before any has been timed.
#pragma once
#include "athanor/kernels/gpu/templates/tile_gemm.h"

namespace athanor::gpu {

/// Time on a full device, in units of its peak: rounds of groups, and the parts of a split K, which are
/// written and read once by a second launch. Large tiles read less memory.
double cost_of(const TileProblem& problem, const TilePoint& point, const GpuTraits& traits);

}  // namespace athanor::gpu
