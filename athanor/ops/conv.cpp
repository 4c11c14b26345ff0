#include "athanor/ops/conv.h"

#include <fmt/format.h>

#include "athanor/ops/conv_problem.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/linalg.h"
#include "athanor/ops/movement.h"

namespace athanor {
namespace {

void check_floats(std::span<const TensorType> in) {
  for (const auto& type : in) check_dtype(type, Accept::floats);
  if (in[0].dtype != in[1].dtype)
    throw Error(ErrorCode::dtype, "takes inputs of one dtype", {}, "Cast one of them");
}

ConvProblem forward_problem(const Shape& x, const Shape& w, const Attrs& attrs) { return {x, w, attrs}; }
ConvProblem input_problem(const Shape& w, const Attrs& attrs) {
  return {Shape(attrs.ints("input_shape")), w, attrs};
}
ConvProblem weight_problem(const Shape& x, const Attrs& attrs) {
  return {x, Shape(attrs.ints("weight_shape")), attrs};
}

void check_result(const ConvProblem& problem, const Shape& dy) {
  if (dy != problem.y)
    throw Error(ErrorCode::shape,
                fmt::format("the gradient is {}, but the convolution of {} with {} gives {}", to_string(dy),
                            to_string(problem.x), to_string(problem.w), to_string(problem.y)));
}

TensorType infer_forward(std::span<const TensorType> in, const Attrs& attrs) {
  check_floats(in);
  return {in[0].dtype, forward_problem(in[0].shape, in[1].shape, attrs).y, {}};
}

TensorType infer_input_grad(std::span<const TensorType> in, const Attrs& attrs) {
  check_floats(in);
  const ConvProblem problem = input_problem(in[1].shape, attrs);
  check_result(problem, in[0].shape);
  return {in[0].dtype, problem.x, {}};
}

TensorType infer_weight_grad(std::span<const TensorType> in, const Attrs& attrs) {
  check_floats(in);
  const ConvProblem problem = weight_problem(in[0].shape, attrs);
  check_result(problem, in[1].shape);
  return {in[0].dtype, problem.w, {}};
}

// The convolution is bilinear, so each of the three is the gradient of the others.
std::vector<Tensor> forward_grad(const GradArgs& a) {
  const Tensor &x = a.inputs[0], &w = a.inputs[1];
  const Conv2dOptions options = conv_options(a.attrs);
  return {a.needed[0] ? conv2d_input_grad(a.grad, w, x.shape(), options) : Tensor(),
          a.needed[1] ? conv2d_weight_grad(x, a.grad, w.shape(), options) : Tensor()};
}

std::vector<Tensor> input_grad_grad(const GradArgs& a) {
  const Tensor &dy = a.inputs[0], &w = a.inputs[1];
  const Conv2dOptions options = conv_options(a.attrs);
  return {a.needed[0] ? conv2d(a.grad, w, {}, options) : Tensor(),
          a.needed[1] ? conv2d_weight_grad(a.grad, dy, w.shape(), options) : Tensor()};
}

std::vector<Tensor> weight_grad_grad(const GradArgs& a) {
  const Tensor &x = a.inputs[0], &dy = a.inputs[1];
  const Conv2dOptions options = conv_options(a.attrs);
  return {a.needed[0] ? conv2d_input_grad(dy, a.grad, x.shape(), options) : Tensor(),
          a.needed[1] ? conv2d(x, a.grad, {}, options) : Tensor()};
}

// A convolution as matrix products, one for each group: columns [g, C/g KH KW, N OH OW], weights
// [g, O/g, C/g KH KW] and results [g, O/g, N OH OW].
Tensor columns_of(const Tensor& x, const ConvProblem& p) {
  const Tensor windows = windows_of(x, {p.w[2], p.w[3]}, p.stride, p.padding, p.dilation, 0);
  const Tensor grouped = reshape(windows, {p.x[0], p.groups, p.w[1], p.y[2], p.w[2], p.y[3], p.w[3]});
  return reshape(permute(grouped, {1, 2, 4, 6, 0, 3, 5}),
                 {p.groups, p.w[1] * p.w[2] * p.w[3], p.y[0] * p.y[2] * p.y[3]});
}

Tensor matrices_of_weight(const Tensor& w, const ConvProblem& p) {
  return reshape(w, {p.groups, p.w[0] / p.groups, p.w[1] * p.w[2] * p.w[3]});
}

Tensor matrices_of_result(const Tensor& y, const ConvProblem& p) {
  const Tensor grouped = reshape(y, {p.y[0], p.groups, p.y[1] / p.groups, p.y[2], p.y[3]});
  return reshape(permute(grouped, {1, 2, 0, 3, 4}), {p.groups, p.y[1] / p.groups, p.y[0] * p.y[2] * p.y[3]});
}

Tensor decompose_forward(const std::vector<Tensor>& in, const Attrs& attrs) {
  const ConvProblem p = forward_problem(in[0].shape(), in[1].shape(), attrs);
  const Tensor product = batch_matmul(matrices_of_weight(in[1], p), columns_of(in[0], p));
  const Tensor grouped = reshape(product, {p.groups, p.y[1] / p.groups, p.y[0], p.y[2], p.y[3]});
  return reshape(permute(grouped, {2, 0, 1, 3, 4}), p.y.to_ints());
}

Tensor decompose_input_grad(const std::vector<Tensor>& in, const Attrs& attrs) {
  const ConvProblem p = input_problem(in[1].shape(), attrs);
  const Tensor product =
      batch_matmul(permute(matrices_of_weight(in[1], p), {0, 2, 1}), matrices_of_result(in[0], p));
  const Tensor grouped = reshape(product, {p.groups, p.w[1], p.w[2], p.w[3], p.x[0], p.y[2], p.y[3]});
  const Tensor windows =
      reshape(permute(grouped, {4, 0, 1, 5, 2, 6, 3}), {p.x[0], p.x[1], p.y[2], p.w[2], p.y[3], p.w[3]});
  return sum_of_windows(windows, p.x, p.stride, p.padding, p.dilation);
}

Tensor decompose_weight_grad(const std::vector<Tensor>& in, const Attrs& attrs) {
  const ConvProblem p = weight_problem(in[0].shape(), attrs);
  const Tensor product = batch_matmul(matrices_of_result(in[1], p), permute(columns_of(in[0], p), {0, 2, 1}));
  return reshape(product, p.w.to_ints());
}

RefArray reference_forward(std::span<const RefArray> in, const Attrs& attrs) {
  const ConvProblem p = forward_problem(in[0].shape, in[1].shape, attrs);
  RefArray y(p.y);
  p.for_each_product([&](int64_t i, int64_t j, int64_t k) { y[k] += in[0][i] * in[1][j]; });
  return y;
}

RefArray reference_input_grad(std::span<const RefArray> in, const Attrs& attrs) {
  const ConvProblem p = input_problem(in[1].shape, attrs);
  RefArray dx(p.x);
  p.for_each_product([&](int64_t i, int64_t j, int64_t k) { dx[i] += in[0][k] * in[1][j]; });
  return dx;
}

RefArray reference_weight_grad(std::span<const RefArray> in, const Attrs& attrs) {
  const ConvProblem p = weight_problem(in[0].shape, attrs);
  RefArray dw(p.w);
  p.for_each_product([&](int64_t i, int64_t j, int64_t k) { dw[j] += in[0][i] * in[1][k]; });
  return dw;
}

enum class Kind { forward, input_grad, weight_grad };

std::vector<OpCase> conv_cases(Kind kind) {
  struct Sizes {
    Shape x, w;
    Conv2dOptions options;
  };
  const std::vector<Sizes> sizes = {
      {{2, 3, 7, 6}, {4, 3, 3, 3}, {.padding = 1}},
      {{1, 2, 11, 7}, {3, 2, 3, 2}, {.stride = {2, 3}, .padding = {2, 0}}},
      {{2, 1, 9, 8}, {2, 1, 3, 2}, {.stride = {2, 1}, .padding = 1, .dilation = {2, 3}}},
      {{2, 6, 5, 5}, {9, 2, 3, 3}, {.padding = 1, .groups = 3}},
      {{1, 5, 6, 4}, {5, 1, 2, 3}, {.stride = 2, .groups = 5}},
      {{3, 17, 3, 1}, {16, 17, 1, 1}, {}},
      {{1, 1, 5, 3}, {1, 1, 5, 3}, {}},
      {{0, 3, 4, 4}, {2, 3, 3, 3}, {}},
  };
  std::vector<OpCase> cases;
  for (const Sizes& s : sizes) {
    Attrs attrs = conv_attrs(s.options);
    const Shape y = ConvProblem(s.x, s.w, attrs).y;
    if (kind == Kind::forward) {
      cases.push_back({{{s.x}, {s.w}}, attrs});
    } else if (kind == Kind::input_grad) {
      attrs.set("input_shape", s.x.to_ints());
      cases.push_back({{{y}, {s.w}}, attrs});
    } else {
      attrs.set("weight_shape", s.w.to_ints());
      cases.push_back({{{s.x}, {y}}, attrs});
    }
  }
  return cases;
}

void check_bias(const Tensor& bias, int64_t channels) {
  if (bias.defined() && bias.shape() != Shape{channels})
    throw Error(ErrorCode::shape, fmt::format("the bias is {}, not [{}]", to_string(bias.shape()), channels));
}

Tensor add_bias(const Tensor& y, const Tensor& bias) {
  return bias.defined() ? y + reshape(bias, {1, y.size(1), 1, 1}) : y;
}

}  // namespace

ATHANOR_OPS(conv) {
  define_op({.name = "conv2d",
             .doc = "x [N, C, H, W], w [O, C/groups, KH, KW] -> [N, O, OH, OW]: cross-correlation",
             .arity = 2,
             .infer = infer_forward,
             .grad = forward_grad,
             .decompose = decompose_forward,
             .reference = reference_forward,
             .cases = conv_cases(Kind::forward),
             .flops =
                 [](std::span<const TensorType> in, const TensorType&, const Attrs& attrs) {
                   return 2 * forward_problem(in[0].shape, in[1].shape, attrs).multiplications();
                 },
             .tolerance = 4,
             .is_contraction = true,
             .cast_policy = CastPolicy::allow});
  define_op(
      {.name = "conv2d_input_grad",
       .doc = "dy [N, O, OH, OW], w -> the gradient of conv2d's x, [N, C, H, W] = input_shape",
       .arity = 2,
       .infer = infer_input_grad,
       .grad = input_grad_grad,
       .decompose = decompose_input_grad,
       .reference = reference_input_grad,
       .cases = conv_cases(Kind::input_grad),
       .flops = [](std::span<const TensorType> in, const TensorType&,
                   const Attrs& attrs) { return 2 * input_problem(in[1].shape, attrs).multiplications(); },
       .tolerance = 4,
       .cast_policy = CastPolicy::allow});
  define_op(
      {.name = "conv2d_weight_grad",
       .doc = "x [N, C, H, W], dy -> the gradient of conv2d's w, [O, C/groups, KH, KW] = weight_shape",
       .arity = 2,
       .infer = infer_weight_grad,
       .grad = weight_grad_grad,
       .decompose = decompose_weight_grad,
       .reference = reference_weight_grad,
       .cases = conv_cases(Kind::weight_grad),
       .flops = [](std::span<const TensorType> in, const TensorType&,
                   const Attrs& attrs) { return 2 * weight_problem(in[0].shape, attrs).multiplications(); },
       .tolerance = 4,
       .cast_policy = CastPolicy::allow});
}

Tensor conv2d(Operand x, Operand weight, const Tensor& bias, const Conv2dOptions& options) {
  static const Op& op = find_op("conv2d");
  return in_call(
      "conv2d",
      [&] {
        const Tensor y = apply(op, {x, weight}, conv_attrs(options));
        check_bias(bias, y.size(1));
        return add_bias(y, bias);
      },
      x, weight);
}

Tensor conv2d_input_grad(Operand dy, Operand weight, const Shape& input_shape, const Conv2dOptions& options) {
  static const Op& op = find_op("conv2d_input_grad");
  Attrs attrs = conv_attrs(options);
  attrs.set("input_shape", input_shape.to_ints());
  return apply(op, {dy, weight}, std::move(attrs));
}

Tensor conv2d_weight_grad(Operand x, Operand dy, const Shape& weight_shape, const Conv2dOptions& options) {
  static const Op& op = find_op("conv2d_weight_grad");
  Attrs attrs = conv_attrs(options);
  attrs.set("weight_shape", weight_shape.to_ints());
  return apply(op, {x, dy}, std::move(attrs));
}

Tensor conv_transpose2d(Operand x, Operand weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  return in_call(
      "conv_transpose2d",
      [&] {
        const Tensor value = as_tensor(x), w = as_tensor(weight);
        const auto& o = options;
        if (value.rank() != 4 || w.rank() != 4 || w.size(0) != value.size(1))
          throw Error(ErrorCode::shape, "takes x [N, C, H, W] and a weight [C, O/groups, KH, KW]");
        const auto extent = [](int64_t n, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                               int64_t extra) {
          if (stride < 1 || dilation < 1 || extra < 0 || extra >= std::max(stride, dilation))
            throw Error(ErrorCode::value,
                        fmt::format("stride {}, dilation {}, output padding {}", stride, dilation, extra), {},
                        "Output padding is smaller than stride or dilation, which are at least 1");
          const int64_t size = (n - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1;
          if (size < 1)
            throw Error(ErrorCode::shape, fmt::format("the result would have an extent of {}", size), {},
                        "Pad less");
          return size;
        };
        const Shape shape = {value.size(0), w.size(1) * o.groups,
                             extent(value.size(2), w.size(2), o.stride.height, o.padding.height,
                                    o.dilation.height, o.output_padding.height),
                             extent(value.size(3), w.size(3), o.stride.width, o.padding.width,
                                    o.dilation.width, o.output_padding.width)};
        check_bias(bias, shape[1]);
        const Tensor y = conv2d_input_grad(value, w, shape, {o.stride, o.padding, o.dilation, o.groups});
        return add_bias(y, bias);
      },
      x, weight);
}

}  // namespace athanor
