// Which blocks are worth timing for an attention on a device's matrix units.
#include <fmt/format.h>

#include <algorithm>
#include <ranges>
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
// In f32 a block of 64 leaves room for one wave of a SIMD, and with two tiles of 32 rows compilers spill from
// 96 features on. The units of 16 rows leave room for more waves of many features.
constexpr FlashShape flash_mfma_f32_shapes[] = {{4, 1, 32}, {2, 1, 32}};
constexpr FlashShape flash_mfma_f32_small_shapes[] = {{4, 1, 32}, {4, 2, 32}, {4, 1, 16}};
// With two tiles Intel's compiler spills, because each multiplication writes its sums to new registers.
constexpr FlashShape flash_dpas_shapes[] = {{16, 1, 32}, {8, 1, 64}, {8, 1, 32},
                                            {8, 1, 16},  {4, 1, 32}, {4, 1, 16}};

// Of all gradients, in the order of what tools/check-gpu-kernels --cost predicts for d = 64. Each chunk of
// own rows reads and writes the gradient by queries, so fewer are bound by L2; more leave room for few waves.
constexpr FlashShape all_gradients_shapes[] = {{4, 1, 32}, {8, 1, 32}, {4, 1, 64}};
constexpr FlashShape all_gradients_mma_shapes[] = {
    {4, 1, 32}, {8, 1, 32}, {4, 1, 64}, {2, 1, 32}, {2, 1, 16}};
constexpr FlashShape all_gradients_dpas_shapes[] = {{8, 1, 32}, {8, 1, 16}, {4, 1, 32}};

std::span<const FlashShape> flash_shapes(const AttentionProblem& p, const MatrixUnit& unit) {
  if (p.kind == AttentionKind::grad_qkv) {
    if (unit.form == MatrixUnit::Form::mma) return all_gradients_mma_shapes;
    if (unit.form == MatrixUnit::Form::dpas) return all_gradients_dpas_shapes;
    return all_gradients_shapes;
  }
  if (unit.form == MatrixUnit::Form::mma) return flash_mma_shapes;
  if (FlashUnit{&unit}.mfma_f32()) {
    if (unit.m == 32) return flash_mfma_f32_shapes;
    return flash_mfma_f32_small_shapes;
  }
  if (unit.form == MatrixUnit::Form::mfma) return flash_mfma_shapes;
  if (unit.form == MatrixUnit::Form::dpas) return flash_dpas_shapes;
  return flash_wmma_shapes;
}

/// FlashKernel::registers() up to which kernels are offered; and with own rows among them. Compilers were
/// seen to spill none, but Intel's up to 12. CDNA has twice as many.
int64_t register_limit(const MatrixUnit& unit) {
  using enum MatrixUnit::Form;
  return unit.form == mfma ? 400 : unit.form == dpas ? 280 : 224;
}
int64_t limit_with_own(const MatrixUnit& unit) {
  return unit.form == MatrixUnit::Form::dpas ? 256 : register_limit(unit);
}

/// Waves for which a SIMD of CDNA has registers: 512 a lane from CDNA2 on. CDNA1 has 256, and another 256 in
/// which only its matrix unit accumulates; its unit for bf16 is half as deep. The limits are what compilers
/// were seen to need.
int64_t waves_by_registers(const AttentionProblem& p, const FlashKernel& kernel, const GpuTraits& traits) {
  const int64_t wanted = kernel.registers() + (p.is_grad() ? 0 : 32);  // softmax needs more
  const bool one_file = std::ranges::any_of(traits.matrix_units, [](const MatrixUnit& unit) {
    return unit.input == DType::bf16 && unit.m == 32 && unit.k == 8;
  });
  if (p.dtype == DType::f32) {
    if (wanted > (one_file ? 220 : 136)) return 1;
    return wanted > (one_file ? 136 : 96) ? 2 : 3;
  }
  if (wanted > (one_file ? 184 : 152)) return 1;
  return one_file && wanted <= 152 ? 3 : 2;
}

/// How fast a SIMD of CDNA is, relative to one that has a single wave: other waves hide a wave's waits and
/// its softmax, as tools/check-gpu-kernels --cost predicts. Groups of few waves leave SIMDs without work.
double speed_of_waves(const AttentionProblem& p, const FlashKernel& kernel, const FlashPoint& point,
                      int64_t groups, const GpuTraits& traits) {
  constexpr double simds = 4;  // of a compute unit
  const int64_t resident =
      std::min(traits.local_bytes / kernel.local_bytes(), ceil_div(groups, traits.compute_units));
  const double waves = std::min(static_cast<double>(resident * point.waves) / simds,
                                static_cast<double>(waves_by_registers(p, kernel, traits)));
  if (waves <= 1) return waves;
  // In f32 the units take so long that two waves hide all else.
  if (p.dtype == DType::f32) {
    const double second = p.tf32 ? 0.4 : 0.12, third = p.tf32 ? 0.1 : 0.03;
    return waves <= 2 ? 1 + second * (waves - 1) : 1 + second + third * (waves - 2);
  }
  return waves <= 2 ? 1 + 0.4 * (waves - 1) : 1.4 + 0.2 * (waves - 2);
}

double rounds_of(int64_t groups, const FlashPoint& point, const GpuTraits& traits) {
  const auto whole = static_cast<double>(ceil_div(groups, traits.compute_units));
  // Of several groups that share a compute unit of CDNA, not all end at once.
  if (!point.unit.mfma()) return whole;
  return std::max(1.0, static_cast<double>(groups) / traits.compute_units);
}

/// Time on a full device, in own rows: rounds of groups. Many own rows read less of local memory.
double flash_cost(const AttentionProblem& p, const FlashKernel& kernel, const FlashPoint& point,
                  const GpuTraits& traits) {
  const int64_t groups = p.batches * ceil_div(p.own(), point.rows());
  const double rounds = rounds_of(groups, point, traits);
  const auto block = static_cast<double>(point.block);
  double work = 1 + 8 / static_cast<double>(point.wave_rows()) + 8 / block + (point.own_local ? 0.25 : 0);
  if (point.unit.unit->form == MatrixUnit::Form::mfma) {
    if (!p.is_grad()) work += 8 / block;  // sums are scaled for each block
    if (point.unit.mfma_f32()) work = 1 + (p.tf32 ? 0.5 : 0.15) * (work - 1);
    work /= speed_of_waves(p, kernel, point, groups, traits);
  } else if (!kernel.even()) {
    work *= 3;
  }
  return rounds * static_cast<double>(point.rows()) * work;
}

/// Those that take no more local memory.
RankedPoints ranked_points(const AttentionProblem& problem, const GpuTraits& traits,
                           int64_t most_local_bytes) {
  RankedPoints ranked;
  for (const MatrixUnit& one : traits.matrix_units) {
    const FlashUnit unit{&one};
    if (one.input != problem.dtype || one.tf32 != problem.tf32 || !unit.fits()) continue;
    for (const FlashShape& shape : flash_shapes(problem, one)) {
      FlashPoint point{unit, shape.waves, shape.tiles, shape.block};
      point.async = traits.async_copies;
      point.unrolled = unit.by_steps() && !traits.unrolls_nests;
      if (!FlashKernel(problem, point).fits(traits, most_local_bytes)) point.async = false;
      if (FlashKernel(problem, point).registers() > limit_with_own(one)) point.own_local = true;
      point.at_launch = FlashKernel(problem, point).local_bytes() > traits.local_bytes;
      const FlashKernel kernel(problem, point);
      if (!kernel.fits(traits, most_local_bytes) || kernel.registers() > register_limit(one)) continue;
      if (unit.mfma() && waves_by_registers(problem, kernel, traits) >= 2) point.room = 2;
      const bool in_order = problem.kind == AttentionKind::grad_qkv;
      ranked.emplace_back(in_order ? 0 : flash_cost(problem, kernel, point, traits), point);
    }
    if (!ranked.empty() && !unit.mfma_f32()) break;  // the units are in order, best first
  }
  return ranked;
}

}  // namespace

std::vector<FlashPoint> flash_points(const AttentionProblem& problem, const GpuTraits& traits) {
  // All gradients pass scores through local memory in pairs of 16 bits.
  if (problem.dtype == DType::f32 && problem.kind == AttentionKind::grad_qkv) return {};
  // For tf32, whose elements take twice the room, a compute unit should have room for two groups; CUDA keeps
  // 1 KiB of each for itself. Large heads take what there is.
  const int64_t all = traits.most_local_bytes(), half = (all - 1024) / 2;
  RankedPoints ranked = ranked_points(problem, traits, std::max(traits.local_bytes, problem.tf32 ? half : 0));
  if (ranked.empty()) ranked = ranked_points(problem, traits, all);
  std::ranges::stable_sort(ranked, {}, [](const auto& entry) { return entry.first; });
  constexpr size_t most = 3;
  if (RankedPoints by_four = points_by_four(problem, traits); !by_four.empty()) {
    ranked.resize(std::min<size_t>(ranked.size(), 1));
    std::ranges::stable_sort(by_four, {}, [](const auto& entry) { return entry.first; });
    for (const auto& entry : by_four | std::views::take(most - ranked.size())) ranked.push_back(entry);
    std::ranges::stable_sort(ranked, {}, [](const auto& entry) { return entry.first; });
  }
  std::vector<FlashPoint> points;
  for (const auto& entry : ranked | std::views::take(most)) points.push_back(entry.second);
  return points;
}

GpuCandidate flash_candidate(const AttentionProblem& problem, const FlashPoint& point) {
  return {.name = fmt::format("{} attention {}x{}", point.unit.name(), point.rows(), point.block),
          .parameters = {{"own_rows", point.rows()},
                         {"block", point.block},
                         {"waves", point.waves},
                         {"async", point.async},
                         {"own_local", point.own_local},
                         {"unit_m", point.unit.unit->m}},
          .launches = {FlashKernel(problem, point).launch()}};
}

std::vector<GpuCandidate> flash_candidates(const AttentionProblem& problem, const GpuTraits& traits) {
  std::vector<GpuCandidate> candidates;
  for (const FlashPoint& point : flash_points(problem, traits))
    candidates.push_back(flash_candidate(problem, point));
  return candidates;
}

}  // namespace athanor::gpu
