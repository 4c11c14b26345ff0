// Which points of the templates' tuning spaces are worth timing: a table for each kind of device, which its
// Grain names. Templates that differ between devices only in numbers take those from the Grain.
#pragma once
#include <vector>

#include "athanor/kernels/gpu/templates/attention.h"
#include "athanor/kernels/gpu/templates/gemm.h"
#include "athanor/ops/conv_problem.h"

namespace athanor::gpu {

/// Best guess first.
struct Points {
  std::vector<GemmPoint> (*gemm)(const GemmProblem& problem, const GpuTraits& traits);
  /// For a product that gathers B from images.
  std::vector<GemmPoint> (*conv)(const GemmProblem& problem, const GpuTraits& traits);
  /// For conv2d_weight_grad by taps.
  std::vector<GemmPoint> (*taps)(const GemmProblem& problem, const ConvProblem& conv,
                                 const GpuTraits& traits);
  /// The one kernel that computes any product, and the one for any product that gathers.
  GpuCandidate (*plain)(const GemmProblem& problem, const GpuTraits& traits);
  GpuCandidate (*plain_conv)(const GemmProblem& problem, const GpuTraits& traits);
  /// The points that fit into local memory; may be {}.
  std::vector<AttentionPoint> (*attention)(const AttentionProblem& problem,
                                           const AttentionFootprint& footprint, const GpuTraits& traits);
};

/// Work-groups of the point, without splits.
int64_t groups_of(const GemmProblem& problem, const GemmPoint& point);
/// Splits k if the result alone has too few tiles to keep the device busy.
GemmPoint split(const GemmProblem& problem, GemmPoint point, const GpuTraits& traits, int64_t least_k);

}  // namespace athanor::gpu
