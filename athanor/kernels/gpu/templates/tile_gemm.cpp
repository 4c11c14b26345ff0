// Products of the tile engine as launches.
#include "athanor/kernels/gpu/templates/tile_gemm.h"

#include <fmt/format.h>

#include "athanor/kernels/gpu/templates/tile_kernel.h"

namespace athanor::gpu {

TileProblem::TileProblem(const GemmProblem& gemm)
    : input(gemm.factors.value_or(gemm.dtype)),
      output(gemm.dtype),
      batch(gemm.batch),
      m(gemm.m),
      n(gemm.n),
      k(gemm.k),
      a{{gemm.a.buffer, gemm.a.start}, gemm.a.batch, {m, gemm.a.row}, {k, gemm.a.column}, gemm.a.alignment},
      b{{gemm.b.buffer, gemm.b.start}, gemm.b.batch, {n, gemm.b.column}, {k, gemm.b.row}, gemm.b.alignment},
      c{{gemm.c.buffer, gemm.c.start}, gemm.c.batch, {m, gemm.c.row}, {n, gemm.c.column}},
      epilogue(gemm.epilogue),
      scratch_buffer(gemm.scratch_buffer),
      scratch_start(gemm.scratch_start) {}

TileProblem TileProblem::transposed() const {
  TileProblem t = *this;
  std::swap(t.m, t.n);
  std::swap(t.a, t.b);
  std::swap(t.c.row, t.c.column);
  t.epilogue = epilogue.transposed();
  return t;
}

TileProblem oriented(const TileProblem& problem, const MatrixUnit& unit) {
  return unit_stores_rows(unit) && problem.c.column.stride() == 1 ? problem.transposed() : problem;
}

bool fits(const TileProblem& problem, const TilePoint& point, const GpuTraits& traits) {
  return TileKernel(oriented(problem, *point.unit), point).fits(traits);
}

GpuCandidate tile_candidate(const TileProblem& problem, const TilePoint& point, const GpuTraits& traits) {
  TileKernel kernel(oriented(problem, *point.unit), point);
  GpuCandidate candidate;
  candidate.name = fmt::format("{} {}x{}x{}", point.unit->name, point.m, point.n, point.k);
  candidate.parameters = {{"tile_m", point.m},        {"tile_n", point.n},        {"tile_k", point.k},
                          {"waves_m", point.waves_m}, {"waves_n", point.waves_n}, {"stages", point.stages},
                          {"unit_m", point.unit->m},  {"splits", point.splits}};
  GpuLaunch::Argument c = problem.c.memory;
  if (point.splits > 1) {
    c = {problem.scratch_buffer, static_cast<int64_t>(problem.scratch_start)};
    candidate.scratch_bytes =
        problem.scratch_start +
        static_cast<size_t>(point.splits * problem.batch * problem.m * problem.n) * 4;  // f32 or i32
    candidate.name += fmt::format(" split {}", point.splits);
  }
  candidate.launches.push_back(kernel.launch(c, traits));
  if (point.splits > 1) candidate.launches.push_back(kernel.sum(c, traits));
  return candidate;
}

}  // namespace athanor::gpu
