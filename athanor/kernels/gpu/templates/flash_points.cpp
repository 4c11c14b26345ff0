// Which blocks are worth timing for an attention on a device's matrix units.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/flash_kernel.h"

namespace athanor::gpu {
namespace {

struct FlashShape {
  int64_t waves, tiles, block;
};
constexpr FlashShape flash_mma_shapes[] = {{4, 2, 64}, {4, 1, 64}, {4, 2, 32},
                                           {4, 1, 32}, {2, 1, 32}, {2, 1, 16}};
constexpr FlashShape flash_wmma_shapes[] = {{4, 2, 64}, {4, 2, 32}, {4, 1, 64},
                                            {4, 1, 32}, {2, 1, 32}, {4, 1, 16}};
constexpr FlashShape flash_mfma_shapes[] = {{4, 1, 64}, {4, 1, 32}, {2, 1, 64}, {2, 1, 32}};

std::span<const FlashShape> flash_shapes(const MatrixUnit& unit) {
  if (unit.form == MatrixUnit::Form::mma) return flash_mma_shapes;
  if (unit.form == MatrixUnit::Form::mfma) return flash_mfma_shapes;
  return flash_wmma_shapes;
}

/// Registers of a lane, less what compilers were seen to need beyond FlashKernel::registers(). CDNA has twice
/// as many.
int64_t register_limit(const MatrixUnit& unit) { return unit.form == MatrixUnit::Form::mfma ? 400 : 224; }

/// Time on a full device, in own rows: rounds of groups. Many own rows read less of local memory.
double flash_cost(const AttentionProblem& p, const FlashPoint& point, const GpuTraits& traits) {
  const int64_t groups = p.batches * ceil_div(p.own(), point.rows());
  const auto rounds = static_cast<double>(ceil_div(groups, traits.compute_units));
  const double reads = 8 / static_cast<double>(point.wave_rows()) + 8 / static_cast<double>(point.block);
  return rounds * static_cast<double>(point.rows()) * (1 + reads + (point.own_local ? 0.25 : 0));
}

}  // namespace

std::vector<GpuCandidate> flash_candidates(const AttentionProblem& problem, const GpuTraits& traits) {
  std::vector<std::pair<double, FlashPoint>> ranked;
  for (const MatrixUnit& one : traits.matrix_units) {
    const FlashUnit unit{&one};
    if (one.input != problem.dtype || one.tf32 || !unit.fits()) continue;
    for (const FlashShape& shape : flash_shapes(one)) {
      FlashPoint point{unit, shape.waves, shape.tiles, shape.block};
      point.async = traits.async_copies;
      if (!FlashKernel(problem, point).fits(traits)) point.async = false;
      if (FlashKernel(problem, point).registers() > register_limit(one)) point.own_local = true;
      const FlashKernel kernel(problem, point);
      if (!kernel.fits(traits) || kernel.registers() > register_limit(one)) continue;
      ranked.emplace_back(flash_cost(problem, point, traits) * (kernel.even() ? 1 : 3), point);
    }
    break;  // the units are in order, best first
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& entry) { return entry.first; });
  constexpr size_t most = 3;
  std::vector<GpuCandidate> candidates;
  for (const auto& [cost, point] : ranked) {
    if (candidates.size() == most) break;
    GpuCandidate candidate;
    candidate.name = fmt::format("{} attention {}x{}", point.unit.unit->name, point.rows(), point.block);
    candidate.parameters = {{"own_rows", point.rows()},     {"block", point.block},
                            {"waves", point.waves},         {"async", point.async},
                            {"own_local", point.own_local}, {"unit_m", point.unit.unit->m}};
    candidate.launches.push_back(FlashKernel(problem, point).launch());
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace athanor::gpu
