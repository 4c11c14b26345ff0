#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "athanor/ops/creation.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduction.h"
#include "athanor/ops/sampling.h"

namespace athanor {
namespace {

TensorType roi_type(std::span<const TensorType> in, const Attrs& attrs) {
  const Shape &x = in[0].shape, &boxes = in[1].shape;
  const Ints& output = attrs.ints("output");
  check_dtype(in[0], Accept::floats);
  if (in[1].dtype != in[0].dtype)
    throw Error(ErrorCode::dtype, "takes x and boxes of one dtype", {}, "Cast one of them");
  if (x.rank() != 4 || boxes.rank() != 2 || boxes[1] != 4 || in[2].shape != Shape{boxes[0]} ||
      in[2].dtype != DType::i64)
    throw Error(ErrorCode::shape,
                fmt::format("x is {}, the boxes {} and their images {}", to_string(x), to_string(boxes),
                            to_string(in[2])),
                {}, "They are [N, C, H, W], [K, 4] and i64[K]");
  if (x[2] < 1 || x[3] < 1)
    throw Error(ErrorCode::shape, fmt::format("x is {}: there is nothing to sample", to_string(x)));
  if (output[0] < 1 || output[1] < 1 || attrs.integer("samples") < 1)
    throw Error(
        ErrorCode::value,
        fmt::format("an output of [{}, {}] with {} samples", output[0], output[1], attrs.integer("samples")),
        {}, "All are at least 1");
  return {in[0].dtype, {boxes[0], x[1], output[0], output[1]}, {}};
}

/// The two neighbours of each sample along one axis of the boxes, [K, points], and their weights.
struct Neighbours {
  Tensor first, second;  // i64
  Tensor near, far;      // the weights of first and second; 0 for points outside
};

// The neighbours of the samples in [K] boxes from `low` to `high` along an axis of x.
Neighbours neighbours_along(const Tensor& low, const Tensor& high, int64_t extent, int64_t output,
                            const Attrs& attrs) {
  const int64_t samples = attrs.integer("samples"), points = output * samples, k = low.size();
  const bool aligned = attrs.flag("aligned");
  const Tensor start = low * attrs.number("scale") - (aligned ? 0.5 : 0.0);
  Tensor length = high * attrs.number("scale") - (aligned ? 0.5 : 0.0) - start;
  if (!aligned) length = maximum(length, 1);
  const Tensor middle =
      (cast(iota({1, points}, 1, low.device()), low.dtype()) + 0.5) / static_cast<double>(points);
  const Tensor p = reshape(start, {k, 1}) + reshape(length, {k, 1}) * middle;
  const auto last = static_cast<double>(extent - 1);
  const Tensor inside = cast(greater_equal(p, -1) & less_equal(p, static_cast<double>(extent)), low.dtype());
  const Tensor at = clamp(p, 0, last), whole = floor(at), t = at - whole;
  const Tensor first = clamp(cast(whole, DType::i64), 0, last);
  return {first, minimum(first + 1, extent - 1), (1 - t) * inside, t * inside};
}

Tensor roi_decompose(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor x = widened(in[0]), boxes = widened(in[1]);
  const Ints& output = attrs.ints("output");
  const int64_t n = x.size(0), c = x.size(1), height = x.size(2), width = x.size(3), k = boxes.size(0);
  const int64_t samples = attrs.integer("samples"), rows = output[0] * samples, columns = output[1] * samples;
  const auto edge = [&](int64_t which) { return slice(boxes, {Slice(), which}); };
  const Neighbours v = neighbours_along(edge(1), edge(3), height, output[0], attrs);
  const Neighbours h = neighbours_along(edge(0), edge(2), width, output[1], attrs);
  const Tensor flat = reshape(permute(x, {1, 0, 2, 3}), {c, n * height * width});
  const Tensor picture = reshape(in[2] * (height * width), {k, 1, 1});
  const auto sampled = [&](const Tensor& row, const Tensor& column, const Tensor& down, const Tensor& right) {
    const Tensor index = picture + unsqueeze(row, 2) * width + unsqueeze(column, 1);
    const Tensor values = take(flat, reshape(index, {k * rows * columns}), 1);
    return reshape(values, {c, k, rows, columns}) * (unsqueeze(down, 2) * unsqueeze(right, 1));
  };
  const Tensor total = sampled(v.first, h.first, v.near, h.near) + sampled(v.first, h.second, v.near, h.far) +
                       sampled(v.second, h.first, v.far, h.near) + sampled(v.second, h.second, v.far, h.far);
  const Tensor bins = mean(reshape(total, {c, k, output[0], samples, output[1], samples}), {3, 5});
  return cast(permute(bins, {1, 0, 2, 3}), in[0].dtype());
}

// Calls f(offset in x, offset in y, share) for every sample of the boxes and every element of x.
void each_region_share(const Shape& x, const RefArray& boxes, const RefArray& pictures, const Attrs& attrs,
                       const std::function<void(int64_t, int64_t, double)>& f) {
  const Ints& output = attrs.ints("output");
  const auto samples = static_cast<double>(attrs.integer("samples"));
  const double offset = attrs.flag("aligned") ? 0.5 : 0, scale = attrs.number("scale");
  const Shape y({boxes.shape[0], x[1], output[0], output[1]});
  // The position of sample s of element i of box k along an axis. The box's edges are boxes[k][first] and
  // boxes[k][first + 2].
  const auto point = [&](int64_t k, int64_t first, int64_t i, int64_t s) {
    const double start = boxes[k * 4 + first] * scale - offset;
    double length = boxes[k * 4 + first + 2] * scale - offset - start;
    if (!attrs.flag("aligned")) length = std::max(length, 1.0);
    const double bin = length / static_cast<double>(output[first == 1 ? 0 : 1]);
    return start + (static_cast<double>(i) + (static_cast<double>(s) + 0.5) / samples) * bin;
  };
  for_each_index(y, [&](const Ints& at) {
    const auto picture = static_cast<int64_t>(pictures[at[0]]);
    for (int64_t s = 0; s < attrs.integer("samples"); ++s)
      for (int64_t r = 0; r < attrs.integer("samples"); ++r) {
        double row = point(at[0], 1, at[2], s), column = point(at[0], 0, at[3], r);
        if (row < -1 || row > static_cast<double>(x[2]) || column < -1 || column > static_cast<double>(x[3]))
          continue;
        row = std::clamp(row, 0.0, static_cast<double>(x[2] - 1));
        column = std::clamp(column, 0.0, static_cast<double>(x[3] - 1));
        for (int64_t h = 0; h < x[2]; ++h)
          for (int64_t w = 0; w < x[3]; ++w)
            f(((picture * x[1] + at[1]) * x[2] + h) * x[3] + w, offset_of(y, at),
              std::max(0.0, 1 - std::abs(row - static_cast<double>(h))) *
                  std::max(0.0, 1 - std::abs(column - static_cast<double>(w))) / (samples * samples));
      }
  });
}

RefArray reference_roi(std::span<const RefArray> in, const Attrs& attrs) {
  const Shape& x = in[0].shape;
  const Ints& output = attrs.ints("output");
  RefArray y({in[1].shape[0], x[1], output[0], output[1]});
  each_region_share(x, in[1], in[2], attrs,
                    [&](int64_t from, int64_t to, double share) { y[to] += share * in[0][from]; });
  return y;
}

// ---- Gradients ----

TensorType roi_grad_type(std::span<const TensorType> in, const Attrs& attrs) {
  const TensorType x{in[0].dtype, Shape(attrs.ints("input_shape")), {}};
  const TensorType given[] = {x, in[0], in[1]};
  if (roi_type(given, attrs).shape != in[2].shape)
    throw Error(ErrorCode::shape, fmt::format("dy is {}", to_string(in[2].shape)));
  return x;
}

Tensor roi_grad_decompose(const std::vector<Tensor>& in, const Attrs& attrs) {
  // roi_align is linear in x, so the gradient does not depend on x.
  const Tensor x = zeros(Shape(attrs.ints("input_shape")), in[0].dtype(), in[0].device());
  return decomposed_gradient(find_op("roi_align"), {x, in[0], in[1]}, attrs, 0, in[2]);
}

RefArray reference_roi_grad(std::span<const RefArray> in, const Attrs& attrs) {
  RefArray dx{Shape(attrs.ints("input_shape"))};
  each_region_share(dx.shape, in[0], in[1], attrs,
                    [&](int64_t to, int64_t from, double share) { dx[to] += share * in[2][from]; });
  return dx;
}

Tensor boxes_grad(const Tensor& x, const Tensor& boxes, const Tensor& pictures, const Attrs& attrs,
                  const Tensor& dy) {
  return decomposed_gradient(find_op("roi_align"), {x, boxes, pictures}, attrs, 1, dy);
}

std::vector<Tensor> roi_gradient(const GradArgs& a) {
  const Tensor &x = a.inputs[0], &boxes = a.inputs[1], &pictures = a.inputs[2];
  Attrs attrs = a.attrs;
  attrs.set("input_shape", x.shape().to_ints());
  return {a.needed[0] ? apply(find_op("roi_align_grad"), {boxes, pictures, a.grad}, attrs) : Tensor(),
          a.needed[1] ? boxes_grad(x, boxes, pictures, a.attrs, a.grad) : Tensor(), Tensor()};
}

std::vector<Tensor> roi_second_gradient(const GradArgs& a) {
  const Tensor &boxes = a.inputs[0], &pictures = a.inputs[1], &dy = a.inputs[2];
  return {a.needed[0] ? boxes_grad(a.grad, boxes, pictures, a.attrs, dy) : Tensor(), Tensor(),
          a.needed[2] ? apply(find_op("roi_align"), {a.grad, boxes, pictures}, a.attrs) : Tensor()};
}

Attrs roi_attrs(Pair output, const RoiAlignOptions& o) {
  return {{"output", output.ints()}, {"scale", o.scale}, {"samples", o.samples}, {"aligned", o.aligned}};
}

}  // namespace

ATHANOR_OPS(roi_align) {
  define_op({.name = "roi_align",
             .doc = "x [N, C, H, W], boxes [K, 4] (x1, y1, x2, y2), images i64 [K] -> each box resized, "
                    "[K, C, PH, PW]",
             .arity = 3,
             .infer = roi_type,
             .grad = roi_gradient,
             .decompose = roi_decompose,
             .reference = reference_roi,
             .cases = {{{{{2, 3, 7, 6}}, {{4, 4}, -2, 8}, {{4}, 0, 2, DType::i64}}, roi_attrs({2, 3}, {})},
                       {{{{1, 2, 5, 9}}, {{3, 4}, 0, 20}, {{3}, 0, 1, DType::i64}},
                        roi_attrs(2, {.scale = 0.5, .samples = 1, .aligned = true})},
                       {{{{1, 2, 5, 9}}, {{0, 4}}, {{0}, 0, 1, DType::i64}}, roi_attrs(2, {})}},
             .flops =
                 [](auto, const TensorType& y, const Attrs& attrs) {
                   return 8 * y.shape.size() * attrs.integer("samples") * attrs.integer("samples");
                 },
             .tolerance = 16});
  const auto with_shape = [](Attrs attrs, const Ints& x) {
    attrs.set("input_shape", x);
    return attrs;
  };
  define_op(
      {.name = "roi_align_grad",
       .doc =
           "boxes [K, 4], images i64 [K], dy -> the gradient of roi_align by x, [N, C, H, W] = input_shape",
       .arity = 3,
       .dtypes = {DType::f32, DType::f64},  // half types: as a gradient of roi_align
       .infer = roi_grad_type,
       .grad = roi_second_gradient,
       .decompose = roi_grad_decompose,
       .reference = reference_roi_grad,
       .cases = {{{{{4, 4}, -2, 8}, {{4}, 0, 2, DType::i64}, {{4, 3, 2, 3}}},
                  with_shape(roi_attrs({2, 3}, {}), {2, 3, 7, 6})},
                 {{{{3, 4}, 0, 20}, {{3}, 0, 1, DType::i64}, {{3, 2, 2, 2}}},
                  with_shape(roi_attrs(2, {.scale = 0.5, .samples = 1, .aligned = true}), {1, 2, 5, 9})}},
       .flops =
           [](std::span<const TensorType> in, const auto&, const Attrs& attrs) {
             return 8 * in[2].shape.size() * attrs.integer("samples") * attrs.integer("samples");
           },
       .tolerance = 16});
}

Tensor roi_align(Operand x, Operand boxes, Pair output, const RoiAlignOptions& options) {
  static const Op& op = find_op("roi_align");
  return in_call(
      "roi_align",
      [&] {
        const Tensor given = as_tensor(boxes);
        if (given.rank() != 2 || given.size(1) != 5)
          throw Error(ErrorCode::shape, fmt::format("the boxes are {}", to_string(given.shape())), {},
                      "They are [K, 5]: the image's number, x1, y1, x2, y2");
        return apply(op, {x, slice(given, 1, 1, 5), cast(slice(given, {Slice(), 0}), DType::i64)},
                     roi_attrs(output, options));
      },
      x, boxes);
}

}  // namespace athanor
