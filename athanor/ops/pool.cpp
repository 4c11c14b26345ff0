#include "athanor/ops/pool.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "athanor/ops/conv_problem.h"
#include "athanor/ops/creation.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduction.h"

namespace athanor {
namespace {

/// Windows over x [N, C, H, W] that are pooled to y [N, C, OH, OW].
struct PoolProblem {
  Shape x, y;
  Pair kernel, stride, padding;

  PoolProblem(const Shape& shape, const Attrs& attrs)
      : x(shape),
        kernel(pair(attrs, "kernel")),
        stride(pair(attrs, "stride")),
        padding(pair(attrs, "padding")) {
    if (x.rank() != 4) throw Error(ErrorCode::shape, fmt::format("takes [N, C, H, W], not {}", to_string(x)));
    if (2 * padding.height > kernel.height || 2 * padding.width > kernel.width)
      throw Error(ErrorCode::value, fmt::format("padding [{}, {}] is more than half the kernel [{}, {}]",
                                                padding.height, padding.width, kernel.height, kernel.width));
    y = {x[0], x[1], windows_along(x[2], kernel.height, stride.height, padding.height, 1),
         windows_along(x[3], kernel.width, stride.width, padding.width, 1)};
  }

  // Calls f(offset in x, offset in y) for every element of every window, row by row.
  void for_each_element(const std::function<void(int64_t, int64_t)>& f) const {
    for_each_index(y, [&](const Ints& at) {
      for (int64_t kh = 0; kh < kernel.height; ++kh)
        for (int64_t kw = 0; kw < kernel.width; ++kw) {
          const int64_t row = at[2] * stride.height - padding.height + kh;
          const int64_t column = at[3] * stride.width - padding.width + kw;
          if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
          f(offset_of(x, {at[0], at[1], row, column}), offset_of(y, at));
        }
    });
  }

  Tensor windows(const Tensor& value, double fill) const {  // [N, C, OH, KH, OW, KW]
    return windows_of(value, kernel, stride, padding, 1, fill);
  }
  Shape windows_shape() const { return {x[0], x[1], y[2], kernel.height, y[3], kernel.width}; }
  Tensor sum(const Tensor& windows) const { return sum_of_windows(windows, x, stride, padding, 1); }

 private:
  static Pair pair(const Attrs& attrs, const char* name) {
    return {attrs.ints(name).at(0), attrs.ints(name).at(1)};
  }
};

TensorType infer_pool(std::span<const TensorType> in, const Attrs& attrs) {
  check_dtype(in[0], Accept::floats);
  return {in[0].dtype, PoolProblem(in[0].shape, attrs).y, {}};
}

TensorType infer_pool_grad(const Shape& x, const TensorType& dy, const Attrs& attrs) {
  check_dtype(dy, Accept::floats);
  const PoolProblem p(x, attrs);
  if (dy.shape != p.y)
    throw Error(ErrorCode::shape,
                fmt::format("the gradient is {}, not {}", to_string(dy.shape), to_string(p.y)));
  return {dy.dtype, x, {}};
}

// ---- The largest ----

Tensor decompose_max_grad(const std::vector<Tensor>& in, const Attrs& attrs) {
  const PoolProblem p(in[0].shape(), attrs);
  const Shape &shape = p.windows_shape(), &y = p.y;
  const int64_t area = p.kernel.height * p.kernel.width;
  // Finds the index in each window of its first largest element. Then builds windows with dy there and 0
  // elsewhere.
  const Tensor flat =
      reshape(permute(p.windows(in[0], -infinity), {0, 1, 2, 4, 3, 5}), {y[0], y[1], y[2], y[3], area});
  const Tensor chosen = argmax(flat, -1, true), own = iota({area}, 0, in[0].device());
  const Tensor spread =
      where(equal(own, chosen), unsqueeze(in[1], -1), constant(0, in[1].dtype(), in[1].device()));
  const Tensor windows = reshape(spread, {y[0], y[1], y[2], y[3], p.kernel.height, p.kernel.width});
  return p.sum(reshape(permute(windows, {0, 1, 2, 4, 3, 5}), shape.to_ints()));
}

Tensor max_pool2d_grad(const Tensor& x, const Tensor& dy, const Attrs& attrs) {
  static const Op& op = find_op("max_pool2d_grad");
  return apply(op, {x, dy}, attrs);
}

RefArray reference_max(std::span<const RefArray> in, const Attrs& attrs) {
  const PoolProblem p(in[0].shape, attrs);
  RefArray y(p.y, -infinity);
  p.for_each_element([&](int64_t i, int64_t j) { y[j] = std::max(y[j], in[0][i]); });
  return y;
}

RefArray reference_max_grad(std::span<const RefArray> in, const Attrs& attrs) {
  const PoolProblem p(in[0].shape, attrs);
  std::vector<int64_t> best(in[1].data.size(), -1);
  p.for_each_element([&](int64_t i, int64_t j) {
    int64_t& at = best[static_cast<size_t>(j)];
    if (at < 0 || in[0][i] > in[0][at]) at = i;
  });
  RefArray dx(p.x);
  for (size_t j = 0; j < best.size(); ++j) dx[best[j]] += in[1].data[j];
  return dx;
}

// ---- The average ----

bool counts_padding(const Attrs& attrs) { return attrs.flag("count_include_pad"); }

// The divisor of each window's sum. Its shape broadcasts to y.
Tensor divisor(const PoolProblem& p, const Tensor& like, bool count_include_pad) {
  if (count_include_pad || (p.padding.height == 0 && p.padding.width == 0))
    return constant(static_cast<double>(p.kernel.height * p.kernel.width), like.dtype(), like.device());
  const Tensor here = broadcast_to(constant(1, like.dtype(), like.device()), {1, 1, p.x[2], p.x[3]});
  return sum(p.windows(here, 0), {3, 5});
}

Tensor decompose_avg(const std::vector<Tensor>& in, const Attrs& attrs) {
  const PoolProblem p(in[0].shape(), attrs);
  const Tensor x = widened(in[0]);
  return cast(sum(p.windows(x, 0), {3, 5}) / divisor(p, x, counts_padding(attrs)), in[0].dtype());
}

Tensor decompose_avg_grad(const std::vector<Tensor>& in, const Attrs& attrs) {
  const PoolProblem p(Shape(attrs.ints("input_shape")), attrs);
  const Tensor dy = widened(in[0]);
  const Tensor share = dy / divisor(p, dy, counts_padding(attrs));
  const Tensor windows =
      broadcast_to(reshape(share, {p.y[0], p.y[1], p.y[2], 1, p.y[3], 1}), p.windows_shape());
  return cast(p.sum(windows), in[0].dtype());
}

Tensor avg_pool2d_grad(const Tensor& dy, const Shape& x, Attrs attrs) {
  static const Op& op = find_op("avg_pool2d_grad");
  attrs.set("input_shape", x.to_ints());
  return apply(op, {dy}, std::move(attrs));
}

std::vector<double> counts(const PoolProblem& p, const Attrs& attrs) {
  std::vector<double> result(static_cast<size_t>(p.y.size()));
  p.for_each_element([&](int64_t, int64_t j) { ++result[static_cast<size_t>(j)]; });
  if (counts_padding(attrs))
    result.assign(result.size(), static_cast<double>(p.kernel.height * p.kernel.width));
  return result;
}

RefArray reference_avg(std::span<const RefArray> in, const Attrs& attrs) {
  const PoolProblem p(in[0].shape, attrs);
  const auto count = counts(p, attrs);
  RefArray y(p.y);
  p.for_each_element([&](int64_t i, int64_t j) { y[j] += in[0][i] / count[static_cast<size_t>(j)]; });
  return y;
}

RefArray reference_avg_grad(std::span<const RefArray> in, const Attrs& attrs) {
  const PoolProblem p(Shape(attrs.ints("input_shape")), attrs);
  const auto count = counts(p, attrs);
  RefArray dx(p.x);
  p.for_each_element([&](int64_t i, int64_t j) { dx[i] += in[0][j] / count[static_cast<size_t>(j)]; });
  return dx;
}

// ---- Tests ----

Attrs pool_attrs(Pair kernel, const PoolOptions& options, bool average) {
  Attrs attrs = {{"kernel", kernel.ints()},
                 {"stride", options.stride.value_or(kernel).ints()},
                 {"padding", options.padding.ints()}};
  if (average) attrs.set("count_include_pad", options.count_include_pad);
  return attrs;
}

std::vector<OpCase> pool_cases(bool average, bool grad) {
  struct Sizes {
    Shape x;
    Pair kernel;
    PoolOptions options;
  };
  const std::vector<Sizes> sizes = {
      {{2, 3, 8, 6}, 2, {}},
      {{1, 2, 7, 9}, {3, 2}, {.stride = Pair(2, 1), .padding = {1, 0}}},
      {{2, 1, 5, 7}, 3, {.stride = Pair(1), .padding = 1, .count_include_pad = false}},
      {{1, 17, 3, 3}, 3, {}},
      {{0, 2, 4, 4}, 2, {}}};
  std::vector<OpCase> cases;
  for (const Sizes& s : sizes) {
    Attrs attrs = pool_attrs(s.kernel, s.options, average);
    const Shape y = PoolProblem(s.x, attrs).y;
    if (grad && average) attrs.set("input_shape", s.x.to_ints());
    cases.push_back({!grad     ? std::vector<Sample>{{s.x}}
                     : average ? std::vector<Sample>{{y}}
                               : std::vector<Sample>{{s.x}, {y}},
                     attrs});
  }
  return cases;
}

int64_t pool_flops(std::span<const TensorType>, const TensorType& y, const Attrs& attrs) {
  return y.shape.size() * attrs.ints("kernel")[0] * attrs.ints("kernel")[1];
}

int64_t pool_grad_flops(std::span<const TensorType> in, const TensorType&, const Attrs& attrs) {
  return in.back().shape.size() * attrs.ints("kernel")[0] * attrs.ints("kernel")[1];
}

}  // namespace

ATHANOR_OPS(pool) {
  define_op(
      {.name = "max_pool2d",
       .doc = "the largest of each window of x [N, C, H, W]; padding never wins",
       .infer = infer_pool,
       .grad = [](const GradArgs& a) { return std::vector{max_pool2d_grad(a.inputs[0], a.grad, a.attrs)}; },
       .decompose =
           [](const std::vector<Tensor>& in, const Attrs& attrs) {
             return max(PoolProblem(in[0].shape(), attrs).windows(in[0], -infinity), {3, 5});
           },
       .reference = reference_max,
       .cases = pool_cases(false, false),
       .flops = pool_flops});
  define_op({.name = "max_pool2d_grad",
             .doc = "x, dy -> the gradient of max_pool2d: dy at the first largest element of each window",
             .arity = 2,
             .infer = [](std::span<const TensorType> in,
                         const Attrs& attrs) { return infer_pool_grad(in[0].shape, in[1], attrs); },
             .decompose = decompose_max_grad,
             .reference = reference_max_grad,
             .cases = pool_cases(false, true),
             .flops = pool_grad_flops});
  define_op({.name = "avg_pool2d",
             .doc = "the average of each window of x [N, C, H, W]",
             .infer = infer_pool,
             .grad =
                 [](const GradArgs& a) {
                   return std::vector{avg_pool2d_grad(a.grad, a.inputs[0].shape(), a.attrs)};
                 },
             .decompose = decompose_avg,
             .reference = reference_avg,
             .cases = pool_cases(true, false),
             .flops = pool_flops});
  define_op({.name = "avg_pool2d_grad",
             .doc = "dy -> the gradient of avg_pool2d, [N, C, H, W] = input_shape",
             .infer =
                 [](std::span<const TensorType> in, const Attrs& attrs) {
                   return infer_pool_grad(Shape(attrs.ints("input_shape")), in[0], attrs);
                 },
             .decompose = decompose_avg_grad,
             .reference = reference_avg_grad,
             .cases = pool_cases(true, true),
             .flops = pool_grad_flops});
}

Tensor max_pool2d(Operand x, Pair kernel, const PoolOptions& options) {
  static const Op& op = find_op("max_pool2d");
  return apply(op, {x}, pool_attrs(kernel, options, false));
}

Tensor avg_pool2d(Operand x, Pair kernel, const PoolOptions& options) {
  static const Op& op = find_op("avg_pool2d");
  return apply(op, {x}, pool_attrs(kernel, options, true));
}

namespace {

// Splits an axis into windows of nearly equal size and reduces each to one element.
Tensor adapted(const Tensor& x, int axis, int64_t parts, Tensor (*reduce)(const Tensor&, int)) {
  const int64_t extent = x.size(axis);
  std::vector<Tensor> pieces;
  for (int64_t i = 0; i < parts; ++i)
    pieces.push_back(
        reduce(slice(x, axis, i * extent / parts, ((i + 1) * extent + parts - 1) / parts), axis));
  return concat(pieces, axis);
}

Tensor adaptive(const char* name, const Operand& x, Pair output, Tensor (*pool)(const Tensor&, Pair),
                Tensor (*reduce)(const Tensor&, int)) {
  return in_call(
      name,
      [&] {
        const Tensor value = as_tensor(x);
        if (value.rank() != 4 || output.height < 1 || output.width < 1 || value.size(2) < 1 ||
            value.size(3) < 1)
          throw Error(ErrorCode::shape, fmt::format("[N, C, H, W] to [{}, {}]", output.height, output.width),
                      {}, "All of H, W and the result's extents are at least 1");
        const int64_t height = value.size(2), width = value.size(3);
        if (height % output.height == 0 && width % output.width == 0)
          return pool(value, {height / output.height, width / output.width});
        return adapted(adapted(value, 2, output.height, reduce), 3, output.width, reduce);
      },
      x);
}

}  // namespace

Tensor adaptive_avg_pool2d(Operand x, Pair output) {
  return adaptive(
      "adaptive_avg_pool2d", x, output,
      [](const Tensor& value, Pair kernel) { return avg_pool2d(value, kernel); },
      [](const Tensor& piece, int axis) { return mean(piece, axis, true); });
}

Tensor adaptive_max_pool2d(Operand x, Pair output) {
  return adaptive(
      "adaptive_max_pool2d", x, output,
      [](const Tensor& value, Pair kernel) { return max_pool2d(value, kernel); },
      [](const Tensor& piece, int axis) { return max(piece, axis, true); });
}

}  // namespace athanor
