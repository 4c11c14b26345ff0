// Which points of the gemm's tuning space are worth timing for a problem on a device.
#include <algorithm>
#include <bit>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/gpu/templates.h"
#include "athanor/kernels/gpu/templates/gemm.h"
#include "athanor/kernels/gpu/templates/tile_gemm.h"

namespace athanor::gpu {
namespace {

using enum GemmSource;

/// The block size, at most `most`, that wastes the least of `extent`.
int64_t even_share(int64_t extent, int64_t most) { return ceil_div(extent, ceil_div(extent, most)); }

int64_t groups(const GemmProblem& p, const GemmPoint& point) {
  return p.batch * ceil_div(p.m, point.tile_m()) * ceil_div(p.n, point.tile_n());
}

/// Splits k if the result alone has too few tiles to keep the device busy.
GemmPoint split(const GemmProblem& p, GemmPoint point, const GpuTraits& traits, int64_t least_k) {
  const int64_t wanted = traits.grain->gemm_parts * traits.compute_units;
  const int64_t here = groups(p, point);
  point.splits = std::clamp<int64_t>(std::min(ceil_div(wanted, here), p.k / least_k), 1, 64);
  return point;
}

// ---- Coarse grain: a group's items run in turn on a core with wide vectors ----

/// One item for each group, as wide as the registers allow: at least 16 independent sums hide the latency of
/// FMA.
GemmPoint coarse_shape(const GemmProblem& p) {
  GemmPoint point;
  point.width = std::min<int64_t>(16, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(p.n))));
  const int64_t vectors = ceil_div(p.n, point.width);
  point.vectors = p.m == 1 ? std::min<int64_t>(vectors, 8) : p.m < 4 ? std::min<int64_t>(vectors, 4) : 2;
  if (vectors == 3 || vectors == 1) point.vectors = vectors;
  const int64_t most_rows = point.vectors >= 8 ? 2 : point.vectors >= 4 ? 4 : point.vectors > 1 ? 8 : 14;
  point.rows = even_share(p.m, most_rows);
  return point;
}

std::vector<GemmPoint> coarse_points(const GemmProblem& p, const GpuTraits& traits) {
  std::vector<GemmPoint> points;
  const auto add = [&](GemmPoint point, GemmSource a, GemmSource b, int64_t subtiles, int64_t k_step) {
    point.a = a, point.b = b, point.k_step = k_step;
    point.subtiles = std::clamp<int64_t>(subtiles, 1, ceil_div(p.m, point.block_m()));
    // Starting a group takes a CPU as long as some 30,000 multiplications. If K is one step, more blocks of
    // rows cost nothing.
    constexpr int64_t worth_a_group = 1 << 18;
    if (k_step == 0 || k_step >= p.k)
      while (point.tile_m() < p.m && point.tile_m() * point.tile_n() * p.k < worth_a_group) ++point.subtiles;
    while (point.subtiles > 1 && groups(p, point) < 4L * traits.compute_units)
      point.subtiles = ceil_div(point.subtiles, 2);
    points.push_back(split(p, point, traits, 256));
  };
  const GemmPoint shape = coarse_shape(p);
  // A block of B has at most 8192 floats: 32 KiB, about the size of a first-level cache.
  const int64_t k_step = std::min<int64_t>(p.k, 8192 / shape.tile_n());
  GemmPoint narrow = shape;  // direct vectors must not reach past the end
  while (narrow.tile_n() > p.n && narrow.vectors > 1) --narrow.vectors;
  while (narrow.tile_n() > p.n) narrow.width /= 2;
  const int64_t work = p.m * p.n * p.k;
  const bool large = work > 128L * 128 * 128 && p.m > 2 * shape.rows;
  // With many registers (32 with AVX-512), wider rows multiply more for each element they load.
  GemmPoint wide = shape;
  wide.vectors = 4, wide.rows = even_share(p.m, 6);
  const int64_t wide_step = std::min<int64_t>(p.k, 8192 / wide.tile_n());
  const bool is_wide = p.n >= wide.tile_n();
  if (large) {
    add(shape, direct, packed, 8, k_step);
    if (is_wide) add(wide, direct, packed, 8, wide_step);
    // A second-level cache holds a B of this size without packing.
    if (is_wide && p.k * p.n <= 512L * 512)
      add(wide, direct, direct, 8, wide_step);
    else
      add(narrow, direct, direct, 1, 0);
    if (p.a.column == 1) add(shape, packed, packed, 8, k_step);
    add(shape, direct, staged, 16, k_step);
  } else {
    add(narrow, direct, direct, 1, 0);
    add(shape, direct, staged, 8, k_step);
    if (p.m > shape.rows) add(shape, direct, packed, 1, 0);
  }
  return points;
}

// ---- Fine grain: many items run at once ----

std::vector<GemmPoint> fine_points(const GemmProblem& p, const GpuTraits& traits) {
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
        static_cast<double>(ceil_div(groups(p, point) * point.splits, 2L * traits.compute_units));
    const double cost = rounds * tile_work * (1 + 16 / reuse) / static_cast<double>(point.splits);
    ranked.emplace_back(cost, point);
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& entry) { return entry.first; });
  if (ranked.size() > 4) ranked.resize(4);
  std::vector<GemmPoint> points;
  for (const auto& [cost, point] : ranked) points.push_back(point);
  return points;
}

void add_dots(std::vector<GpuCandidate>& candidates, const GemmProblem& p, const GpuTraits& traits) {
  // The smaller matrix is cheap to pack.
  if (p.k < 16 || (p.a.column != 1 && p.m > p.n) || (p.b.row != 1 && p.n > p.m)) return;
  if (p.a.column != 1 && p.b.row != 1) return;
  const int64_t most = traits.grain->coarse ? 4 : 2;
  const int64_t rows = std::min(p.m, p.n == 1 ? 2 * most : most),
                columns = std::min(p.n, p.m == 1 ? 2 * most : most);
  if (traits.grain->coarse)
    candidates.push_back(dot_candidate(p, rows, columns, 16, 1));
  else
    candidates.push_back(dot_candidate(p, rows, columns, 4, p.k >= 1024 ? 128 : 32));
}

}  // namespace

std::vector<GemmPoint> gemm_points(const GemmProblem& problem, const GpuTraits& traits) {
  auto points = traits.grain->coarse ? coarse_points(problem, traits) : fine_points(problem, traits);
  std::erase_if(points, [&](const GemmPoint& point) { return !fits(problem, point, traits); });
  return points;
}

/// One kernel for every problem.
static GpuCandidate any_gemm_candidate(GemmProblem p, const GpuTraits& traits) {
  if (p.n == 1 && p.m > 1) p = p.transposed();
  if (traits.grain->coarse) return plain_gemm_candidate(p, std::min<int64_t>(p.m, 4), p.n >= 8 ? 8 : 1, 1, 1);
  if (p.m == 1) return plain_gemm_candidate(p, 1, 1, 64, 1);
  return plain_gemm_candidate(p, p.m >= 128 ? 4 : 1, p.n >= 128 ? 4 : 1, 16, 8);
}

static std::vector<GpuCandidate> matmul(const KernelRequest& request, const GpuTraits& traits) {
  GemmProblem p(request);
  if (p.batch * p.m * p.n == 0) return {{.name = "nothing"}};
  if (request.tf32 && (p.dtype != DType::f32 || p.k == 0)) return {};
  const bool further = has_further_results(request);
  if (further && !p.epilogue.fits()) return {};
  // Vectors lie along the columns of B. If there are few columns and more rows, compute the transposed
  // product.
  const bool turn = p.n < 16 && p.m > p.n;
  const bool half_floats = p.dtype == DType::f16 || p.dtype == DType::bf16;
  std::vector<GpuCandidate> candidates;
  if ((p.dtype == DType::f32 || half_floats) && p.k > 0) {
    TileProblem tiled(p);
    tiled.tf32 = request.tf32;
    for (const TilePoint& point : tile_points(tiled, traits))
      if (point.splits == 1 || fits(tiled, point, traits))
        candidates.push_back(tile_candidate({tiled}, {point}, traits));
    if (request.tf32 || further) return candidates;
    const bool skinny = std::min(p.m, p.n) < 8;
    if (skinny) add_dots(candidates, p, traits);
    const auto add = [&](const GemmProblem& problem) {
      for (const GemmPoint& point : gemm_points(problem, traits))
        candidates.push_back(gemm_candidate(problem, point));
    };
    if (turn) add(p.transposed());
    if (!turn || p.n > 1) add(p);
    if (!skinny) add_dots(candidates, p, traits);
    if (candidates.size() > 7) candidates.resize(7);
  }
  if (further) return {};
  candidates.push_back(any_gemm_candidate(p, traits));
  return candidates;
}

namespace {

/// Of bytes, with wider sums.
std::vector<GpuCandidate> wide_matmul(const KernelRequest& request, const GpuTraits& traits) {
  GemmProblem p(request);
  p.factors = request.inputs[0].dtype;
  if (p.batch * p.m * p.n == 0) return {{.name = "nothing"}};
  std::vector<GpuCandidate> candidates;
  const TileProblem tiled(p);
  for (const TilePoint& point : tile_points(tiled, traits))
    candidates.push_back(tile_candidate({tiled}, {point}, traits));
  candidates.push_back(any_gemm_candidate(p, traits));
  return candidates;
}

[[maybe_unused]] const bool wide_matmul_registered =
    register_template({.ops = {"wide_batch_matmul"}, .candidates = wide_matmul});

[[maybe_unused]] const bool matmul_registered =
    register_template({.ops = {"batch_matmul"}, .candidates = matmul, .tf32 = true, .finishes = true});

}  // namespace

}  // namespace athanor::gpu
