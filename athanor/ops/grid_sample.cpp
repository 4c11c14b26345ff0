#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "athanor/ops/creation.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/sampling.h"

namespace athanor {
namespace {

constexpr std::array border_names = {"zeros", "border", "reflection"};

Border border_of(const Attrs& attrs) {
  return static_cast<Border>(std::ranges::find(border_names, attrs.text("border")) - border_names.begin());
}

TensorType sampled_type(std::span<const TensorType> in, const Attrs& attrs) {
  const Shape &x = in[0].shape, &grid = in[1].shape;
  check_dtype(in[0], Accept::floats);
  if (in[1].dtype != in[0].dtype)
    throw Error(ErrorCode::dtype, "takes x and a grid of one dtype", {}, "Cast one of them");
  if (x.rank() != 4 || grid.rank() != 4 || grid[3] != 2 || grid[0] != x[0])
    throw Error(ErrorCode::shape, fmt::format("x is {} and the grid {}", to_string(x), to_string(grid)), {},
                "They are [N, C, H, W] and [N, OH, OW, 2]");
  if (x[2] < 1 || x[3] < 1)
    throw Error(ErrorCode::shape, fmt::format("x is {}: there is nothing to sample", to_string(x)));
  if (attrs.text("mode") != "linear" && attrs.text("mode") != "nearest")
    throw Error(ErrorCode::value, "it samples linearly or the nearest element", {},
                "Take Interpolation::linear or nearest");
  return {in[0].dtype, {x[0], x[1], grid[1], grid[2]}, {}};
}

// ---- Decomposition ----

// From [-1, 1] to a position in elements along an axis. Unless the border is zeros, it lies in the image.
Tensor position_in(const Tensor& g, int64_t extent, const Attrs& attrs) {
  const bool corners = attrs.flag("align_corners");
  const auto n = static_cast<double>(extent);
  Tensor p = corners ? (g + 1) * ((n - 1) / 2) : (g + 1) * (n / 2) - 0.5;
  const Border border = border_of(attrs);
  if (border == Border::zeros) return p;
  if (border == Border::reflection) {
    const double low = corners ? 0 : -0.5, span = corners ? n - 1 : n;
    if (span == 0) return p * 0;
    const Tensor from = abs(p - low), turns = floor(from / span);
    const Tensor rest = from - turns * span;
    p = where(equal(turns - 2 * floor(turns / 2), 0), rest, span - rest) + low;
  }
  return clamp(p, 0, n - 1);
}

// The elements of x [N, C, H, W] at positions [N, P], whole numbers as floats, times a weight [N, P]; 0
// outside of x: [N, C, P].
Tensor sampled_at(const Tensor& x, const Tensor& row, const Tensor& column, const Tensor& weight) {
  const int64_t height = x.size(2), width = x.size(3);
  const Tensor inside = greater_equal(row, 0) & less(row, static_cast<double>(height)) &
                        greater_equal(column, 0) & less(column, static_cast<double>(width));
  // A position far outside may not fit i64, so it is clamped before.
  const auto whole = [](const Tensor& p, int64_t extent) {
    return clamp(cast(clamp(p, 0, static_cast<double>(extent - 1)), DType::i64), 0,
                 static_cast<double>(extent - 1));
  };
  const Tensor index = whole(row, height) * width + whole(column, width);
  const Tensor flat = reshape(x, {x.size(0), x.size(1), height * width});
  return gather(flat, unsqueeze(index, 1), 2) * unsqueeze(where(inside, weight, 0), 1);
}

Tensor grid_sample_decompose(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor x = widened(in[0]), grid = widened(in[1]);
  const int64_t n = x.size(0), height = grid.size(1), width = grid.size(2);
  const auto part = [&](int64_t which) {
    return reshape(slice(grid, {Index::ellipsis, which}), {n, height * width});
  };
  const Tensor column = position_in(part(0), x.size(3), attrs), row = position_in(part(1), x.size(2), attrs);
  Tensor y;
  if (attrs.text("mode") == "nearest") {
    y = sampled_at(x, round(row), round(column), ones_like(row));
  } else {
    const Tensor top = floor(row), left = floor(column), down = row - top, right = column - left;
    y = sampled_at(x, top, left, (1 - down) * (1 - right)) +
        sampled_at(x, top, left + 1, (1 - down) * right) + sampled_at(x, top + 1, left, down * (1 - right)) +
        sampled_at(x, top + 1, left + 1, down * right);
  }
  return cast(reshape(y, {n, x.size(1), height, width}), in[0].dtype());
}

// ---- Reference ----

double reference_position(double g, int64_t extent, const Attrs& attrs) {
  const bool corners = attrs.flag("align_corners");
  const auto n = static_cast<double>(extent);
  double p = corners ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
  if (border_of(attrs) == Border::reflection) {
    const double low = corners ? 0 : -0.5, high = corners ? n - 1 : n - 0.5;
    while (low < high && (p < low || p > high)) p = p < low ? 2 * low - p : 2 * high - p;
  }
  return border_of(attrs) == Border::zeros ? p : std::clamp(p, 0.0, n - 1);
}

// The weight of element [h, w] in a sample at [row, column].
double share_at(double row, double column, int64_t h, int64_t w, bool nearest) {
  const auto y = static_cast<double>(h), x = static_cast<double>(w);
  if (nearest) return std::nearbyint(row) == y && std::nearbyint(column) == x ? 1 : 0;
  return std::max(0.0, 1 - std::abs(row - y)) * std::max(0.0, 1 - std::abs(column - x));
}

// Calls f(offset in x, offset in y, share) for every element of x and every point of its grid.
void each_sample(const Shape& x, const RefArray& grid, const Attrs& attrs,
                 const std::function<void(int64_t, int64_t, double)>& f) {
  const Shape y{x[0], x[1], grid.shape[1], grid.shape[2]};
  for_each_index(y, [&](const Ints& i) {
    const int64_t at = ((i[0] * y[2] + i[2]) * y[3] + i[3]) * 2;
    const double column = reference_position(grid[at], x[3], attrs),
                 row = reference_position(grid[at + 1], x[2], attrs);
    for (int64_t h = 0; h < x[2]; ++h)
      for (int64_t w = 0; w < x[3]; ++w)
        f(((i[0] * x[1] + i[1]) * x[2] + h) * x[3] + w, offset_of(y, i),
          share_at(row, column, h, w, attrs.text("mode") == "nearest"));
  });
}

RefArray reference_grid_sample(std::span<const RefArray> in, const Attrs& attrs) {
  const Shape &x = in[0].shape, &grid = in[1].shape;
  RefArray y({x[0], x[1], grid[1], grid[2]});
  each_sample(x, in[1], attrs, [&](int64_t from, int64_t to, double share) { y[to] += share * in[0][from]; });
  return y;
}

// ---- Gradients ----

TensorType input_grad_type(std::span<const TensorType> in, const Attrs& attrs) {
  const Shape& dy = in[1].shape;
  const Ints& size = attrs.ints("input_size");
  const TensorType x{in[1].dtype, {dy[0], dy[1], size[0], size[1]}, {}};
  const TensorType given[] = {x, in[0]};
  if (sampled_type(given, attrs).shape != dy)
    throw Error(ErrorCode::shape,
                fmt::format("dy is {} for a grid {}", to_string(dy), to_string(in[0].shape)));
  return x;
}

Tensor input_grad_decompose(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Ints& size = attrs.ints("input_size");
  // grid_sample is linear in x, so the gradient does not depend on x.
  const Tensor x = zeros({in[1].size(0), in[1].size(1), size[0], size[1]}, in[1].dtype(), in[1].device());
  return decomposed_gradient(find_op("grid_sample"), {x, in[0]}, attrs, 0, in[1]);
}

RefArray reference_sampled_input_grad(std::span<const RefArray> in, const Attrs& attrs) {
  const Ints& size = attrs.ints("input_size");
  RefArray dx({in[1].shape[0], in[1].shape[1], size[0], size[1]});
  each_sample(dx.shape, in[0], attrs,
              [&](int64_t to, int64_t from, double share) { dx[to] += share * in[1][from]; });
  return dx;
}

// The derivative of a position along an axis by g. The position is piecewise linear in g.
double slope_of(double g, int64_t extent, const Attrs& attrs) {
  constexpr double step = 1e-3;
  return (reference_position(g + step, extent, attrs) - reference_position(g - step, extent, attrs)) /
         (2 * step);
}

RefArray reference_grid_grad(std::span<const RefArray> in, const Attrs& attrs) {
  const Shape &x = in[0].shape, &grid = in[1].shape;
  RefArray dgrid(grid);
  const auto share = [](double far) { return std::max(0.0, 1 - std::abs(far)); };
  const auto slope = [](double far) { return std::abs(far) < 1 ? (far > 0 ? -1.0 : 1.0) : 0.0; };
  for_each_index({x[0], grid[1], grid[2], x[1], x[2], x[3]}, [&](const Ints& i) {
    const int64_t at = ((i[0] * grid[1] + i[1]) * grid[2] + i[2]) * 2;
    const double right = reference_position(in[1][at], x[3], attrs) - static_cast<double>(i[5]),
                 down = reference_position(in[1][at + 1], x[2], attrs) - static_cast<double>(i[4]);
    const double value = in[0][((i[0] * x[1] + i[3]) * x[2] + i[4]) * x[3] + i[5]] *
                         in[2][((i[0] * x[1] + i[3]) * grid[1] + i[1]) * grid[2] + i[2]];
    dgrid[at] += value * slope(right) * share(down) * slope_of(in[1][at], x[3], attrs);
    dgrid[at + 1] += value * share(right) * slope(down) * slope_of(in[1][at + 1], x[2], attrs);
  });
  return dgrid;
}

Tensor input_grad(const Tensor& x, const Tensor& grid, const Tensor& dy, Attrs attrs) {
  attrs.set("input_size", Ints{x.size(2), x.size(3)});
  return apply(find_op("grid_sample_input_grad"), {grid, dy}, attrs);
}

Tensor grid_grad(const Tensor& x, const Tensor& grid, const Tensor& dy, const Attrs& attrs) {
  if (attrs.text("mode") == "nearest") return zeros_like(grid);
  return apply(find_op("grid_sample_grid_grad"), {x, grid, dy}, attrs);
}

std::vector<Tensor> grid_sample_grad(const GradArgs& a) {
  const Tensor &x = a.inputs[0], &grid = a.inputs[1];
  return {a.needed[0] ? input_grad(x, grid, a.grad, a.attrs) : Tensor(),
          a.needed[1] ? grid_grad(x, grid, a.grad, a.attrs) : Tensor()};
}

Attrs grid_attrs(const GridSampleOptions& o) {
  const bool nearest = o.mode == Interpolation::nearest, linear = o.mode == Interpolation::linear;
  return {{"mode", std::string(nearest  ? "nearest"
                               : linear ? "linear"
                                        : "another")},
          {"border", std::string(border_names.at(static_cast<size_t>(o.border)))},
          {"align_corners", o.align_corners}};
}

// ---- Affine grids ----

Attrs affine_attrs(Pair size, bool corners) { return {{"size", size.ints()}, {"align_corners", corners}}; }

TensorType affine_type(std::span<const TensorType> in, const Attrs& attrs) {
  check_dtype(in[0], Accept::floats);
  const Shape& theta = in[0].shape;
  const Ints& size = attrs.ints("size");
  if (theta.rank() != 3 || theta[1] != 2 || theta[2] != 3)
    throw Error(ErrorCode::shape, fmt::format("theta is {}", to_string(theta)), {}, "It is [N, 2, 3]");
  if (size[0] < 1 || size[1] < 1)
    throw Error(ErrorCode::value, fmt::format("an image of [{}, {}]", size[0], size[1]), {},
                "Both are at least 1");
  return {in[0].dtype, {theta[0], size[0], size[1], 2}, {}};
}

// Positions of an axis' elements in [-1, 1].
Tensor even_positions(int64_t extent, bool corners, const Ints& shape, DType dtype, Device device) {
  const Tensor i = cast(reshape(iota({extent}, 0, device), shape), dtype);
  if (!corners) return (2 * i + (1 - static_cast<double>(extent))) / static_cast<double>(extent);
  return extent == 1 ? i : (2 * i) / static_cast<double>(extent - 1) - 1;
}

Tensor affine_decompose(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor theta = widened(in[0]);
  const Ints& size = attrs.ints("size");
  const bool corners = attrs.flag("align_corners");
  const Tensor x = even_positions(size[1], corners, {1, 1, size[1], 1}, theta.dtype(), theta.device());
  const Tensor y = even_positions(size[0], corners, {1, size[0], 1, 1}, theta.dtype(), theta.device());
  const auto column = [&](int64_t which) {
    return reshape(slice(theta, {Slice(), Slice(), which}), {theta.size(0), 1, 1, 2});
  };
  return cast(column(0) * x + column(1) * y + column(2), in[0].dtype());
}

RefArray reference_affine(std::span<const RefArray> in, const Attrs& attrs) {
  const Ints& size = attrs.ints("size");
  RefArray grid({in[0].shape[0], size[0], size[1], 2});
  const auto position = [&](int64_t i, int64_t extent) {
    const auto n = static_cast<double>(extent), at = static_cast<double>(i);
    if (attrs.flag("align_corners")) return extent == 1 ? 0 : -1 + 2 * at / (n - 1);
    return -1 + (2 * at + 1) / n;
  };
  for_each_index(grid.shape, [&](const Ints& i) {
    const int64_t row = (i[0] * 2 + i[3]) * 3;
    grid[offset_of(grid.shape, i)] =
        in[0][row] * position(i[2], size[1]) + in[0][row + 1] * position(i[1], size[0]) + in[0][row + 2];
  });
  return grid;
}

}  // namespace

ATHANOR_OPS(grid_sample) {
  const auto of = [](const Shape& x, const Shape& grid, const GridSampleOptions& options) {
    return OpCase{{{x}, {grid, -1.5, 1.5}}, grid_attrs(options)};
  };
  const auto nearest = Interpolation::nearest;
  define_op(
      {.name = "grid_sample",
       .doc = "x [N, C, H, W] at the positions (x, y) in [-1, 1] of grid [N, OH, OW, 2] -> [N, C, OH, OW]",
       .arity = 2,
       .infer = sampled_type,
       .grad = grid_sample_grad,
       .decompose = grid_sample_decompose,
       .reference = reference_grid_sample,
       .cases = {of({2, 3, 5, 4}, {2, 3, 2, 2}, {}),
                 of({1, 2, 3, 7}, {1, 4, 3, 2}, {.border = Border::border, .align_corners = true}),
                 of({1, 1, 4, 3}, {1, 5, 3, 2}, {.border = Border::reflection}),
                 of({1, 2, 1, 5}, {1, 2, 3, 2}, {.border = Border::reflection, .align_corners = true}),
                 of({2, 1, 4, 5}, {2, 3, 3, 2}, {.mode = nearest}), of({0, 1, 4, 5}, {0, 3, 3, 2}, {})},
       .flops = [](auto, const TensorType& y, const auto&) { return 8 * y.shape.size(); },
       // The rounding error of a position is multiplied by the extent and by the step between elements.
       .tolerance = 16});
  const auto sizes = [](OpCase one) {
    one.attrs.set("input_size", Ints{one.inputs[0].shape[2], one.inputs[0].shape[3]});
    return one;
  };
  const auto input_case = [&](const Shape& x, const Shape& grid, const GridSampleOptions& options) {
    OpCase one = sizes(of(x, grid, options));
    one.inputs = {one.inputs[1], {{x[0], x[1], grid[1], grid[2]}}};
    return one;
  };
  const auto grid_case = [&](const Shape& x, const Shape& grid, const GridSampleOptions& options) {
    OpCase one = of(x, grid, options);
    one.inputs.push_back({{x[0], x[1], grid[1], grid[2]}});
    return one;
  };
  define_op({.name = "grid_sample_input_grad",
             .doc = "grid, dy -> the gradient of grid_sample by x, [N, C, input_size...]",
             .arity = 2,
             .dtypes = {DType::f32, DType::f64},  // half types: as a gradient of grid_sample
             .infer = input_grad_type,
             .grad =
                 [](const GradArgs& a) {
                   return std::vector{
                       a.needed[0] ? grid_grad(a.grad, a.inputs[0], a.inputs[1], a.attrs) : Tensor(),
                       a.needed[1] ? apply(find_op("grid_sample"), {a.grad, a.inputs[0]}, a.attrs)
                                   : Tensor()};
                 },
             .decompose = input_grad_decompose,
             .reference = reference_sampled_input_grad,
             .cases = {input_case({2, 3, 5, 4}, {2, 3, 2, 2}, {}),
                       input_case({1, 1, 4, 3}, {1, 5, 3, 2}, {.border = Border::reflection}),
                       input_case({2, 1, 4, 5}, {2, 3, 3, 2}, {.mode = nearest})},
             .flops = [](std::span<const TensorType> in, const auto&,
                         const auto&) { return 8 * in[1].shape.size(); },
             .tolerance = 16});
  define_op(
      {.name = "grid_sample_grid_grad",
       .doc = "x, grid, dy -> the gradient of grid_sample by the grid, [N, OH, OW, 2]",
       .arity = 3,
       .dtypes = {DType::f32, DType::f64},  // half types: as a gradient of grid_sample
       .infer =
           [](std::span<const TensorType> in, const Attrs& attrs) {
             if (sampled_type(in.first(2), attrs).shape != in[2].shape)
               throw Error(ErrorCode::shape, fmt::format("dy is {}", to_string(in[2].shape)));
             return in[1];
           },
       .decompose =
           [](const std::vector<Tensor>& in, const Attrs& attrs) {
             return decomposed_gradient(find_op("grid_sample"), {in[0], in[1]}, attrs, 1, in[2]);
           },
       .reference = reference_grid_grad,
       .cases = {grid_case({1, 2, 3, 5}, {1, 2, 3, 2}, {.border = Border::reflection}),
                 grid_case({1, 2, 3, 7}, {1, 1, 3, 2}, {.border = Border::border, .align_corners = true})},
       .flops = [](std::span<const TensorType> in, const auto&,
                   const auto&) { return 16 * in[2].shape.size(); },
       .tolerance = 64});
  define_op(
      {.name = "affine_grid",
       .doc = "theta [N, 2, 3] -> theta (x, y, 1) for each position in [-1, 1] of an image, [N, H, W, 2]",
       .infer = affine_type,
       .decompose = affine_decompose,
       .reference = reference_affine,
       .cases = {{{{{2, 2, 3}}}, affine_attrs({3, 5}, false)}, {{{{1, 2, 3}}}, affine_attrs({1, 4}, true)}},
       .flops = [](auto, const TensorType& y, const auto&) { return 4 * y.shape.size(); },
       .tolerance = 4});
}

Tensor grid_sample(Operand x, Operand grid, const GridSampleOptions& options) {
  static const Op& op = find_op("grid_sample");
  return apply(op, {x, grid}, grid_attrs(options));
}

Tensor affine_grid(Operand theta, Pair size, bool align_corners) {
  static const Op& op = find_op("affine_grid");
  return apply(op, {theta}, affine_attrs(size, align_corners));
}

}  // namespace athanor
