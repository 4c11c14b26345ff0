// Points for devices of coarse grain: a group's items run in turn on a core with wide vectors.
#include <algorithm>
#include <bit>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/points.h"

namespace athanor::gpu {
namespace {

using enum GemmSource;

/// The block size, at most `most`, that wastes the least of `extent`.
int64_t even_share(int64_t extent, int64_t most) { return ceil_div(extent, ceil_div(extent, most)); }

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

std::vector<GemmPoint> coarse_gemm(const GemmProblem& p, const GpuTraits& traits) {
  std::vector<GemmPoint> points;
  const auto add = [&](GemmPoint point, GemmSource a, GemmSource b, int64_t subtiles, int64_t k_step) {
    point.a = a, point.b = b, point.k_step = k_step;
    point.subtiles = std::clamp<int64_t>(subtiles, 1, ceil_div(p.m, point.block_m()));
    // Starting a group takes a CPU as long as some 30,000 multiplications. If K is one step, more blocks of
    // rows cost nothing.
    constexpr int64_t worth_a_group = 1 << 18;
    if (k_step == 0 || k_step >= p.k)
      while (point.tile_m() < p.m && point.tile_m() * point.tile_n() * p.k < worth_a_group) ++point.subtiles;
    while (point.subtiles > 1 && groups_of(p, point) < 4L * traits.compute_units)
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

int64_t largest_divisor(int64_t n, int64_t most) {
  for (int64_t d = std::min(n, most); d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

std::vector<GemmPoint> coarse_conv(const GemmProblem& p, const GpuTraits& traits) {
  std::vector<GemmPoint> points;
  const auto add = [&](int64_t rows, int64_t vectors, GemmSource a) {
    GemmPoint point{.a = a, .b = staged, .rows = even_share(p.m, std::min(p.m, rows)), .vectors = vectors};
    while (point.width > 4 && point.width / 2 >= p.n) point.width /= 2;
    while (point.vectors > 1 && (point.vectors - 1) * point.width >= p.n) --point.vectors;
    // All rows of a group, so that gathered elements are used as often as possible.
    point.subtiles = std::min<int64_t>(ceil_div(p.m, point.rows), 64);
    point.k_step = std::min<int64_t>(p.k, 8192 / point.tile_n());
    point.splits = std::clamp<int64_t>(
        std::min(ceil_div(2L * traits.compute_units, groups_of(p, point)), p.k / 1024), 1, 64);
    if (p.a_run > 0) {
      if (a == direct) {
        point.k_step = largest_divisor(p.a_run, 256);
        if (point.k_step < 32 && p.k > 64) return;
      }
      // The parts are whole images.
      const int64_t images = p.k / p.a_run;
      point.splits = std::clamp<int64_t>(point.splits, 1, images);
      while (images % point.splits != 0) --point.splits;
    } else {
      point.splits = 1;
    }
    points.push_back(point);
  };
  add(8, 3, direct);
  add(8, 3, packed);
  add(8, 2, p.a_strided ? direct : packed);
  add(6, 4, p.a_strided ? direct : packed);
  return points;
}

GpuCandidate coarse_plain(const GemmProblem& p, const GpuTraits& /*traits*/) {
  return plain_gemm_candidate(p, std::min<int64_t>(p.m, 4), p.n >= 8 ? 8 : 1, 1, 1);
}

/// The divisor of n that is nearest to `wanted`.
int64_t nearest_divisor(int64_t n, int64_t wanted) {
  int64_t best = 1;
  for (int64_t d = 1; d * d <= n; ++d)
    if (n % d == 0)
      for (const int64_t one : {d, n / d})
        if (std::abs(one - wanted) < std::abs(best - wanted)) best = one;
  return best;
}

std::vector<GemmPoint> coarse_taps(const GemmProblem& p, const ConvProblem& conv, const GpuTraits& traits) {
  std::vector<GemmPoint> points;
  // A part of the pixels, which all taps read, should stay in a second-level cache, and there must be enough
  // parts.
  constexpr int64_t cached_floats = 192 * 1024;
  const int64_t rows_of_pixels = conv.y[0] * conv.y[2];
  const int64_t floats_of_row = conv.y[3] * (p.m + p.n * conv.stride.height * conv.stride.width);
  const auto add = [&](int64_t rows, int64_t vectors, GemmSource a) {
    GemmPoint point{.a = a, .b = direct, .rows = even_share(p.m, std::min(p.m, rows)), .vectors = vectors};
    while (point.vectors > 1 && point.vectors * point.width > p.n) --point.vectors;
    while (point.width > 4 && point.width > p.n) point.width /= 2;
    point.k_step = conv.y[3];
    const int64_t parts = std::max(ceil_div(rows_of_pixels * floats_of_row, cached_floats),
                                   ceil_div(2L * traits.compute_units, groups_of(p, point)));
    point.splits = nearest_divisor(rows_of_pixels, std::min<int64_t>(parts, 64));
    points.push_back(point);
  };
  add(8, 2, direct);
  add(8, 2, packed);
  return points;
}

std::vector<AttentionPoint> coarse_attention(const AttentionProblem& problem,
                                             const AttentionFootprint& footprint, const GpuTraits& traits) {
  const auto rows = [&](int64_t most) { return std::min(problem.own(), most); };
  std::vector<AttentionPoint> points = {{rows(16), 32, 1}, {rows(16), 64, 1}, {rows(4), 16, 1}};
  std::erase_if(points,
                [&](const AttentionPoint& point) { return footprint.bytes(point) > traits.local_bytes; });
  return points;
}

}  // namespace

const Points coarse_points = {.gemm = coarse_gemm,
                              .conv = coarse_conv,
                              .taps = coarse_taps,
                              .plain = coarse_plain,
                              .plain_conv = coarse_plain,
                              .attention = coarse_attention};

}  // namespace athanor::gpu
