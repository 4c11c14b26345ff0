// grouped_matmul and its gradient by the matrices: problems, points and candidates.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/gpu/loop_behind.h"
#include "athanor/kernels/gpu/templates.h"
#include "athanor/kernels/gpu/templates/grouped_kernel.h"
#include "athanor/kernels/gpu/templates/tile_gemm.h"

namespace athanor::gpu {
namespace {

bool serves_groups(std::span<const TensorType> inputs, const TensorType& output, const Attrs& attrs,
                   const GpuTraits& traits) {
  return serves_floats(inputs, output, attrs, traits) && output.shape.size() > 0 &&
         std::ranges::all_of(inputs, [](const TensorType& in) { return in.shape.size() > 0; }) &&
         inputs[0].shape[0] < (int64_t{1} << 30);
}

int64_t bytes_of(const GroupedProblem& p) { return p.dtype == DType::f64 ? 8 : 4; }

int64_t local_bytes_of(const GroupedProblem& p, const GroupedPoint& point) {
  constexpr int64_t alignment = 64;
  const auto tile = [&](int64_t numbers) { return ceil_div(numbers * bytes_of(p), alignment) * alignment; };
  return tile(point.k_step * point.pitch()) + tile(point.k_step * point.tile_n());
}

// Tiles of rows, some of which are empty.
int64_t slots_of(const GroupedProblem& p, const GroupedPoint& point) {
  if (p.gradient) return p.groups * ceil_div(p.inner, point.tile_m());
  return GroupsOfRows{p.ends, p.groups, p.rows}.slots(point.tile_m());
}

// The time on a full device if all groups are alike, in units of its peak. Large tiles read less memory.
double cost_of(const GroupedProblem& p, const GroupedPoint& point, const GpuTraits& traits) {
  const int64_t high = p.gradient ? p.inner : ceil_div(p.rows, p.groups);
  const int64_t tiles = p.groups * ceil_div(high, point.tile_m()) * ceil_div(p.columns, point.tile_n());
  const auto work = static_cast<double>(point.tile_m() * point.tile_n());
  const double reuse = work / static_cast<double>(point.tile_m() + point.tile_n());
  return static_cast<double>(ceil_div(tiles, 2L * traits.compute_units)) * work * (1 + 16 / reuse);
}

// Best guess first, at least one.
std::vector<GroupedPoint> points_of(const GroupedProblem& p, const GpuTraits& traits) {
  // 128 x 128, 64 x 64, 32 x 64, 32 x 32 and, for few rows, 8 x 128.
  std::vector<GroupedPoint> points = {{8, 2, 4, 16, 16, 8},
                                      {4, 1, 4, 16, 16, 16},
                                      {4, 1, 4, 16, 8, 16},
                                      {4, 1, 4, 8, 8, 16},
                                      {8, 1, 2, 64, 1, 16}};
  if (p.dtype == DType::f64) points = {{4, 4, 1, 16, 16, 8}, {4, 4, 1, 8, 8, 8}};
  if (traits.grain->side_by_side == 1) {  // an item is a core
    const int64_t width = p.dtype == DType::f64 ? 1 : 16, vectors = p.dtype == DType::f64 ? 8 : 2;
    points = {{8, vectors, width, 1, 1, 256}};
  }
  for (GroupedPoint& point : points) {
    point.k_step = std::min(point.k_step, p.gradient ? p.rows : p.inner);
    while (point.k_step > 1 && local_bytes_of(p, point) > traits.local_bytes) point.k_step /= 2;
  }
  std::erase_if(points, [&](const GroupedPoint& point) {
    return point.items() > traits.max_group_size || local_bytes_of(p, point) > traits.local_bytes;
  });
  if (points.empty()) return {{1, 1, 1, 1, 1, 1}};
  std::ranges::stable_sort(points, {}, [&](const GroupedPoint& one) { return cost_of(p, one, traits); });
  if (points.size() > 3) points.resize(3);
  return points;
}

/// The same for the tile engine.
TileProblem tile_problem_of(const KernelRequest& request, const GroupedProblem& p) {
  using enum TileProblem::Groups::Along;
  const size_t m_axis = p.gradient ? 1 : 0, k_axis = 1 - m_axis, b_k = p.gradient ? 0 : 1;
  TileProblem tiles;
  tiles.input = tiles.output = p.dtype;
  tiles.batch = p.gradient ? p.groups : 1;
  tiles.m = p.gradient ? p.inner : p.rows;
  tiles.n = p.columns;
  tiles.k = p.gradient ? p.rows : p.inner;
  tiles.a = {{0}, 0, {tiles.m, p.x[m_axis]}, {tiles.k, p.x[k_axis]}, request.inputs[0].alignment};
  tiles.b = {{1},
             p.gradient ? 0 : p.other[0],
             {tiles.n, p.other[b_k + 1]},
             {tiles.k, p.other[b_k]},
             request.inputs[1].alignment};
  tiles.c = {{static_cast<int>(request.inputs.size())},
             p.gradient ? p.inner * p.columns : 0,
             {tiles.m, p.columns},
             {tiles.n, 1}};
  tiles.epilogue = ResultEpilogue(request);
  tiles.epilogue.axes = {{.column = 1, .stride = 1, .extent = tiles.n},
                         {.row = 1, .stride = p.columns, .extent = tiles.m},
                         {.batch = 1, .stride = tiles.c.batch, .extent = tiles.batch}};
  tiles.scratch_buffer = request.scratch_buffer();
  tiles.groups = {.along = p.gradient ? k : row, .ends = {2}, .stride = p.ends, .count = p.groups};
  return tiles;
}

GpuCandidate grouped_candidate(const GroupedProblem& p, const GroupedPoint& point) {
  GpuLaunch launch{.name = "grouped_matmul",
                   .source = GroupedKernel(p, point).text(),
                   .groups = {slots_of(p, point) * ceil_div(p.columns, point.tile_n()), 1, 1},
                   .group_size = {point.group_x, point.group_y, 1},
                   .local_bytes = local_bytes_of(p, point),
                   .arguments = {{0}, {1}, {2}, {3}},
                   .can_fault = true};
  return {.name = fmt::format("grouped {}x{}", point.tile_m(), point.tile_n()),
          .parameters = {{"rows", point.rows},
                         {"vectors", point.vectors},
                         {"width", point.width},
                         {"group_x", point.group_x},
                         {"group_y", point.group_y},
                         {"k_step", point.k_step}},
          .launches = {std::move(launch)}};
}

}  // namespace

static std::vector<GpuCandidate> grouped_kernels(const KernelRequest& request, const GpuTraits& traits) {
  const bool gradient = request.op->name == "grouped_matmul_weight_grad";
  const OperandDesc &x = request.inputs[0], &other = request.inputs[1], &ends = request.inputs[2];
  const GroupedProblem p{gradient,   request.output().dtype, x.shape[0],
                         x.shape[1], ends.shape[0],          other.shape[gradient ? 1 : 2],
                         x.strides,  other.strides,          ends.strides[0]};
  std::vector<GpuCandidate> candidates;
  const TileProblem tiles = tile_problem_of(request, p);
  for (const TilePoint& point : tile_points(tiles, traits)) {
    candidates.push_back(tile_candidate({tiles}, {point}, traits));
    candidates.back().name = "grouped " + candidates.back().name;
  }
  // Others compute no epilogues, and those with further results are for tiles alone.
  if (has_further_results(request)) return candidates;
  const bool leads = tiles_lead(p.dtype, traits);
  std::vector<GroupedPoint> others = points_of(p, traits);
  if (leads && !candidates.empty()) others.resize(1);
  for (const GroupedPoint& point : others) {
    GpuCandidate plain = grouped_candidate(p, point);
    candidates.push_back(request.has_epilogue() ? with_loop_behind(std::move(plain), request, traits)
                                                : std::move(plain));
  }
  if (!leads) std::ranges::rotate(candidates, candidates.end() - std::ssize(others));
  return candidates;
}

namespace {

[[maybe_unused]] const bool grouped_registered =
    register_template({.ops = {"grouped_matmul", "grouped_matmul_weight_grad"},
                       .candidates = grouped_kernels,
                       .serves = serves_groups,
                       .finishes = true});

}  // namespace

}  // namespace athanor::gpu
