// max_pool2d and avg_pool2d, in row-major and blocked layouts.
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

template <class T, int block>
void pool_window(const PoolShape& shape, const PoolShape::Window& window, const T* plane, T* out) {
  if constexpr (has_window_kernels<T> && block > 1)
    if (shape.max && window.size() > 0) {
      static const auto kernels = window_kernels<T>();
      float maxima[block];
      kernels.maximum(plane + (window.top * shape.width + window.left) * block, shape.width * block,
                      window.bottom - window.top, window.right - window.left, block, maxima);
      for (int c = 0; c < block; ++c) out[c] = store<T>(maxima[c]);
      return;
    }
  using A = Acc<T>;
  A result[block];
  std::fill_n(result, block, shape.max ? -std::numeric_limits<A>::infinity() : A{0});
  for (int64_t y = window.top; y < window.bottom; ++y)
    for (int64_t x = window.left; x < window.right; ++x) {
      const T* element = plane + (y * shape.width + x) * block;
      for (int c = 0; c < block; ++c) {
        const A value = load(element[c]);
        if (shape.max)
          result[c] = value > result[c] || value != value ? value : result[c];  // a NaN stays
        else
          result[c] += value;
      }
    }
  const A scale = shape.max ? A{1} : A{1} / static_cast<A>(shape.divisor(window));
  for (int c = 0; c < block; ++c) out[c] = store<T>(result[c] * scale);
}

template <class T, int block>
void run_pool(const PoolShape& shape, const T* from, T* to) {
  const int64_t rows = shape.planes * shape.out_height;
  parallel_for(rows, shape.planes * shape.plane_size(), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t plane = row / shape.out_height, y = row % shape.out_height;
      for (int64_t x = 0; x < shape.out_width; ++x)
        pool_window<T, block>(shape, shape.window(y, x), from + plane * shape.plane_size(),
                              to + (row * shape.out_width + x) * block);
    }
  });
}

}  // namespace

static Candidate pool_kernel(const KernelRequest& request) {
  const PoolShape shape(request, request.inputs[0], request.output());
  size_t scratch = 0;
  const MergedInput input(request, 0, {}, scratch);
  return visit_dtype(request.output().dtype, [&]<class T>(T) -> Candidate {
    if constexpr (is_float(dtype_of<T>)) {
      return function_candidate("generic pool", scratch, [=](Buffers buffers) {
        const T* from = input.resolve<T>(buffers);
        T* to = static_cast<T*>(buffers[1]);
        if (shape.block == 16)
          run_pool<T, 16>(shape, from, to);
        else if (shape.block == 8)
          run_pool<T, 8>(shape, from, to);
        else
          run_pool<T, 1>(shape, from, to);
      });
    } else {
      throw Error(ErrorCode::internal, "pooling of " + std::string(to_string(request.output().dtype)));
    }
  });
}

namespace {

[[maybe_unused]] const bool pool_registered = register_kernels(
    {.ops = {"max_pool2d", "avg_pool2d"}, .candidates = only<pool_kernel>, .serves = serves_pool});

}  // namespace

}  // namespace athanor::cpu
