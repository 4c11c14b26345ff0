// Reading and adding at positions that a tensor holds.
#include <fmt/format.h>

#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduction.h"

namespace athanor {
namespace {

void check_index(const TensorType& type) {
  if (type.dtype != DType::i64)
    throw Error(ErrorCode::dtype, fmt::format("takes an index of i64, not {}", to_string(type.dtype)), {},
                "Cast it first: cast(index, DType::i64)");
}

TensorType infer_take_along(std::span<const TensorType> in, const Attrs& attrs) {
  const Shape &x = in[0].shape, &index = in[1].shape;
  const int axis = axis_of(attrs);
  check_index(in[1]);
  normalize_axis(axis, x.rank());
  if (index.rank() != x.rank() || index.with(axis, 0) != x.with(axis, 0))
    throw Error(ErrorCode::shape, fmt::format("x {} and index {} differ in more than axis {}", to_string(x),
                                              to_string(index), axis));
  if (x[axis] == 0 && index.size() > 0)
    throw Error(ErrorCode::shape, fmt::format("axis {} has no elements to take", axis));
  return {in[0].dtype, index, {}};
}

TensorType infer_scatter_add(std::span<const TensorType> in, const Attrs& attrs) {
  const int axis = axis_of(attrs);
  check_index(in[0]);
  check_dtype(in[1], Accept::numbers);
  normalize_axis(axis, in[1].shape.rank());
  if (in[0].shape != in[1].shape)
    throw Error(ErrorCode::shape,
                fmt::format("index {} and source {} differ", to_string(in[0].shape), to_string(in[1].shape)));
  return {in[1].dtype, in[1].shape.with(axis, attrs.integer("extent")), {}};
}

// The offset in an array of `shape` that the element of `index` at `position` refers to.
int64_t target(const Shape& shape, const RefArray& index, int axis, Ints position) {
  position[static_cast<size_t>(axis)] = static_cast<int64_t>(index[offset_of(index.shape, position)]);
  return offset_of(shape, position);
}

RefArray reference_take_along(std::span<const RefArray> in, const Attrs& attrs) {
  RefArray result(in[1].shape);
  for_each_index(result.shape, [&](const Ints& i) {
    result[offset_of(result.shape, i)] = in[0][target(in[0].shape, in[1], axis_of(attrs), i)];
  });
  return result;
}

RefArray reference_scatter_add(std::span<const RefArray> in, const Attrs& attrs) {
  RefArray result(in[1].shape.with(axis_of(attrs), attrs.integer("extent")));
  for_each_index(in[1].shape, [&](const Ints& i) {
    result[target(result.shape, in[0], axis_of(attrs), i)] += in[1][offset_of(in[1].shape, i)];
  });
  return result;
}

TensorType infer_take(std::span<const TensorType> in, const Attrs& attrs) {
  const Shape &x = in[0].shape, &index = in[1].shape;
  const int axis = normalize_axis(axis_of(attrs), x.rank());
  check_index(in[1]);
  if (x[axis] == 0 && index.size() > 0)
    throw Error(ErrorCode::shape, fmt::format("axis {} has no elements to take", axis));
  Ints dims(x.begin(), x.begin() + axis);
  dims.insert(dims.end(), index.begin(), index.end());
  dims.insert(dims.end(), x.begin() + axis + 1, x.end());
  return {in[0].dtype, dims, {}};
}

// Flattens the index, puts it along `axis`, and repeats it to the other extents of x.
Tensor spread(const Tensor& index, const Shape& x, int axis) {
  const Shape alone = Shape(Ints(static_cast<size_t>(x.rank()), 1)).with(axis, index.size());
  return broadcast_to(reshape(index, alone.to_ints()), x.with(axis, index.size()));
}

Tensor decompose_take(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Shape& x = in[0].shape();
  const int axis = axis_of(attrs);
  const Tensor flat = gather(in[0], spread(in[1], x, axis), axis);
  Ints dims(x.begin(), x.begin() + axis);
  dims.insert(dims.end(), in[1].shape().begin(), in[1].shape().end());
  dims.insert(dims.end(), x.begin() + axis + 1, x.end());
  return reshape(flat, dims);
}

std::vector<Tensor> take_grad(const GradArgs& a) {
  const Shape& x = a.inputs[0].shape();
  const int axis = axis_of(a.attrs);
  const Tensor dy = reshape(a.grad, x.with(axis, a.inputs[1].size()).to_ints());
  return {scatter_add(spread(a.inputs[1], x, axis), dy, axis, x[axis]), Tensor()};
}

RefArray reference_take(std::span<const RefArray> in, const Attrs& attrs) {
  const Shape &x = in[0].shape, &index = in[1].shape;
  const auto axis = static_cast<size_t>(axis_of(attrs)), rank = static_cast<size_t>(index.rank());
  Ints dims = x.to_ints();
  dims.erase(dims.begin() + axis_of(attrs));
  dims.insert(dims.begin() + axis_of(attrs), index.begin(), index.end());
  RefArray result{Shape(dims)};
  for_each_index(result.shape, [&](const Ints& i) {
    Ints source(i.begin(), i.begin() + axis_of(attrs));
    const Ints position(i.begin() + axis_of(attrs), i.begin() + static_cast<int64_t>(axis + rank));
    source.push_back(static_cast<int64_t>(in[1][offset_of(index, position)]));
    source.insert(source.end(), i.begin() + static_cast<int64_t>(axis + rank), i.end());
    result[offset_of(result.shape, i)] = in[0][offset_of(x, source)];
  });
  return result;
}

Sample index_sample(const Shape& shape, double extent) { return {shape, 0, extent, DType::i64}; }

}  // namespace

ATHANOR_OPS(gather) {
  define_op(
      {.name = "take_along",
       .doc = "out[i, j] = x[index[i, j], j] for axis 0: NumPy's take_along_axis",
       .prim = Prim::take_along,
       .arity = 2,
       .dtypes = all_dtypes(),
       .infer = infer_take_along,
       .grad =
           [](const GradArgs& a) {
             const int axis = axis_of(a.attrs);
             return std::vector{scatter_add(a.inputs[1], a.grad, axis, a.inputs[0].size(axis)), Tensor()};
           },
       .reference = reference_take_along,
       .cases = {{{{{7}}, index_sample({17}, 7)}, {{"axis", int64_t{0}}}},
                 {{{{3, 5, 2}}, index_sample({3, 4, 2}, 5)}, {{"axis", int64_t{1}}}},
                 {{{{3, 5}}, index_sample({3, 0}, 5)}, {{"axis", int64_t{1}}}}},
       .flops = [](auto, const auto&, const auto&) { return int64_t{0}; }});
  define_op(
      {.name = "scatter_add",
       .doc = "zeros of `extent` along an axis, with every element of source added at its index",
       .prim = Prim::scatter_add,
       .arity = 2,
       .dtypes = number_dtypes(),
       .infer = infer_scatter_add,
       .grad =
           [](const GradArgs& a) {
             return std::vector{Tensor(), gather(a.grad, a.inputs[0], axis_of(a.attrs))};
           },
       .reference = reference_scatter_add,
       .cases = {{{index_sample({17}, 7), {{17}}}, {{"axis", int64_t{0}}, {"extent", int64_t{7}}}},
                 {{index_sample({3, 4, 2}, 5), {{3, 4, 2}}}, {{"axis", int64_t{1}}, {"extent", int64_t{5}}}},
                 {{index_sample({0, 4}, 5), {{0, 4}}}, {{"axis", int64_t{0}}, {"extent", int64_t{3}}}}},
       .flops = [](std::span<const TensorType> in, const auto&, const auto&) { return in[1].shape.size(); }});
  define_op(
      {.name = "take",
       .doc =
           "slices of x [..., n, ...] picked along an axis by an index of any shape, which replaces the axis",
       .arity = 2,
       .dtypes = all_dtypes(),
       .infer = infer_take,
       .grad = take_grad,
       .decompose = decompose_take,
       .reference = reference_take,
       .cases = {{{{{7, 3}}, index_sample({17}, 7)}, {{"axis", int64_t{0}}}},
                 {{{{2, 5, 3}}, index_sample({2, 4}, 5)}, {{"axis", int64_t{1}}}},
                 {{{{5, 3}}, index_sample({}, 3)}, {{"axis", int64_t{1}}}},
                 {{{{5, 3}}, index_sample({0}, 5)}, {{"axis", int64_t{0}}}}},
       .flops = [](auto, const auto&, const auto&) { return int64_t{0}; }});
}

namespace {

Tensor as_index(const Operand& index) {
  const Tensor value = as_tensor(index);
  if (!is_int(value.dtype())) check_index(value.type());
  return cast(value, DType::i64);
}

}  // namespace

Tensor take(Operand x, Operand index, int axis) {
  static const Op& op = find_op("take");
  return in_call(
      "take",
      [&] {
        const int64_t along = normalize_axis(axis, as_tensor(x).rank());
        return apply(op, {x, as_index(index)}, {{"axis", along}});
      },
      x, index);
}

Tensor embedding(Operand weight, Operand labels) {
  const SourceScope scope(weight.where());
  need("embedding", weight, labels);
  return take(weight, labels, 0);
}

Tensor gather(Operand x, Operand index, int axis) {
  static const Op& op = find_op("take_along");
  return in_call(
      "gather",
      [&] {
        const Tensor value = as_tensor(x), positions = as_index(index);
        const int along = normalize_axis(axis, value.rank());
        if (positions.rank() != value.rank())
          throw Error(ErrorCode::shape, "x and index differ in rank", {}, "take() picks whole slices");
        const Shape others = broadcast_shapes(value.shape().with(along, 1), positions.shape().with(along, 1));
        return apply(op,
                     {broadcast_to(value, others.with(along, value.shape()[along])),
                      broadcast_to(positions, others.with(along, positions.shape()[along]))},
                     {{"axis", int64_t{along}}});
      },
      x, index);
}

Tensor scatter_add(Operand index, Operand source, int axis, int64_t extent) {
  static const Op& op = find_op("scatter_add");
  return in_call(
      "scatter_add",
      [&] {
        const int64_t along = normalize_axis(axis, as_tensor(source).rank());
        if (extent < 0) throw Error(ErrorCode::value, fmt::format("an extent of {}", extent));
        return apply(op, {as_index(index), source}, {{"axis", along}, {"extent", extent}});
      },
      index, source);
}

}  // namespace athanor
