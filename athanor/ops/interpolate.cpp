#include "athanor/ops/interpolate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "athanor/ops/creation.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/linalg.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduction.h"
#include "athanor/ops/resizing.h"

namespace athanor {
namespace {

constexpr std::array mode_names = {"nearest", "nearest_exact", "linear", "cubic"};

Interpolation mode_of(const Attrs& attrs) {
  const auto found = std::ranges::find(mode_names, attrs.text("mode"));
  return static_cast<Interpolation>(found - mode_names.begin());
}

}  // namespace

Resizing resizing(int64_t in, int64_t out, const Attrs& attrs) {
  return {in, out, mode_of(attrs), attrs.flag("align_corners"), attrs.flag("antialias")};
}

namespace {

TensorType resized_type(std::span<const TensorType> in, const Attrs& attrs) {
  const Shape& x = in[0].shape;
  const Ints& size = attrs.ints("size");
  check_dtype(in[0], Accept::floats);
  if (x.rank() < 3 || x.rank() > 5)
    throw Error(ErrorCode::shape, fmt::format("x has {} axes", x.rank()), {},
                "It is [N, C, L], [N, C, H, W] or [N, C, D, H, W]: see unsqueeze()");
  if (static_cast<int>(size.size()) != x.rank() - 2)
    throw Error(ErrorCode::shape, fmt::format("{} new extents for {}", size.size(), to_string(x)), {},
                fmt::format("Give {}: those after [N, C]", x.rank() - 2));
  Shape result = x;
  for (int axis = 2; axis < x.rank(); ++axis) {
    const int64_t out = size[static_cast<size_t>(axis - 2)];
    if (out < 1 || x[axis] < 1)
      throw Error(ErrorCode::value, fmt::format("axis {} from an extent of {} to {}", axis, x[axis], out), {},
                  "Both are at least 1");
    result = result.with(axis, out);
  }
  const Resizing r = resizing(1, 1, attrs);
  if (r.nearest() && (r.align_corners || r.antialias))
    throw Error(ErrorCode::value,
                fmt::format("{} has no {}", attrs.text("mode"), r.antialias ? "antialias" : "align_corners"),
                {}, "Take Interpolation::linear or cubic");
  if (r.align_corners && r.antialias)
    throw Error(ErrorCode::value, "antialias with align_corners", {}, "Leave one of them out");
  return {in[0].dtype, result, {}};
}

// ---- Decomposition ----

/// The element of x that an element of the result copies, i64 [out].
Tensor nearest_index(const Resizing& r, Device device) {
  const Tensor i = iota({r.out}, 0, device);
  return r.mode == Interpolation::nearest ? trunc_divide(i * r.in, r.out)
                                          : trunc_divide((2 * i + 1) * r.in, 2 * r.out);
}

Tensor resized_to_nearest(const Tensor& x, int axis, const Resizing& r) {
  if (r.out % r.in == 0) return repeat_interleave(x, r.out / r.in, axis);
  // With a whole step, the result is a view.
  if (r.in % r.out == 0) {
    const int64_t step = r.in / r.out;
    return slice(x, axis, r.mode == Interpolation::nearest ? 0 : step / 2, r.in, step);
  }
  return take(x, nearest_index(r, x.device()), axis);
}

/// The positions in x of the result's elements, as whole numbers and fractions: [out, 1]. They are computed
/// in integers, because in f32 a floor() may be wrong by one.
struct Positions {
  Tensor whole, fraction;
};

Positions positions(const Resizing& r, DType dtype, Device device) {
  const Tensor i = iota({r.out, 1}, 0, device);
  const int64_t by = r.align_corners ? std::max<int64_t>(1, r.out - 1) : 2 * r.out;
  Tensor numerator = r.align_corners ? i * (r.out > 1 ? r.in - 1 : 0) : (2 * i + 1) * r.in - r.out;
  if (r.mode == Interpolation::linear) numerator = maximum(numerator, 0);
  const Tensor whole = floor_divide(numerator, by);
  return {whole, cast(numerator - whole * by, dtype) / static_cast<double>(by)};
}

/// Keys' cubic kernel for |x| <= 1, and for 1 < |x| < 2.
Tensor cubic_inside(const Tensor& x, double a) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
Tensor cubic_outside(const Tensor& x, double a) { return ((x - 5) * x + 8) * x * a - 4 * a; }

/// The weight of each element of x in each element of the result, [out, in], without smoothing.
Tensor weights_of_neighbours(const Resizing& r, DType dtype, Device device) {
  const auto [whole, t] = positions(r, dtype, device);
  const Tensor column = iota({1, r.in}, 1, device);
  Tensor total;
  const auto add = [&](int64_t offset, const Tensor& weight) {
    const Tensor place = minimum(maximum(whole + offset, 0), r.in - 1);
    const Tensor part = where(equal(place, column), weight, 0);
    total = total.defined() ? total + part : part;
  };
  if (r.mode == Interpolation::linear) {
    add(0, 1 - t), add(1, t);
  } else {
    const double a = r.cubic_a();
    add(-1, cubic_outside(t + 1, a)), add(0, cubic_inside(t, a));
    add(1, cubic_inside(1 - t, a)), add(2, cubic_outside(2 - t, a));
  }
  return total;
}

/// The same with smoothing: the kernel is widened to the step between elements of the result.
Tensor smoothing_weights(const Resizing& r, DType dtype, Device device) {
  const double scale = std::max(1.0, static_cast<double>(r.in) / static_cast<double>(r.out));
  const Tensor i = iota({r.out, 1}, 0, device), j = iota({1, r.in}, 1, device);
  // In units of 1 / (2 out), the distance of centres is a whole number, and thus exact.
  const Tensor distance =
      cast(abs((2 * j + 1) * r.out - (2 * i + 1) * r.in), dtype) / (2 * static_cast<double>(r.out) * scale);
  Tensor weight;
  if (r.mode == Interpolation::linear) {
    weight = maximum(1 - distance, 0);
  } else {
    const double a = r.cubic_a();
    weight =
        where(distance < 1, cubic_inside(distance, a), where(distance < 2, cubic_outside(distance, a), 0));
  }
  return weight / sum(weight, 1, true);
}

Tensor resized_by_weights(const Tensor& x, int axis, const Resizing& r) {
  const DType dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor exact =
      r.antialias ? smoothing_weights(r, dtype, x.device()) : weights_of_neighbours(r, dtype, x.device());
  const Tensor weights = cast(exact, x.dtype());
  if (axis == x.rank() - 1) return matmul(x, transpose(weights));
  int64_t before = 1, after = 1;
  for (int other = 0; other < axis; ++other) before *= x.size(other);
  for (int other = axis + 1; other < x.rank(); ++other) after *= x.size(other);
  const Tensor product = matmul(weights, reshape(x, {before, r.in, after}));
  return reshape(product, x.shape().with(axis, r.out).to_ints());
}

Tensor decompose_interpolate(const std::vector<Tensor>& in, const Attrs& attrs) {
  Tensor y = in[0];
  const Ints& size = attrs.ints("size");
  // The last axis first: its products have more rows.
  for (int axis = y.rank() - 1; axis >= 2; --axis) {
    const Resizing r = resizing(y.size(axis), size[static_cast<size_t>(axis - 2)], attrs);
    if (r.in == r.out) continue;
    y = r.nearest() ? resized_to_nearest(y, axis, r) : resized_by_weights(y, axis, r);
  }
  return y;
}

// ---- Reference ----

double cubic_kernel(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

}  // namespace

void each_share(const Resizing& r, int64_t i, const std::function<void(int64_t, double)>& f) {
  const auto in = static_cast<double>(r.in), out = static_cast<double>(r.out), at = static_cast<double>(i);
  const auto kernel = [&](double x) {
    return r.mode == Interpolation::linear ? std::max(0.0, 1 - std::abs(x)) : cubic_kernel(x, r.cubic_a());
  };
  if (r.nearest())
    return f(r.mode == Interpolation::nearest ? i * r.in / r.out : (2 * i + 1) * r.in / (2 * r.out), 1);
  if (r.antialias) {
    const double scale = std::max(1.0, in / out), centre = (at + 0.5) * in / out - 0.5;
    double total = 0;
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(centre - 2 * scale)),
                  end = std::min(r.in, static_cast<int64_t>(centre + 2 * scale) + 2);
    for (int64_t j = first; j < end; ++j) total += kernel((static_cast<double>(j) - centre) / scale);
    for (int64_t j = first; j < end; ++j) f(j, kernel((static_cast<double>(j) - centre) / scale) / total);
    return;
  }
  const double position =
      r.align_corners ? (r.out > 1 ? at * (in - 1) / (out - 1) : 0) : (at + 0.5) * in / out - 0.5;
  const auto whole = static_cast<int64_t>(std::floor(position));
  for (int64_t j = whole - 1; j <= whole + 2; ++j)
    f(std::clamp<int64_t>(j, 0, r.in - 1), kernel(position - static_cast<double>(j)));
}

namespace {

RefArray reference_interpolate(std::span<const RefArray> in, const Attrs& attrs) {
  RefArray y = in[0];
  for (int axis = 2; axis < y.shape.rank(); ++axis) {
    const Resizing r = resizing(y.shape[axis], attrs.ints("size")[static_cast<size_t>(axis - 2)], attrs);
    RefArray next(y.shape.with(axis, r.out));
    for_each_index(next.shape, [&](const Ints& index) {
      Ints source = index;
      each_share(r, index[static_cast<size_t>(axis)], [&](int64_t j, double weight) {
        source[static_cast<size_t>(axis)] = j;
        next[offset_of(next.shape, index)] += weight * y[offset_of(y.shape, source)];
      });
    });
    y = std::move(next);
  }
  return y;
}

RefArray reference_interpolate_grad(std::span<const RefArray> in, const Attrs& attrs) {
  RefArray dx = in[0];
  for (int axis = 2; axis < dx.shape.rank(); ++axis) {
    const Resizing r =
        resizing(attrs.ints("input_size")[static_cast<size_t>(axis - 2)], dx.shape[axis], attrs);
    RefArray next(dx.shape.with(axis, r.in));
    for_each_index(dx.shape, [&](const Ints& index) {
      Ints target = index;
      each_share(r, index[static_cast<size_t>(axis)], [&](int64_t j, double weight) {
        target[static_cast<size_t>(axis)] = j;
        next[offset_of(next.shape, target)] += weight * dx[offset_of(dx.shape, index)];
      });
    });
    dx = std::move(next);
  }
  return dx;
}

Shape with_size(Shape x, const Ints& size) {
  for (size_t i = 0; i < size.size(); ++i) x = x.with(static_cast<int>(i) + 2, size[i]);
  return x;
}

// interpolate is linear in x, so the gradient does not depend on x.
Tensor decompose_interpolate_grad(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor x = zeros(with_size(in[0].shape(), attrs.ints("input_size")), in[0].dtype(), in[0].device());
  return decomposed_gradient(find_op("interpolate"), {x}, attrs, 0, in[0]);
}

std::vector<Tensor> interpolate_gradient(const GradArgs& a) {
  Attrs attrs = a.attrs;
  const Ints extents = a.inputs[0].shape().to_ints();
  attrs.set("input_size", Ints(extents.begin() + 2, extents.end()));
  return {apply(find_op("interpolate_grad"), {a.grad}, attrs)};
}

// Some of interpolate's cases. The test of interpolate differentiates all of them.
std::vector<OpCase> interpolate_grad_cases(const std::vector<OpCase>& all) {
  std::vector<OpCase> cases{all[0], all[2], all[4]};
  for (OpCase& one : cases) {
    Shape& x = one.inputs[0].shape;
    const Ints extents = x.to_ints();
    x = with_size(x, one.attrs.ints("size"));
    one.attrs.set("input_size", Ints(extents.begin() + 2, extents.end()));
  }
  return cases;
}

// Two operations for each weight. The decomposition has a weight for each element of x along an axis.
int64_t interpolate_flops(const Shape& x, const Shape& y, const Attrs& attrs) {
  if (resizing(1, 1, attrs).nearest()) return 0;
  int64_t per_element = 0;
  for (int axis = 2; axis < y.rank(); ++axis) per_element += 2 * x[axis];
  return y.size() * per_element;
}

Attrs interpolate_attrs(const Ints& size, const InterpolateOptions& options) {
  return {{"size", size},
          {"mode", std::string(mode_names.at(static_cast<size_t>(options.mode)))},
          {"align_corners", options.align_corners},
          {"antialias", options.antialias}};
}

std::vector<OpCase> interpolate_cases() {
  using enum Interpolation;
  std::vector<OpCase> cases;
  const auto add = [&](const Shape& x, const Ints& size, const InterpolateOptions& options) {
    cases.push_back({{{x}}, interpolate_attrs(size, options)});
  };
  add({1, 2, 7, 6}, {13, 3}, {.mode = nearest_exact});
  add({2, 1, 4, 3}, {8, 9}, {.mode = nearest});
  add({1, 3, 7, 5}, {4, 11}, {.mode = linear});
  add({2, 3, 7}, {10}, {.mode = cubic, .align_corners = true});
  add({1, 2, 13}, {5}, {.mode = cubic, .antialias = true});
  add({1, 1, 11, 3}, {4, 3}, {.mode = linear, .antialias = true});
  add({1, 2, 2, 3, 3}, {4, 3, 3}, {.mode = linear});
  add({1, 2, 5}, {1}, {.mode = linear, .align_corners = true});
  add({0, 2, 3, 3}, {6, 3}, {.mode = linear});
  return cases;
}

}  // namespace

ATHANOR_OPS(interpolate) {
  define_op(
      {.name = "interpolate",
       .doc = "x [N, C, ...] resized to [N, C, size...], by nearest elements or linear or cubic weights",
       .infer = resized_type,
       .grad = interpolate_gradient,
       .decompose = decompose_interpolate,
       .reference = reference_interpolate,
       .cases = interpolate_cases(),
       .flops = [](std::span<const TensorType> in, const TensorType& y,
                   const Attrs& attrs) { return interpolate_flops(in[0].shape, y.shape, attrs); },
       .tolerance = 4});
  define_op(
      {.name = "interpolate_grad",
       .doc = "dy -> the gradient of interpolate, [N, C, input_size...]",
       .dtypes = {DType::f32, DType::f64},  // half types: as a gradient of interpolate
       .infer =
           [](std::span<const TensorType> in, const Attrs& attrs) {
             return TensorType{in[0].dtype, with_size(in[0].shape, attrs.ints("input_size")), {}};
           },
       .grad =
           [](const GradArgs& a) { return std::vector{apply(find_op("interpolate"), {a.grad}, a.attrs)}; },
       .decompose = decompose_interpolate_grad,
       .reference = reference_interpolate_grad,
       .cases = interpolate_grad_cases(interpolate_cases()),
       .flops = [](std::span<const TensorType> in, const TensorType& x,
                   const Attrs& attrs) { return interpolate_flops(x.shape, in[0].shape, attrs); },
       .tolerance = 4});
}

Tensor interpolate(Operand x, const Ints& size, const InterpolateOptions& options) {
  static const Op& op = find_op("interpolate");
  return apply(op, {x}, interpolate_attrs(size, options));
}

}  // namespace athanor
