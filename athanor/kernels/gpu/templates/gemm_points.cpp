// Which points of the gemm's tuning space are worth timing for a problem on a device.
#include <algorithm>
#include <iterator>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/gpu/templates.h"
#include "athanor/kernels/gpu/templates/gemm.h"
#include "athanor/kernels/gpu/templates/points.h"
#include "athanor/kernels/gpu/templates/tile_gemm.h"

namespace athanor::gpu {

int64_t groups_of(const GemmProblem& p, const GemmPoint& point) {
  return p.batch * ceil_div(p.m, point.tile_m()) * ceil_div(p.n, point.tile_n());
}

GemmPoint split(const GemmProblem& p, GemmPoint point, const GpuTraits& traits, int64_t least_k) {
  const int64_t wanted = traits.grain->gemm_parts * traits.compute_units;
  const int64_t here = groups_of(p, point);
  point.splits = std::clamp<int64_t>(std::min(ceil_div(wanted, here), p.k / least_k), 1, 64);
  return point;
}

namespace {

// Most of a tile of few rows is idle, but it reads the larger matrix once, which takes longer than
// multiplying. The kernels of gemm_points() are predicted to take 4 to 9 times as long for 6 rows and 4096
// columns (sm_86, gfx1100).
std::vector<TilePoint> tiles_for(const TileProblem& problem, const GpuTraits& traits) {
  constexpr int64_t least_side = 5, least_side_elsewhere = 8;
  return tile_points(problem, traits, tiles_lead(problem.input, traits) ? least_side : least_side_elsewhere);
}

void add_dots(std::vector<GpuCandidate>& candidates, const GemmProblem& p, const GpuTraits& traits) {
  // The smaller matrix is cheap to pack.
  if (p.k < 16 || (p.a.column != 1 && p.m > p.n) || (p.b.row != 1 && p.n > p.m)) return;
  if (p.a.column != 1 && p.b.row != 1) return;
  const int64_t most = traits.grain->dot_side;
  const int64_t rows = std::min(p.m, p.n == 1 ? 2 * most : most),
                columns = std::min(p.n, p.m == 1 ? 2 * most : most);
  const int64_t items = std::min<int64_t>(traits.grain->dot_items, p.k >= 1024 ? 128 : 32);
  const bool by_registers = traits.registers && dot_reads_registers(p);
  const int64_t width = by_registers ? 8 : traits.grain->widest;
  candidates.push_back(dot_candidate(p, {rows, columns, width, items, by_registers}));
}

}  // namespace

std::vector<GemmPoint> gemm_points(const GemmProblem& problem, const GpuTraits& traits) {
  auto points = traits.grain->points->gemm(problem, traits);
  std::erase_if(points, [&](const GemmPoint& point) { return !fits(problem, point, traits); });
  return points;
}

/// One kernel for every problem.
static GpuCandidate any_gemm_candidate(GemmProblem p, const GpuTraits& traits) {
  if (p.n == 1 && p.m > 1) p = p.transposed();
  return traits.grain->points->plain(p, traits);
}

static std::vector<GpuCandidate> matmul(const KernelRequest& request, const GpuTraits& traits) {
  GemmProblem p(request);
  if (p.batch * p.m * p.n == 0) return {{.name = "nothing"}};
  const bool tf32 = request.compute == ComputeType::tf32;
  if (tf32 && (p.dtype != DType::f32 || p.k == 0)) return {};
  const bool further = has_further_results(request);
  if (further && !p.epilogue.fits()) return {};
  if (request.prologue && !p.prologue) return {};
  // Vectors lie along the columns of B. If there are few columns and more rows, compute the transposed
  // product.
  const bool turn = p.n < 16 && p.m > p.n;
  const bool half_floats = p.dtype == DType::f16 || p.dtype == DType::bf16;
  std::vector<GpuCandidate> candidates;
  if ((p.dtype == DType::f32 || half_floats) && p.k > 0) {
    TileProblem tiled(p);
    tiled.tf32 = tf32;
    std::vector<GpuCandidate> by_tiles;
    for (const TilePoint& point : tiles_for(tiled, traits))
      if (point.splits == 1 || fits(tiled, point, traits))
        by_tiles.push_back(tile_candidate({tiled}, {point}, traits));
    if (tf32 || further || request.prologue) return by_tiles;
    const bool skinny = std::min(p.m, p.n) < 8;
    if (skinny) add_dots(candidates, p, traits);
    const auto add = [&](const GemmProblem& problem) {
      for (const GemmPoint& point : gemm_points(problem, traits))
        candidates.push_back(gemm_candidate(problem, point));
    };
    if (turn) add(p.transposed());
    if (!turn || p.n > 1) add(p);
    if (!skinny) add_dots(candidates, p, traits);
    const bool second = !candidates.empty() && !tiles_lead(p.dtype, traits);
    candidates.insert(candidates.begin() + (second ? 1 : 0), std::make_move_iterator(by_tiles.begin()),
                      std::make_move_iterator(by_tiles.end()));
    for (const GemmProblem& one : {p, p.transposed()})
      if (is_of_few_rows(one, traits)) {
        candidates.insert(candidates.begin(), few_rows_candidate(one, traits));
        break;
      }
    if (candidates.size() > 7) candidates.resize(7);
  }
  if (further || request.prologue) return {};
  candidates.push_back(any_gemm_candidate(p, traits));
  return candidates;
}

namespace {

/// Products of bytes, with wider sums.
std::vector<GpuCandidate> wide_matmul(const KernelRequest& request, const GpuTraits& traits) {
  GemmProblem p(request);
  p.factors = request.inputs[0].dtype;
  if (p.batch * p.m * p.n == 0) return {{.name = "nothing"}};
  std::vector<GpuCandidate> candidates;
  const TileProblem tiled(p);
  const bool further = has_further_results(request);
  if (further && !p.epilogue.fits()) return {};
  for (const TilePoint& point : tiles_for(tiled, traits))
    if (point.splits == 1 || fits(tiled, point, traits))
      candidates.push_back(tile_candidate({tiled}, {point}, traits));
  if (!further) candidates.push_back(any_gemm_candidate(p, traits));
  return candidates;
}

[[maybe_unused]] const bool wide_matmul_registered =
    register_template({.ops = {"wide_batch_matmul"}, .candidates = wide_matmul, .finishes = true});

[[maybe_unused]] const bool matmul_registered = register_template(
    {.ops = {"batch_matmul"}, .candidates = matmul, .tf32 = true, .finishes = true, .prologues = true});

}  // namespace

}  // namespace athanor::gpu
