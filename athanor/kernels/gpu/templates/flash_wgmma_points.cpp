// Which blocks are worth timing for an attention by units of four waves.
#include <algorithm>
#include <span>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/flash_kernel.h"

namespace athanor::gpu {
namespace {

/// `peak`: the share of it that tools/check-gpu-kernels --cost --attention predicts on sm_90a, for heads of
/// 64 or of 128. A multiprocessor holds two groups of 128 rows if a lane has 128 registers at most.
struct FourShape {
  int64_t waves, block;
  bool own_local;
  double peak;
};
constexpr FourShape result_64[] = {{8, 96, false, 0.77}, {8, 80, true, 0.67}, {4, 64, true, 0.63}};
constexpr FourShape grad_q_64[] = {{8, 64, true, 0.84}, {4, 64, false, 0.79}};
constexpr FourShape grad_kv_64[] = {{4, 64, true, 0.62}, {8, 64, false, 0.62}};
// The last of them are also for more features than 128. 64 rows of results read as much as L2 can, whose
// rate is a guess, so that they come after 128.
constexpr FourShape result_128[] = {{8, 128, false, 0.61}, {4, 64, false, 0.6}, {8, 64, true, 0.51}};
constexpr FourShape grad_q_128[] = {{8, 128, true, 0.86}, {4, 64, true, 0.77}};
constexpr FourShape grad_kv_128[] = {{4, 64, true, 0.73}, {8, 64, true, 0.67}};

std::span<const FourShape> shapes_by_four(const AttentionProblem& p) {
  const bool few = std::max(p.d, p.e) <= 64;
  if (!p.is_grad()) return few ? std::span<const FourShape>(result_64) : result_128;
  if (!p.by_keys()) return few ? std::span<const FourShape>(grad_q_64) : grad_q_128;
  return few ? std::span<const FourShape>(grad_kv_64) : grad_kv_128;
}

/// FlashKernel::registers() up to which ptxas was seen to spill none.
constexpr int64_t most_registers_by_four = 236;
/// The cost that flash_points.cpp gives mma.sync's first guess for a full device, in own rows, times the
/// share of the peak that is predicted for it.
constexpr double cost_of_peak = 1.375 * 0.42;

}  // namespace

FlashUnit unit_of_four(DType dtype, const GpuTraits& traits) {
  FlashUnit both{nullptr};
  for (const MatrixUnit& one : traits.matrix_units) {
    if (one.input != dtype || one.tf32) continue;
    if (both.four == nullptr && one.turns_local()) both.four = &one;
    if (both.unit == nullptr && FlashUnit{&one}.fits() && FlashUnit{&one}.mma()) both.unit = &one;
  }
  return both;
}

RankedPoints points_by_four(const AttentionProblem& problem, const GpuTraits& traits) {
  RankedPoints ranked;
  if (problem.kind == AttentionKind::grad_qkv || problem.tf32) return ranked;
  const FlashUnit unit = unit_of_four(problem.dtype, traits);
  if (unit.unit == nullptr || unit.four == nullptr) return ranked;
  for (const FourShape& shape : shapes_by_four(problem)) {
    FlashPoint point{unit, shape.waves, 1, shape.block, true, shape.own_local};
    point.at_launch = FlashKernel(problem, point).local_bytes() > traits.local_bytes;
    const FlashKernel kernel(problem, point);
    if (!kernel.fits(traits, traits.most_local_bytes()) || kernel.registers() > most_registers_by_four)
      continue;
    const auto rounds = static_cast<double>(
        ceil_div(problem.batches * ceil_div(problem.own(), point.rows()), traits.compute_units));
    ranked.emplace_back(rounds * static_cast<double>(point.rows()) * cost_of_peak / shape.peak, point);
  }
  return ranked;
}

}  // namespace athanor::gpu
