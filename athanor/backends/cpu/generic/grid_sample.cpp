// grid_sample and its gradients. The positions of a chunk of points are computed once for all channels.
#include <algorithm>
#include <array>
#include <cmath>

#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/generic/taps.h"
#include "athanor/backends/cpu/kernels.h"
#include "athanor/backends/cpu/parallel.h"

namespace athanor::cpu {
namespace {

constexpr int64_t points_together = 256;

struct Sampling {
  int64_t pictures, channels, height, width, points;
  bool nearest, corners, zeros, reflection;

  Sampling(const Shape& x, const Shape& grid, const Attrs& attrs)
      : pictures(x[0]),
        channels(x[1]),
        height(x[2]),
        width(x[3]),
        points(grid[1] * grid[2]),
        nearest(attrs.text("mode") == "nearest"),
        corners(attrs.flag("align_corners")),
        zeros(attrs.text("border") == "zeros"),
        reflection(attrs.text("border") == "reflection") {}

  int64_t taps() const { return nearest ? 1 : 4; }
  int64_t plane() const { return height * width; }
  int64_t chunks() const { return (points + points_together - 1) / points_together; }
};

/// A position along an axis, in elements, and how it changes with the grid.
template <class T>
struct Position {
  T at, slope;
};

template <class T>
Position<T> position_of(const Sampling& s, T g, int64_t extent) {
  const T n = static_cast<T>(extent), scale = s.corners ? (n - 1) / 2 : n / 2;
  Position<T> p{s.corners ? (g + 1) * scale : (g + 1) * scale - T(0.5), scale};
  if (s.zeros) return p;
  if (s.reflection) {
    const T low = s.corners ? T(0) : T(-0.5), span = s.corners ? n - 1 : n;
    if (span == 0) return {p.at * 0, 0};
    const T from = std::abs(p.at - low), turns = std::floor(from / span), rest = from - turns * span;
    const bool back = turns - 2 * std::floor(turns / 2) != 0;
    if ((p.at < low) != back) p.slope = -p.slope;
    p.at = (back ? span - rest : rest) + low;
  }
  if (p.at < 0) return {0, 0};
  if (p.at > n - 1) return {n - 1, 0};
  return p;
}

/// The elements that a chunk of points reads, their weights, and how these change with the grid's y and x.
/// Elements outside the image have weights of 0.
template <class T>
struct Chunk {
  std::array<int32_t, 4 * points_together> index;
  std::array<T, 4 * points_together> weight, by_row, by_column;
  int64_t first, count;

  Chunk(const Sampling& s, const T* grid, int64_t picture, int64_t number, bool slopes)
      : first(number * points_together), count(std::min(points_together, s.points - first)) {
    const T* at = grid + (picture * s.points + first) * 2;
    for (int64_t i = 0; i < count; ++i) {
      const auto column = position_of(s, at[2 * i], s.width), row = position_of(s, at[2 * i + 1], s.height);
      if (s.nearest)
        set(s, i, std::nearbyint(row.at), std::nearbyint(column.at), 1);
      else
        set_neighbours(s, i, row, column, slopes);
    }
  }

 private:
  // A NaN counts as outside.
  bool set(const Sampling& s, int64_t at, T row, T column, T share) {
    const bool inside =
        row >= 0 && row < static_cast<T>(s.height) && column >= 0 && column < static_cast<T>(s.width);
    const auto i = static_cast<size_t>(at);
    index[i] =
        inside ? static_cast<int32_t>(row) * static_cast<int32_t>(s.width) + static_cast<int32_t>(column) : 0;
    weight[i] = inside ? share : 0;
    return inside;
  }

  void set_neighbours(const Sampling& s, int64_t i, Position<T> row, Position<T> column, bool slopes) {
    const T top = std::floor(row.at), left = std::floor(column.at);
    const T down = row.at - top, right = column.at - left;
    for (int64_t k = 0; k < 4; ++k) {
      const T share_down = k >= 2 ? down : 1 - down, share_right = k % 2 == 1 ? right : 1 - right;
      const int64_t at = k * points_together + i;
      const bool inside =
          set(s, at, k >= 2 ? top + 1 : top, k % 2 == 1 ? left + 1 : left, share_down * share_right);
      if (!slopes) continue;
      by_row[static_cast<size_t>(at)] = inside ? (k >= 2 ? row.slope : -row.slope) * share_right : 0;
      by_column[static_cast<size_t>(at)] =
          inside ? (k % 2 == 1 ? column.slope : -column.slope) * share_down : 0;
    }
  }
};

template <class T>
void sample(const Sampling& s, const T* x, const T* grid, T* y) {
  parallel_for(s.pictures * s.chunks(), s.pictures * s.channels * s.points * s.taps(),
               [&](int64_t begin, int64_t end, int) {
                 for (int64_t item = begin; item < end; ++item) {
                   const int64_t picture = item / s.chunks();
                   const Chunk<T> chunk(s, grid, picture, item % s.chunks(), false);
                   for (int64_t c = picture * s.channels; c < (picture + 1) * s.channels; ++c)
                     tap_kernels<T>().gather(x + c * s.plane(), chunk.index.data(), chunk.weight.data(),
                                             s.taps(), points_together, chunk.count,
                                             y + c * s.points + chunk.first);
                 }
               });
}

// A thread adds to whole planes, in the order of the points.
template <class T>
void sample_back(const Sampling& s, const T* grid, const T* dy, T* dx, int threads) {
  const int64_t parts =
      std::clamp<int64_t>(s.pictures == 0 ? 1 : threads / s.pictures, 1, std::max<int64_t>(s.channels, 1));
  parallel_for(s.pictures * parts, s.pictures * s.channels * s.points * s.taps(),
               [&](int64_t begin, int64_t end, int) {
                 for (int64_t item = begin; item < end; ++item) {
                   const int64_t picture = item / parts, part = item % parts;
                   const int64_t from = picture * s.channels + part * s.channels / parts,
                                 to = picture * s.channels + (part + 1) * s.channels / parts;
                   std::fill(dx + from * s.plane(), dx + to * s.plane(), T{0});
                   for (int64_t number = 0; number < s.chunks(); ++number) {
                     const Chunk<T> chunk(s, grid, picture, number, false);
                     for (int64_t c = from; c < to; ++c) {
                       T* plane = dx + c * s.plane();
                       const T* gradient = dy + c * s.points + chunk.first;
                       for (int64_t k = 0; k < s.taps(); ++k)
                         for (int64_t i = 0; i < chunk.count; ++i) {
                           const auto at = static_cast<size_t>(k * points_together + i);
                           plane[chunk.index[at]] += chunk.weight[at] * gradient[i];
                         }
                     }
                   }
                 }
               });
}

template <class T>
void sample_grid_grad(const Sampling& s, const T* x, const T* grid, const T* dy, T* dgrid) {
  parallel_for(
      s.pictures * s.chunks(), s.pictures * s.channels * s.points * 4, [&](int64_t begin, int64_t end, int) {
        std::array<T, 4 * points_together> sums;
        for (int64_t item = begin; item < end; ++item) {
          const int64_t picture = item / s.chunks();
          const Chunk<T> chunk(s, grid, picture, item % s.chunks(), true);
          sums.fill(0);
          for (int64_t c = picture * s.channels; c < (picture + 1) * s.channels; ++c)
            tap_kernels<T>().correlate(x + c * s.plane(), chunk.index.data(), dy + c * s.points + chunk.first,
                                       4, points_together, chunk.count, sums.data());
          T* to = dgrid + (picture * s.points + chunk.first) * 2;
          for (int64_t i = 0; i < chunk.count; ++i) {
            T row = 0, column = 0;
            for (int64_t k = 0; k < 4; ++k) {
              const auto at = static_cast<size_t>(k * points_together + i);
              row += chunk.by_row[at] * sums[at];
              column += chunk.by_column[at] * sums[at];
            }
            to[2 * i] = column;
            to[2 * i + 1] = row;
          }
        }
      });
}

bool serves_sampling(std::span<const TensorType> inputs, const TensorType& output) {
  if (output.dtype != DType::f32 && output.dtype != DType::f64) return false;
  return std::ranges::all_of(inputs, [](const TensorType& in) { return in.shape.size() <= INT32_MAX; }) &&
         output.shape.size() <= INT32_MAX;
}

template <class T>
Candidate make_sampler(const KernelRequest& request) {
  size_t copies = 0;
  std::vector<MergedInput> inputs;
  for (int i = 0; i < static_cast<int>(request.inputs.size()); ++i)
    inputs.emplace_back(request, i, std::vector<int>{}, copies);
  const int threads = cpu_workers();
  const auto input = [inputs](size_t i, Buffers buffers) { return inputs[i].template resolve<T>(buffers); };
  const auto result = [at = inputs.size()](Buffers buffers) { return static_cast<T*>(buffers[at]); };
  const auto shape = [&](size_t i) -> const Shape& { return request.inputs[i].shape; };
  if (request.op->name == "grid_sample") {
    const Sampling s(shape(0), shape(1), request.attrs);
    return function_candidate("generic grid_sample", copies,
                              [=](Buffers b) { sample<T>(s, input(0, b), input(1, b), result(b)); });
  }
  if (request.op->name == "grid_sample_input_grad") {
    const Sampling s(request.output().shape, shape(0), request.attrs);
    return function_candidate("generic grid_sample", copies, [=](Buffers b) {
      sample_back<T>(s, input(0, b), input(1, b), result(b), threads);
    });
  }
  const Sampling s(shape(0), shape(1), request.attrs);
  return function_candidate("generic grid_sample", copies, [=](Buffers b) {
    sample_grid_grad<T>(s, input(0, b), input(1, b), input(2, b), result(b));
  });
}

}  // namespace

static std::vector<Candidate> sampling_kernels(const KernelRequest& request) {
  const DType dtype = request.output().dtype;
  if (dtype == DType::f32) return {make_sampler<float>(request)};
  if (dtype == DType::f64) return {make_sampler<double>(request)};
  return {};
}

namespace {

[[maybe_unused]] const bool sampling_registered =
    register_kernels({.ops = {"grid_sample", "grid_sample_input_grad", "grid_sample_grid_grad"},
                      .candidates = sampling_kernels,
                      .serves = serves_sampling});

}  // namespace

}  // namespace athanor::cpu
