// Points for devices of fine grain: many items run at once.
#include <algorithm>
#include <array>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/points.h"

namespace athanor::gpu {
namespace {

using enum GemmSource;

std::vector<GemmPoint> fine_gemm(const GemmProblem& p, const GpuTraits& traits) {
  struct Tile {
    int64_t rows, vectors, width, group_x, group_y, k_step;
  };
  // 128 x 128, 64 x 128, 64 x 64, 32 x 64, 32 x 32 and, for few rows, 8 x 128 and 2 x 128.
  constexpr Tile tiles[] = {{8, 2, 4, 16, 16, 8}, {8, 2, 4, 16, 8, 16}, {4, 1, 4, 16, 16, 16},
                            {4, 1, 4, 16, 8, 16}, {4, 1, 4, 8, 8, 16},  {8, 1, 2, 64, 1, 16},
                            {2, 1, 2, 64, 1, 32}};
  std::vector<std::pair<double, GemmPoint>> ranked;
  for (const Tile& tile : tiles) {
    const GemmPoint point = split(
        p,
        {staged, staged, tile.rows, tile.vectors, tile.width, 1, tile.group_x, tile.group_y, tile.k_step, 1},
        traits, 128);
    if (!fits(p, point, traits)) continue;
    // Time on a full device, in units of its peak: rounds of groups. Large tiles read less memory.
    const double tile_work = static_cast<double>(point.tile_m() * point.tile_n());
    const double reuse =
        tile_work / static_cast<double>(point.tile_m() + point.tile_n());  // multiplications a load
    const double rounds =
        static_cast<double>(ceil_div(groups_of(p, point) * point.splits, 2L * traits.compute_units));
    const double cost = rounds * tile_work * (1 + 16 / reuse) / static_cast<double>(point.splits);
    ranked.emplace_back(cost, point);
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& entry) { return entry.first; });
  if (ranked.size() > 4) ranked.resize(4);
  std::vector<GemmPoint> points;
  for (const auto& [cost, point] : ranked) points.push_back(point);
  return points;
}

std::vector<GemmPoint> fine_taps(const GemmProblem& p, const ConvProblem& /*conv*/, const GpuTraits& traits) {
  auto points = fine_gemm(p, traits);
  if (points.size() > 2) points.resize(2);
  return points;
}

GpuCandidate fine_row(const GemmProblem& p, const GpuTraits& traits) {
  return plain_gemm_candidate(p, 1, 1, std::min<int64_t>(64, traits.max_group_size), 1);
}

GpuCandidate fine_plain(const GemmProblem& p, const GpuTraits& traits) {
  constexpr int64_t wide = 16, high = 8;
  if (p.m == 1 || wide * high > traits.max_group_size) return fine_row(p, traits);
  return plain_gemm_candidate(p, p.m >= 128 ? 4 : 1, p.n >= 128 ? 4 : 1, wide, high);
}

std::vector<AttentionPoint> fine_attention(const AttentionProblem& problem,
                                           const AttentionFootprint& footprint, const GpuTraits& traits) {
  // Local memory holds one or two groups on a compute unit, so that large ones keep more of its SIMDs busy.
  using FourPoints = std::array<AttentionPoint, 4>;
  FourPoints large{{{64, 32, 256, 16}, {64, 16, 256, 16}, {32, 32, 256, 16}, {32, 16, 256, 16}}},
      small{{{16, 32, 64, 8}, {16, 16, 64, 8}, {8, 16, 64, 8}, {8, 8, 64, 8}}};
  for (const MatrixUnit& unit : traits.lane_units)
    if (unit.form == MatrixUnit::Form::dot && unit.input == problem.dtype)
      for (auto* points : {&large, &small})
        for (AttentionPoint& point : *points) point.dot = &unit;
  const auto fits = [&](const AttentionPoint& point) {
    const bool too_many = point.rows > point.side && point.rows / 2 >= problem.own();
    const bool in_pairs = !point.pairs() || point.block_each() % 2 == 0;
    return !too_many && in_pairs && point.items <= traits.max_group_size &&
           footprint.bytes(point) <= traits.local_bytes;
  };
  std::vector<AttentionPoint> points;
  if (const auto found = std::ranges::find_if(large, fits); found != large.end()) points.push_back(*found);
  for (const AttentionPoint& point : small)
    if (points.size() < 2 && fits(point)) points.push_back(point);
  // Large groups are the better guess if each compute unit gets one.
  if (points.size() == 2 && points[0].side > points[1].side &&
      problem.batches * ceil_div(problem.own(), points[0].rows) < traits.compute_units)
    std::swap(points[0], points[1]);
  return points;
}

}  // namespace

const Points fine_points = {.gemm = fine_gemm,
                            .conv = fine_gemm,
                            .taps = fine_taps,
                            .plain = fine_plain,
                            .plain_conv = fine_row,
                            .attention = fine_attention};

}  // namespace athanor::gpu
