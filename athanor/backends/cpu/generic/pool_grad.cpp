// max_pool2d_grad and avg_pool2d_grad, in row-major and blocked layouts.
//
// oneDNN's maximum needs the positions that its forward pass stored. These kernels find them again from x,
// which takes less time than storing and reading them.
#include <algorithm>
#include <limits>

#include "athanor/backends/cpu/generic/max_window.h"
#include "athanor/backends/cpu/generic/numeric.h"
#include "athanor/backends/cpu/generic/pool_shape.h"
#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/kernels.h"
#include "athanor/backends/cpu/parallel.h"
#include "athanor/base/error.h"

namespace athanor::cpu {
namespace {

// The first maximum of the window takes the whole gradient, or the last NaN if there is one.
template <class T, int block, bool tiles>
void max_window(const PoolShape& shape, const PoolShape::Window& window, const T* plane, const T* dy,
                Acc<T>* dx) {
  if constexpr (has_window_kernels<T> && block > 1) {
    static const auto kernels = window_kernels<T>();
    const int64_t corner = (window.top * shape.width + window.left) * block;
    kernels.gradient(plane + corner, shape.width * block, window.bottom - window.top,
                     window.right - window.left, block, dy, dx + corner, tiles);
    return;
  }
  using A = Acc<T>;
  A best[block], gradient[block];  // copies: the compiler cannot know that dy and dx do not overlap
  int32_t taker[block] = {};
  const int64_t first = (window.top * shape.width + window.left) * block;
  for (int c = 0; c < block; ++c) best[c] = load(plane[first + c]), gradient[c] = load(dy[c]);
  int32_t position = 0;
  for (int64_t y = window.top; y < window.bottom; ++y)
    for (int64_t x = window.left; x < window.right; ++x, ++position) {
      const T* element = plane + (y * shape.width + x) * block;
      for (int c = 0; c < block; ++c) {
        const A value = load(element[c]);
        const bool greater = (value > best[c]) | (value != value);
        best[c] = greater ? value : best[c];
        taker[c] = greater ? position : taker[c];
      }
    }
  position = 0;
  for (int64_t y = window.top; y < window.bottom; ++y)
    for (int64_t x = window.left; x < window.right; ++x, ++position) {
      A* sum = dx + (y * shape.width + x) * block;
      for (int c = 0; c < block; ++c) {
        const A share = taker[c] == position ? gradient[c] : A{0};
        sum[c] = tiles ? share : sum[c] + share;
      }
    }
}

template <class T, int block, bool tiles>
void average_window(const PoolShape& shape, const PoolShape::Window& window, const T* dy, Acc<T>* dx) {
  using A = Acc<T>;
  const A scale = A{1} / static_cast<A>(shape.divisor(window));
  A share[block];
  for (int c = 0; c < block; ++c) share[c] = load(dy[c]) * scale;
  for (int64_t y = window.top; y < window.bottom; ++y)
    for (int64_t x = window.left; x < window.right; ++x)
      for (int c = 0; c < block; ++c) {
        A& sum = dx[(y * shape.width + x) * block + c];
        sum = tiles ? share[c] : sum + share[c];
      }
}

/// `tiles`: windows do not overlap and leave nothing out, so gradients are stored instead of added to zeros.
/// Sums of the half types are computed in `scratch`, a plane of floats for each thread.
template <class T, int block, bool tiles>
void run_grad(const PoolShape& shape, const T* x, const T* dy, T* dx, Acc<T>* scratch, int threads) {
  parallel_for(
      shape.planes, shape.planes * shape.plane_size(),
      [&](int64_t begin, int64_t end, int thread) {
        for (int64_t plane = begin; plane < end; ++plane) {
          Acc<T>* sums;
          if constexpr (std::is_same_v<T, Acc<T>>)
            sums = dx + plane * shape.plane_size();
          else
            sums = scratch + thread * shape.plane_size();
          if (!tiles) std::fill_n(sums, shape.plane_size(), Acc<T>{0});
          const T* gradient = dy + plane * shape.out_plane_size();
          for (int64_t row = 0; row < shape.out_height; ++row)
            for (int64_t column = 0; column < shape.out_width; ++column, gradient += block) {
              const auto window = shape.window(row, column);
              if (window.size() == 0) continue;
              if (shape.max)
                max_window<T, block, tiles>(shape, window, x + plane * shape.plane_size(), gradient, sums);
              else
                average_window<T, block, tiles>(shape, window, gradient, sums);
            }
          if constexpr (!std::is_same_v<T, Acc<T>>)
            for (int64_t i = 0; i < shape.plane_size(); ++i)
              dx[plane * shape.plane_size() + i] = store<T>(sums[i]);
        }
      },
      threads);
}

template <class T>
Candidate make(const KernelRequest& request, const PoolShape& shape) {
  const int threads = cpu_workers();
  const size_t gradient = request.inputs.size() - 1;  // the inputs are x, dy or only dy
  size_t copies = 0;
  const MergedInput x(request, 0, {}, copies), dy(request, static_cast<int>(gradient), {}, copies);
  const size_t sums =
      std::is_same_v<T, Acc<T>> ? 0 : static_cast<size_t>(threads * shape.plane_size()) * sizeof(Acc<T>);
  return function_candidate("generic pool gradient", aligned(copies) + sums, [=](Buffers buffers) {
    const size_t output = gradient + 1;
    const T* from_x = x.resolve<T>(buffers);
    const T* from_dy = gradient == 0 ? from_x : dy.resolve<T>(buffers);
    T* to = static_cast<T*>(buffers[output]);
    auto* scratch =
        buffers.size() > output + 1
            ? reinterpret_cast<Acc<T>*>(static_cast<std::byte*>(buffers[output + 1]) + aligned(copies))
            : nullptr;
    const auto run = [&]<int block>(std::integral_constant<int, block>) {
      if (shape.tiles())
        run_grad<T, block, true>(shape, from_x, from_dy, to, scratch, threads);
      else
        run_grad<T, block, false>(shape, from_x, from_dy, to, scratch, threads);
    };
    if (shape.block == 16)
      run(std::integral_constant<int, 16>{});
    else if (shape.block == 8)
      run(std::integral_constant<int, 8>{});
    else
      run(std::integral_constant<int, 1>{});
  });
}

}  // namespace

static Candidate pool_grad_kernel(const KernelRequest& request) {
  PoolShape shape(request, request.output(), request.inputs.back());
  shape.block = std::max(request.output().layout.block, 1);
  return visit_dtype(request.output().dtype, [&]<class T>(T) -> Candidate {
    if constexpr (is_float(dtype_of<T>))
      return make<T>(request, shape);
    else
      throw Error(ErrorCode::internal,
                  "a pooling gradient of " + std::string(to_string(request.output().dtype)));
  });
}

namespace {

[[maybe_unused]] const bool pool_grad_registered =
    register_kernels({.ops = {"max_pool2d_grad", "avg_pool2d_grad"},
                      .candidates = only<pool_grad_kernel>,
                      .serves = serves_pool});

}  // namespace

}  // namespace athanor::cpu
