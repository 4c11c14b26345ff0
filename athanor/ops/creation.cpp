#include "athanor/ops/creation.h"

#include <fmt/format.h>

#include <cmath>

#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/movement.h"

namespace athanor {
namespace {

TensorType infer_iota(std::span<const TensorType>, const Attrs& attrs) {
  const Shape shape(attrs.ints("shape"));
  normalize_axis(attrs.integer("axis"), shape.rank());
  return {DType::i64, shape, {}};
}

RefArray reference_iota(std::span<const RefArray>, const Attrs& attrs) {
  RefArray result{Shape(attrs.ints("shape"))};
  const auto axis = static_cast<size_t>(attrs.integer("axis"));
  for_each_index(result.shape, [&](const Ints& index) {
    result[offset_of(result.shape, index)] = static_cast<double>(index[axis]);
  });
  return result;
}

// The row and column indices of matrices [..., M, N], as [M, 1] and [1, N] for broadcasting.
struct Grid {
  Tensor row, column;
};
Grid grid(int64_t rows, int64_t columns, Device device) {
  return {iota({rows, 1}, 0, device), iota({1, columns}, 1, device)};
}

Tensor triangle(const char* name, const Operand& x, int64_t k, bool lower) {
  return in_call(
      name,
      [&] {
        const Tensor value = as_tensor(x);
        if (value.rank() < 2)
          throw Error(ErrorCode::shape, "takes matrices", {}, "It needs at least two axes: [..., M, N]");
        const auto [row, column] = grid(value.size(-2), value.size(-1), value.device());
        return where(lower ? column <= row + k : column >= row + k, value,
                     constant(0, value.dtype(), value.device()));
      },
      x);
}

}  // namespace

ATHANOR_OPS(creation) {
  define_op({.name = "input",
             .doc = "a value in memory",
             .prim = Prim::input,
             .arity = 0,
             .infer = [](std::span<const TensorType>, const Attrs&) -> TensorType {
               throw Error(ErrorCode::usage, "is not called", {}, "Make one with Tensor::from");
             }});
  define_op({.name = "constant",
             .doc = "a number known when the graph is built, a scalar",
             .prim = Prim::constant,
             .arity = 0,
             .infer =
                 [](std::span<const TensorType>, const Attrs& attrs) {
                   return TensorType{attrs.dtype("dtype"), {}, {}};
                 },
             .reference = [](std::span<const RefArray>,
                             const Attrs& attrs) { return RefArray(Shape{}, attrs.number("value")); },
             .cases =
                 [] {
                   std::vector<OpCase> cases;
                   for (DType t : all_dtypes()) cases.push_back({{}, {{"value", 3.0}, {"dtype", t}}});
                   return cases;
                 }(),
             .differentiable = false});
  define_op({.name = "iota",
             .doc = "i64[shape]: each element's index along an axis",
             .prim = Prim::iota,
             .arity = 0,
             .infer = infer_iota,
             .reference = reference_iota,
             .cases = {{{}, {{"shape", Ints{17}}, {"axis", int64_t{0}}}},
                       {{}, {{"shape", Ints{3, 5, 7}}, {"axis", int64_t{1}}}},
                       {{}, {{"shape", Ints{3, 0}}, {"axis", int64_t{0}}}}},
             .differentiable = false});
}

Tensor full(const Shape& shape, double value, DType dtype, Device device, std::source_location where) {
  const SourceScope scope(where);
  return broadcast_to(constant(value, dtype, device), shape);
}
Tensor zeros(const Shape& shape, DType dtype, Device device, std::source_location where) {
  return full(shape, 0, dtype, device, where);
}
Tensor ones(const Shape& shape, DType dtype, Device device, std::source_location where) {
  return full(shape, 1, dtype, device, where);
}
Tensor full_like(Operand x, double value) {
  const SourceScope scope(x.where());
  need("full_like", x);
  return constant_like(value, as_tensor(x));
}
Tensor zeros_like(Operand x) {
  need("zeros_like", x);
  return full_like(x, 0);
}
Tensor ones_like(Operand x) {
  need("ones_like", x);
  return full_like(x, 1);
}

Tensor iota(const Shape& shape, int axis, Device device, std::source_location where) {
  static const Op& op = find_op("iota");
  const SourceScope scope(where);
  const int64_t along = axis < 0 ? axis + shape.rank() : axis;
  return apply_on(device, op, {{"shape", shape.to_ints()}, {"axis", along}});
}

Tensor arange(double start, double stop, double step, DType dtype, Device device,
              std::source_location where) {
  const SourceScope scope(where);
  if (step == 0 || !std::isfinite((stop - start) / step))
    throw Error(ErrorCode::value, fmt::format("arange from {} to {} by {}", start, stop, step),
                to_string(where), "The step must not be 0, and all must be finite");
  const auto count = static_cast<int64_t>(std::max(0.0, std::ceil((stop - start) / step)));
  const bool whole = start == std::floor(start) && step == std::floor(step);
  if (!is_float(dtype) && !whole)
    throw Error(ErrorCode::dtype, fmt::format("arange from {} by {} as {}", start, step, to_string(dtype)),
                to_string(where), "Ask for floats: arange(start, stop, step, DType::f32)");
  Tensor result = iota({count}, 0, device);
  if (!whole) result = cast(result, dtype == DType::f64 ? DType::f64 : DType::f32);
  if (step != 1) result = result * (whole ? Operand(static_cast<int64_t>(step)) : Operand(step));
  if (start != 0) result = result + (whole ? Operand(static_cast<int64_t>(start)) : Operand(start));
  return cast(result, dtype);
}

Tensor arange(int64_t count, DType dtype, Device device, std::source_location where) {
  return arange(0, static_cast<double>(count), 1, dtype, device, where);
}

Tensor linspace(double start, double stop, int64_t count, DType dtype, Device device,
                std::source_location where) {
  const SourceScope scope(where);
  const double step = count > 1 ? (stop - start) / static_cast<double>(count - 1) : 0;
  const Tensor index = cast(iota({count}, 0, device), dtype == DType::f64 ? DType::f64 : DType::f32);
  return cast(index * step + start, dtype);
}

Tensor eye(int64_t rows, int64_t columns, DType dtype, Device device, std::source_location where) {
  const SourceScope scope(where);
  const auto [row, column] = grid(rows, columns < 0 ? rows : columns, device);
  return cast(equal(row, column), dtype);
}

Tensor one_hot(Operand labels, int64_t classes, DType dtype) {
  return in_call(
      "one_hot",
      [&] {
        const Tensor value = as_tensor(labels);
        check_dtype(value.type(), Accept::integers);
        return cast(equal(unsqueeze(value, -1), iota({classes}, 0, value.device())), dtype);
      },
      labels);
}

Tensor tril(Operand x, int64_t k) { return triangle("tril", x, k, true); }
Tensor triu(Operand x, int64_t k) { return triangle("triu", x, k, false); }

}  // namespace athanor
