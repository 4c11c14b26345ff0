// Which tiles are worth timing for a problem on a device.
#include <algorithm>
#include <optional>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/tile_cost.h"
#include "athanor/kernels/gpu/templates/tile_gemm.h"
#include "athanor/kernels/gpu/templates/tile_kernel.h"

namespace athanor::gpu {
namespace {

struct TileShape {
  int64_t m, n, k, waves_m, waves_n, stages;
};

// Waves of 32 lanes. 128 x 128 takes 48 KiB. Where a launch can ask for more, 128 x 256 reads a quarter less
// memory: it takes 96 KiB, or 144 in longer steps that wait half as often.
constexpr TileShape mma_shapes[] = {{128, 256, 32, 2, 4, 4}, {128, 256, 64, 2, 4, 3}, {128, 128, 32, 2, 2, 3},
                                    {128, 64, 32, 2, 2, 4},  {64, 128, 32, 2, 2, 4},  {64, 64, 64, 2, 2, 3},
                                    {64, 64, 32, 2, 2, 4},   {32, 64, 64, 2, 2, 4},   {32, 32, 64, 2, 2, 4}};
// Volta: larger ones leave no room for a second set of fragments (58 % of the peak are predicted, not 76).
constexpr TileShape quads_shapes[] = {{128, 64, 32, 2, 2, 2}, {64, 128, 32, 2, 2, 2}, {64, 64, 64, 2, 2, 2},
                                      {64, 64, 32, 2, 2, 2},  {32, 64, 64, 2, 2, 2},  {32, 32, 64, 2, 2, 2}};
constexpr TileShape wmma_shapes[] = {
    {128, 128, 32, 2, 2, 2}, {128, 128, 32, 4, 2, 2}, {256, 128, 32, 4, 2, 2},
    {128, 64, 32, 2, 2, 2},  {64, 128, 32, 2, 2, 2},  {64, 64, 64, 2, 2, 2},
    {64, 64, 32, 2, 2, 2},   {32, 64, 64, 2, 2, 2},   {32, 32, 64, 2, 2, 2}};
// Waves of 64 lanes. A second stage in local memory halves the groups that a compute unit holds, and a group
// is no faster with it: the next tile waits in registers.
constexpr TileShape mfma_shapes[] = {
    {256, 128, 32, 2, 2, 1}, {128, 128, 32, 2, 2, 1}, {128, 64, 64, 2, 2, 1},
    {64, 128, 64, 2, 2, 1},  {128, 64, 32, 2, 2, 1},  {64, 128, 32, 2, 2, 1},
    {64, 64, 64, 2, 2, 1},   {32, 64, 64, 1, 2, 1},   {32, 32, 128, 1, 2, 1}};
// The same for f32 and tf32, which take twice the room of f16.
constexpr TileShape mfma_f32_shapes[] = {
    {128, 128, 16, 2, 2, 1}, {128, 64, 32, 2, 2, 1}, {64, 128, 32, 2, 2, 1}, {128, 64, 16, 2, 2, 1},
    {64, 128, 16, 2, 2, 1},  {64, 64, 32, 2, 2, 1},  {32, 64, 32, 1, 2, 1},  {32, 32, 64, 1, 2, 1}};

// FMA: 8 x 8 elements for each item, or 4 x 4. With steps of 8, an item holds fewer elements in advance, so
// that it needs less than 128 registers, and a multiprocessor has two groups.
constexpr TileShape fma_shapes[] = {{128, 128, 8, 4, 2, 2}, {128, 128, 16, 4, 2, 2}, {128, 64, 16, 4, 1, 2},
                                    {64, 128, 16, 2, 2, 2}, {64, 64, 16, 2, 1, 2},   {64, 64, 16, 4, 2, 2},
                                    {32, 64, 16, 2, 2, 2}};

// The same for sums of two products, with longer steps.
constexpr TileShape dot_shapes[] = {{128, 128, 32, 4, 2, 2}, {128, 64, 32, 4, 1, 2}, {64, 128, 32, 2, 2, 2},
                                    {64, 64, 32, 2, 1, 2},   {64, 64, 32, 4, 2, 2},  {32, 64, 32, 2, 2, 2},
                                    {32, 64, 16, 2, 2, 2}};

// Waves of 8 lanes, and of 16. A lane has 256 registers, of which 64 are sums: 16 x 32 elements of a wave, or
// 32 x 32. Intel's compiler spills twice as many.
constexpr TileShape dpas8_shapes[] = {{128, 128, 32, 8, 4, 2}, {64, 128, 32, 4, 4, 2}, {128, 64, 32, 4, 4, 2},
                                      {64, 64, 32, 4, 2, 2},   {32, 64, 32, 2, 2, 2},  {32, 32, 64, 2, 2, 2}};
constexpr TileShape dpas16_shapes[] = {{128, 128, 32, 4, 4, 2}, {64, 128, 32, 2, 4, 2},
                                       {128, 64, 32, 4, 2, 2},  {64, 64, 32, 2, 2, 2},
                                       {32, 64, 32, 2, 2, 2},   {32, 32, 64, 2, 2, 2}};

// f32 takes twice the room of f16.
constexpr TileShape tf32_shapes[] = {{128, 256, 16, 2, 4, 4}, {128, 128, 16, 2, 2, 3}, {128, 64, 16, 2, 2, 4},
                                     {64, 128, 16, 2, 2, 4},  {64, 64, 32, 2, 2, 3},   {64, 64, 16, 2, 2, 4},
                                     {32, 32, 32, 2, 2, 4}};

// Groups of four waves, of which each has all columns of the tile, in steps of 128 bytes. Two stages are
// multiplied at a time. A multiprocessor has room for two or three groups, but for only one of 128 x 256 or
// 64 x 256.
constexpr TileShape local_shapes[] = {{128, 256, 128, 2, 1, 4}, {128, 128, 128, 2, 1, 3},
                                      {64, 256, 128, 1, 1, 4},  {128, 64, 128, 2, 1, 4},
                                      {64, 128, 128, 1, 1, 4},  {64, 64, 128, 1, 1, 4}};

std::span<const TileShape> shapes_for(const MatrixUnit& unit) {
  if (unit.reads_local()) return local_shapes;
  if (unit.form == MatrixUnit::Form::mma)
    return unit.tf32 ? std::span<const TileShape>(tf32_shapes) : mma_shapes;
  if (unit.form == MatrixUnit::Form::quads) return quads_shapes;
  if (unit.form == MatrixUnit::Form::mfma)
    return unit.input == DType::f32 ? std::span<const TileShape>(mfma_f32_shapes) : mfma_shapes;
  if (unit.form == MatrixUnit::Form::fma) return fma_shapes;
  if (unit.form == MatrixUnit::Form::dot) return dot_shapes;
  if (unit.form == MatrixUnit::Form::dpas)
    return unit.wave == 8 ? std::span<const TileShape>(dpas8_shapes) : dpas16_shapes;
  return wmma_shapes;
}

bool is_even(const TileProblem& p) {
  return p.a.outer.even() && p.a.k.even() && p.b.outer.even() && p.b.k.even();
}

// A matrix whose elements along k are apart in memory is turned on its way to local memory, which takes more
// instructions. If it is A, and not B, the wide side of a tile is that of B. Computed elements take more
// still.
TileShape wide_where_straight(const TileShape& shape, const TileProblem& p) {
  const auto turned = [](const TileProblem::Matrix& x) { return x.k.stride() != 1 && x.outer.stride() == 1; };
  if (shape.m <= shape.n || !turned(p.a) || turned(p.b) || p.b.dtype) return shape;
  return {shape.n, shape.m, shape.k, shape.waves_n, shape.waves_m, shape.stages};
}

// The best number of parts of K: more groups fill a device that the result's tiles leave idle.
int64_t splits_of(const TileProblem& p, TilePoint point, const GpuTraits& traits) {
  if (p.groups) return 1;
  std::pair<double, int64_t> best{cost_of(p, point, traits), 1};
  for (int64_t splits = 2; splits <= std::min<int64_t>(p.k / 128, 64); ++splits) {
    const int64_t part = ceil_div(ceil_div(p.k, splits), point.k) * point.k;
    point.splits = ceil_div(p.k, part);  // none of them is empty
    best = std::min(best, {cost_of(p, point, traits), point.splits});
  }
  return best.second;
}

/// The point with its tiles' steps divided evenly, if that is clearly better than whole rounds of groups.
std::optional<TilePoint> streaming(const TileProblem& p, const TilePoint& point, const GpuTraits& traits) {
  if (p.groups) return {};
  std::optional<TilePoint> best;
  double least = 0.9 * cost_of(p, point, traits);
  for (const int64_t of_unit : {1, 2, 3}) {
    TilePoint stream = point;
    stream.splits = 1;
    stream.streams = of_unit * traits.compute_units;
    if (const double cost = cost_of(p, stream, traits); cost < least && TileKernel(p, stream).fits(traits))
      least = cost, best = stream;
  }
  return best;
}

/// The shape with `k` steps and at most `stages` stages, if it suits the problem and the device.
std::optional<TilePoint> fitting(const TileProblem& p, const MatrixUnit& unit, const TileShape& shape,
                                 int64_t k, int64_t stages, const GpuTraits& traits) {
  TilePoint point{.unit = &unit,
                  .m = shape.m,
                  .n = shape.n,
                  .k = k,
                  .waves_m = shape.waves_m,
                  .waves_n = shape.waves_n,
                  .stages = stages};
  // Without a loop along K, Clang reads all operands of large tiles ahead, and spills them.
  if (unit.of_lanes() && p.k <= k && shape.m * shape.n > 16 * point.items()) return {};
  // A wave of such a tile has no register left for counters of pixels and taps.
  if (shapes_for(unit).data() == wmma_shapes && shape.m * shape.n > 128 * 128 && !is_even(p)) return {};
  point.splits = splits_of(p, point, traits);
  // Stages that are never filled would take the room of another group.
  const int64_t least = unit.reads_local() ? 3 : 2, steps = ceil_div(ceil_div(p.k, point.splits), k);
  point.stages = std::min(stages, std::max(least, steps));
  if (traits.async_copies && stages > 1) {
    point.async = true;
    while (point.stages > 2 && !TileKernel(p, point).fits(traits)) --point.stages;
    if (!TileKernel(p, point).fits(traits)) point.async = false;
  }
  if (!point.async) point.stages = std::min(stages, least);
  if (!TileKernel(p, point).fits(traits)) return {};
  return point;
}

/// Whether bytes are turned on their way to local memory, because they do not lie along k.
bool turns_bytes(const TileProblem& p, const MatrixUnit& unit) {
  return size_of(unit.input) == 1 && (p.a.k.stride() != 1 || p.b.k.stride() != 1);
}

/// Whether registers suffice for a tile of bytes. What compilers were seen to spill is left out.
bool bytes_fit(const MatrixUnit& unit, const TileShape& shape, bool turns) {
  if (unit.as_f16) return shape.m * shape.n <= (turns ? 64 * 64 : 128 * 64);
  return !turns || unit.form != MatrixUnit::Form::dot || shape.m * shape.n <= 128 * 64;
}

}  // namespace

/// The types in which a unit may take elements, best first. f8e4m3 are normal numbers of f16; some f8e5m2
/// are subnormal there, but not in bf16.
static std::vector<DType> types_in_units(DType input) {
  using enum DType;
  if (input == f16 || input == bf16) return {input, f32};
  if (input == f8e4m3) return {input, f16};
  if (input == f8e5m2) return {input, f16, bf16};
  return {input};
}

std::vector<const MatrixUnit*> tile_units(DType input, bool tf32, const GpuTraits& traits) {
  std::vector<const MatrixUnit*> units;
  const std::vector<DType> types = types_in_units(input);
  for (const DType type : types) {
    if (!units.empty() || (type == DType::f32 && type != input)) break;
    for (const MatrixUnit& unit : traits.matrix_units) {
      const bool loses = unit.flushes && input == DType::f8e5m2 && type == DType::f16;
      if (unit.input == type && unit.tf32 == tf32 && !loses) units.push_back(&unit);
    }
  }
  for (const DType type : types)
    if (units.empty() && !tf32)
      for (const MatrixUnit& unit : traits.lane_units)
        if (unit.input == type && !unit.mixes()) units.push_back(&unit);
  return units;
}

std::vector<TilePoint> tile_points(const TileProblem& problem, const GpuTraits& traits, int64_t least_side) {
  std::vector<std::pair<double, TilePoint>> ranked;
  if (problem.k < 8 || std::min(problem.m, problem.n) < least_side) return {};
  const std::vector<const MatrixUnit*> units = tile_units(problem.input, problem.tf32, traits);
  for (const MatrixUnit* unit : units) {
    const TileProblem p = oriented(problem, *unit);
    const bool turns = turns_bytes(p, *unit);
    for (const TileShape& listed : shapes_for(*unit)) {
      const bool mirrored = unit->form == MatrixUnit::Form::wmma && listed.m * listed.n > 128 * 128;
      const TileShape shape = mirrored ? wide_where_straight(listed, p) : listed;
      if (shape.m / shape.waves_m % unit->m != 0 || shape.n / shape.waves_n % unit->n != 0) continue;
      if (!bytes_fit(*unit, shape, turns)) continue;
      // A tile of one-byte elements has as many bytes, so twice as many steps. If they are turned, an item
      // reads four rows at once, and a tile must have enough of those: then it gets four times as many steps.
      // (With those, a group of 128 lanes without a unit spills registers, and so do Intel's units.)
      const bool bytes = size_of(unit->input) == 1;
      const bool longer = bytes && unit->form != MatrixUnit::Form::dpas &&
                          (!unit->of_lanes() || shape.waves_m * shape.waves_n > 4);
      // Chips without asynchronous copies keep the next tile in registers: twice as many steps would spill.
      const bool copies = unit->form != MatrixUnit::Form::mma || traits.async_copies;
      const int64_t k = unit->reads_local() ? shape.k / static_cast<int64_t>(size_of(unit->input))
                                            : (bytes && (copies || turns) ? 2 : 1) * shape.k;
      auto point = fitting(p, *unit, shape, k, shape.stages, traits);
      if (!point && longer) point = fitting(p, *unit, shape, 4 * shape.k, 1, traits);
      if (!point) continue;
      TilePoint boxes = *point;
      boxes.boxes = true;
      // Equal in estimated cost, but faster on an H100 (docs/performance.md).
      if (unit->reads_local() && TileKernel(p, boxes).fits(traits))
        ranked.emplace_back(cost_of(p, boxes, traits), boxes);
      if (unit->reads_local() && !TileKernel(p, *point).has_room_for_addresses()) continue;
      ranked.emplace_back(cost_of(p, *point, traits), *point);
      if (const auto stream = streaming(p, *point, traits))
        ranked.emplace_back(cost_of(p, *stream, traits), *stream);
    }
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& entry) { return entry.first; });
  // No GPU has timed a stream: it may win when it is timed, but is not the best guess.
  const auto first =
      std::ranges::find_if(ranked, [](const auto& entry) { return entry.second.streams == 0; });
  std::rotate(ranked.begin(), first, first == ranked.end() ? first : first + 1);
  // Each tile of units that read local memory comes twice: with copies of boxes and without.
  const size_t most = std::ranges::any_of(units, &MatrixUnit::reads_local) ? 7 : 4;
  std::vector<TilePoint> points;
  for (const auto& [cost, point] : ranked)
    // The last place is kept for another unit.
    if (points.size() < (point.unit->reads_local() ? most - 1 : most)) points.push_back(point);
  return points;
}

}  // namespace athanor::gpu
