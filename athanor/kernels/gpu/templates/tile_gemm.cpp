// Products of the tile engine as launches.
#include "athanor/kernels/gpu/templates/tile_gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/loop_behind.h"
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
      scratch_start(gemm.scratch_start) {
  const auto pad = [](TileAxis& one, TileAxis& other, int64_t padding) {
    for (TileAxis* axis : {&one, &other})
      if (axis->stride() == 1) axis->pad(padding);
  };
  pad(a.outer, a.k, gemm.a.padding);
  pad(b.outer, b.k, gemm.b.padding);
  pad(c.row, c.column, gemm.c.padding);
  if (gemm.prologue) (gemm.prologue_of == 0 ? a : b).read(*gemm.prologue);
}

void TileProblem::Matrix::read(OperandPrologue from) {
  memory = from.memory;
  alignment = from.alignment;
  dtype = from.dtype;
  prologue = std::move(from.elements);
  outer.pad(0);
  k.pad(0);
  const auto along = [](const TileAxis& axis, bool is_outer) {
    return ResultAxis{.row = is_outer ? 1 : 0,
                      .column = is_outer ? 0 : 1,
                      .stride = axis.stride(),
                      .extent = axis.extent()};
  };
  prologue.axes = {along(outer, true), along(k, false)};
}

TileProblem TileProblem::transposed() const {
  TileProblem t = *this;
  std::swap(t.m, t.n);
  std::swap(t.a, t.b);
  std::swap(t.c.row, t.c.column);
  t.epilogue = epilogue.transposed();
  using enum Groups::Along;
  if (has_groups(row)) t.groups->along = column;
  if (has_groups(column)) t.groups->along = row;
  return t;
}

TileProblem TileProblem::with_equal_groups() const {
  TileProblem equal = *this;
  using enum Groups::Along;
  const auto divide = [&](int64_t& extent) { extent = ceil_div(extent, groups->count); };
  if (has_groups(row)) divide(equal.m);
  if (has_groups(column)) divide(equal.n);
  if (has_groups(k)) divide(equal.k);
  if (groups) equal.batch = groups->count;
  return equal;
}

TileProblem oriented(const TileProblem& problem, const MatrixUnit& unit) {
  const TileAxis &row = problem.c.row, &column = problem.c.column;
  if (unit.interleaves_halves() && stores_eight(problem.c, row, column)) return problem;
  if (unit.interleaves_halves() && stores_eight(problem.c, column, row)) return problem.transposed();
  const bool turns =
      unit_stores_rows(unit) ? column.stride() == 1 : row.stride() == 1 && column.stride() != 1;
  return turns ? problem.transposed() : problem;
}

bool tiles_lead(DType input, const GpuTraits& traits) {
  return traits.lanes_lead || std::ranges::count(traits.matrix_units, input, &MatrixUnit::input) > 0;
}

bool fits(const TileProblem& problem, const TilePoint& point, const GpuTraits& traits) {
  const TileKernel kernel(oriented(problem, *point.unit), point);
  // With further results, a loop adds the parts of K.
  const bool by_loop = point.splits > 1 && problem.epilogue.has_further_results();
  return kernel.fits(traits) && (!by_loop || kernel.loop_over_parts());
}

namespace {

GpuCandidate product_candidate(const TileProblem& problem, const TilePoint& point, const GpuTraits& traits) {
  TileKernel kernel(oriented(problem, *point.unit), point);
  GpuCandidate candidate;
  candidate.name = fmt::format("{} {}x{}x{}", point.unit->name, point.m, point.n, point.k);
  candidate.parameters = {{"tile_m", point.m},        {"tile_n", point.n},        {"tile_k", point.k},
                          {"waves_m", point.waves_m}, {"waves_n", point.waves_n}, {"stages", point.stages},
                          {"unit_m", point.unit->m},  {"splits", point.splits}};
  if (point.streams > 0) candidate.parameters["streams"] = point.streams;
  if (point.boxes) candidate.parameters["boxes"] = 1, candidate.name += " TMA";
  GpuLaunch::Argument c = problem.c.memory;
  candidate.scratch_bytes = problem.scratch_start;
  if (point.streams > 0) {
    const GpuLaunch::Argument parts{problem.scratch_buffer, static_cast<int64_t>(problem.scratch_start)};
    candidate.scratch_bytes += static_cast<size_t>(kernel.stream().parts() * point.m * point.n) * 4;
    candidate.name += fmt::format(" stream {}", point.streams);
    candidate.launches = {kernel.launch(c, traits, parts), kernel.finish_stream(parts, traits)};
    return candidate;
  }
  if (point.splits > 1) {
    c = {problem.scratch_buffer, static_cast<int64_t>(problem.scratch_start)};
    candidate.scratch_bytes +=
        static_cast<size_t>(point.splits * problem.batch * problem.m * problem.n) * 4;  // f32 or i32
    candidate.name += fmt::format(" split {}", point.splits);
  }
  candidate.launches.push_back(kernel.launch(c, traits));
  if (point.splits == 1) return candidate;
  if (problem.epilogue.has_further_results()) {
    const ResultEpilogue::Finish loop = kernel.loop_over_parts().value();
    append_loop(candidate, loop.program, c, loop.arguments, problem.scratch_buffer, traits);
  } else {
    candidate.launches.push_back(kernel.sum(c, traits));
  }
  return candidate;
}

/// The loop that joins the parts of one result, which are its buffer 0. The parts of each reduction get a
/// buffer of their own: then loops over different numbers of parts have the same program.
GpuLaunch::Joining joining(const LoopProgram& finish, int64_t bytes) {
  GpuLaunch::Joining all{finish, {}, 0, bytes};
  for (int b = 0; b < finish.buffers; ++b) all.places.push_back({b});
  for (LoopOperand& operand : all.program.operands) {
    if (operand.buffer != 0 || operand.offset == 0) continue;
    operand.buffer = all.program.buffers++;
    all.places.push_back({0, operand.offset * static_cast<int64_t>(size_of(operand.dtype))});
    operand.offset = 0;
  }
  return all;
}

}  // namespace

GpuCandidate tile_candidate(std::vector<TileProblem> products, const std::vector<TilePoint>& points,
                            const GpuTraits& traits) {
  const ResultEpilogue& epilogue = products.front().epilogue;
  TileProblem::Partials partials;
  size_t taken = 0;
  const bool split = std::ranges::any_of(points, [](const TilePoint& point) { return point.splits > 1; });
  if (!epilogue.reductions().empty() && !split) {
    partials.memory = {products.front().scratch_buffer, static_cast<int64_t>(products.front().scratch_start)};
    for (size_t i = 0; i < products.size(); ++i) {
      products[i].partials.first = partials.parts;
      partials.parts += TileKernel(oriented(products[i], *points[i].unit), points[i]).sum_parts();
    }
    const auto results = static_cast<size_t>(epilogue.reduced()->results * partials.parts);
    taken = (epilogue.reductions().size() * results * sizeof(float) + 255) / 256 * 256;
    for (TileProblem& product : products) {
      product.partials.memory = partials.memory;
      product.partials.parts = partials.parts;
      product.scratch_start += taken;
    }
  }
  GpuCandidate all;
  int64_t longest = -1;
  for (size_t i = 0; i < products.size(); ++i) {
    GpuCandidate one = product_candidate(products[i], points[i], traits);
    if (products[i].k > longest)
      longest = products[i].k, all.name = one.name, all.parameters = std::move(one.parameters);
    all.scratch_bytes = std::max(all.scratch_bytes, one.scratch_bytes);
    std::ranges::move(one.launches, std::back_inserter(all.launches));
  }
  if (taken == 0) return all;
  const ResultEpilogue::Finish finish = epilogue.finish(partials.parts);
  const size_t before = all.launches.size();
  append_loop(all, finish.program, partials.memory, finish.arguments, products.front().scratch_buffer,
              traits);
  if (finish.program.space.size() == 1 && all.launches.size() == before + 1)
    all.launches.back().joining = joining(finish.program, static_cast<int64_t>(taken));
  return all;
}

}  // namespace athanor::gpu
