// Views: reshape, permute, broadcast.
#include "athanor/ops/movement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/reduction.h"

namespace athanor {
namespace {

Ints whole_axes(int rank) {
  Ints axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

TensorType infer_reshape(std::span<const TensorType> in, const Attrs& attrs) {
  const Shape shape(attrs.ints("shape"));
  if (shape.size() != in[0].shape.size())
    throw Error(ErrorCode::shape, fmt::format("{} elements do not fit shape {}, which has {}",
                                              in[0].shape.size(), to_string(shape), shape.size()));
  return {in[0].dtype, shape, {}};
}

TensorType infer_permute(std::span<const TensorType> in, const Attrs& attrs) {
  const Ints& axes = attrs.ints("axes");
  Ints sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != whole_axes(in[0].shape.rank()))
    throw Error(ErrorCode::shape,
                fmt::format("[{}] is not an order of {} axes", fmt::join(axes, ", "), in[0].shape.rank()), {},
                "Name each axis once");
  Ints dims;
  for (int64_t axis : axes) dims.push_back(in[0].shape[static_cast<int>(axis)]);
  return {in[0].dtype, dims, {}};
}

RefArray reference_permute(std::span<const RefArray> in, const Attrs& attrs) {
  const Ints& axes = attrs.ints("axes");
  Ints dims;
  for (int64_t axis : axes) dims.push_back(in[0].shape[static_cast<int>(axis)]);
  RefArray result{Shape(dims)};
  for_each_index(result.shape, [&](const Ints& index) {
    Ints source(index.size());
    for (size_t i = 0; i < index.size(); ++i) source[static_cast<size_t>(axes[i])] = index[i];
    result[offset_of(result.shape, index)] = in[0][offset_of(in[0].shape, source)];
  });
  return result;
}

TensorType infer_broadcast(std::span<const TensorType> in, const Attrs& attrs) {
  const Shape &from = in[0].shape, to(attrs.ints("shape"));
  bool fits = from.rank() <= to.rank();
  for (int axis = -1; fits && axis >= -from.rank(); --axis) fits = from[axis] == 1 || from[axis] == to[axis];
  if (!fits)
    throw Error(ErrorCode::shape, fmt::format("{} does not broadcast to {}", to_string(from), to_string(to)),
                {}, "Only extents of 1 can be repeated, and new axes come in front");
  return {in[0].dtype, to, {}};
}

std::vector<Tensor> broadcast_grad(const GradArgs& a) {
  const Shape &from = a.inputs[0].shape(), &to = a.output.shape();
  Ints repeated;
  for (int i = 0; i < to.rank(); ++i) {
    const int source = i - (to.rank() - from.rank());
    if (source < 0 || (from[source] == 1 && to[i] != 1)) repeated.push_back(i);
  }
  return {reshape(sum(a.grad, Axes(repeated)), from.to_ints())};
}

RefArray reference_broadcast(std::span<const RefArray> in, const Attrs& attrs) {
  RefArray result{Shape(attrs.ints("shape"))};
  const Shape& from = in[0].shape;
  for_each_index(result.shape, [&](const Ints& index) {
    Ints source(index.end() - from.rank(), index.end());
    for (int i = 0; i < from.rank(); ++i)
      if (from[i] == 1) source[static_cast<size_t>(i)] = 0;
    result[offset_of(result.shape, index)] = in[0][offset_of(from, source)];
  });
  return result;
}

}  // namespace

ATHANOR_OPS(movement) {
  define_op(
      {.name = "reshape",
       .doc = "the same elements, in row-major order, in another shape",
       .prim = Prim::reshape,
       .dtypes = all_dtypes(),
       .infer = infer_reshape,
       .grad = [](const GradArgs& a) { return std::vector{reshape(a.grad, a.inputs[0].shape().to_ints())}; },
       .reference =
           [](std::span<const RefArray> in, const Attrs& attrs) {
             RefArray result{Shape(attrs.ints("shape"))};
             result.data = in[0].data;
             return result;
           },
       .cases = {{{{{3, 5}}}, {{"shape", Ints{15}}}},
                 {{{{2, 3, 7}}}, {{"shape", Ints{7, 1, 6}}}},
                 {{{{1}}}, {{"shape", Ints{}}}},
                 {{{{3, 0}}}, {{"shape", Ints{0, 5}}}}},
       .flops = [](auto, const auto&, const auto&) { return int64_t{0}; }});
  define_op({.name = "permute",
             .doc = "axis i of the result is axis axes[i] of x",
             .prim = Prim::permute,
             .dtypes = all_dtypes(),
             .infer = infer_permute,
             .grad =
                 [](const GradArgs& a) {
                   const Ints& axes = a.attrs.ints("axes");
                   Ints inverse(axes.size());
                   for (size_t i = 0; i < axes.size(); ++i)
                     inverse[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
                   return std::vector{permute(a.grad, inverse)};
                 },
             .reference = reference_permute,
             .cases = {{{{{3, 5}}}, {{"axes", Ints{1, 0}}}},
                       {{{{2, 3, 5, 7}}}, {{"axes", Ints{2, 0, 3, 1}}}},
                       {{{{}}}, {{"axes", Ints{}}}},
                       {{{{3, 0, 2}}}, {{"axes", Ints{2, 1, 0}}}}},
             .flops = [](auto, const auto&, const auto&) { return int64_t{0}; }});
  define_op({.name = "broadcast",
             .doc = "x with new axes in front and extents of 1 repeated",
             .prim = Prim::broadcast,
             .dtypes = all_dtypes(),
             .infer = infer_broadcast,
             .grad = broadcast_grad,
             .reference = reference_broadcast,
             .cases = {{{{{}}}, {{"shape", Ints{3, 5}}}},
                       {{{{3, 1}}}, {{"shape", Ints{2, 3, 17}}}},
                       {{{{1}}}, {{"shape", Ints{1}}}},
                       {{{{1, 5}}}, {{"shape", Ints{0, 5}}}}},
             .flops = [](auto, const auto&, const auto&) { return int64_t{0}; }});
}

Tensor reshape(Operand x, const Ints& shape) {
  static const Op& op = find_op("reshape");
  return in_call(
      "reshape",
      [&] {
        const Tensor value = as_tensor(x);
        Ints dims = shape;
        const auto open = std::find(dims.begin(), dims.end(), -1);
        if (open != dims.end()) {
          int64_t known = 1;
          for (int64_t d : dims)
            if (d != -1) known *= d;
          if (std::count(dims.begin(), dims.end(), -1) > 1 || known <= 0 || value.size() % known != 0)
            throw Error(
                ErrorCode::shape,
                fmt::format("{} elements do not fit shape [{}]", value.size(), fmt::join(shape, ", ")), {},
                "One extent may be -1, and the others must divide the number of elements");
          *open = value.size() / known;
        }
        return value.shape() == Shape(dims) ? value : apply(op, {value}, {{"shape", dims}});
      },
      x);
}

Tensor flatten(Operand x, int start, int end) {
  return in_call(
      "flatten",
      [&] {
        const Tensor value = as_tensor(x);
        if (value.rank() == 0) return reshape(value, {1});
        const int first = normalize_axis(start, value.rank()), last = normalize_axis(end, value.rank());
        if (first > last) throw Error(ErrorCode::shape, fmt::format("axes {} to {} are none", start, end));
        Ints dims = value.shape().to_ints();
        int64_t merged = 1;
        for (int i = first; i <= last; ++i) merged *= value.shape()[i];
        dims.erase(dims.begin() + first + 1, dims.begin() + last + 1);
        dims[static_cast<size_t>(first)] = merged;
        return reshape(value, dims);
      },
      x);
}

Tensor squeeze(Operand x, const Ints& axes) {
  return in_call(
      "squeeze",
      [&] {
        const Tensor value = as_tensor(x);
        const Ints chosen = normalize_axes(axes, value.rank());
        Ints dims;
        for (int i = 0; i < value.rank(); ++i) {
          const bool drop =
              axes.empty() ? value.shape()[i] == 1 : std::binary_search(chosen.begin(), chosen.end(), i);
          if (drop && value.shape()[i] != 1)
            throw Error(ErrorCode::shape, fmt::format("axis {} has extent {}, not 1", i, value.shape()[i]));
          if (!drop) dims.push_back(value.shape()[i]);
        }
        return reshape(value, dims);
      },
      x);
}

Tensor unsqueeze(Operand x, int axis) {
  return in_call(
      "unsqueeze",
      [&] {
        const Tensor value = as_tensor(x);
        return reshape(value, value.shape().insert(normalize_axis(axis, value.rank() + 1), 1).to_ints());
      },
      x);
}

Tensor permute(Operand x, const Ints& axes) {
  static const Op& op = find_op("permute");
  return in_call(
      "permute",
      [&] {
        const Tensor value = as_tensor(x);
        Ints order;
        for (int64_t axis : axes) order.push_back(normalize_axis(axis, value.rank()));
        return order == whole_axes(value.rank()) ? value : apply(op, {value}, {{"axes", order}});
      },
      x);
}

Tensor transpose(Operand x, int a, int b) {
  return in_call(
      "transpose",
      [&] {
        const Tensor value = as_tensor(x);
        Ints axes = whole_axes(value.rank());
        std::swap(axes[static_cast<size_t>(normalize_axis(a, value.rank()))],
                  axes[static_cast<size_t>(normalize_axis(b, value.rank()))]);
        return permute(value, axes);
      },
      x);
}

Tensor broadcast_to(Operand x, const Shape& shape) {
  static const Op& op = find_op("broadcast");
  const SourceScope scope(x.where());
  need("broadcast_to", x);
  const Tensor value = as_tensor(x);
  return value.shape() == shape ? value : apply(op, {value}, {{"shape", shape.to_ints()}});
}

Tensor tile(Operand x, const Ints& counts) {
  return in_call(
      "tile",
      [&] {
        Tensor value = as_tensor(x);
        const auto rank = std::max(static_cast<size_t>(value.rank()), counts.size());
        Ints dims(rank - static_cast<size_t>(value.rank()), 1), times(rank - counts.size(), 1);
        dims.insert(dims.end(), value.shape().begin(), value.shape().end());
        times.insert(times.end(), counts.begin(), counts.end());
        value = reshape(value, dims);
        for (size_t i = 0; i < rank; ++i) {  // one axis at a time, so that the rank grows by only one
          if (times[i] == 1) continue;
          const auto axis = static_cast<int>(i);
          value = unsqueeze(value, axis);
          value = broadcast_to(value, value.shape().with(axis, times[i]));
          dims[i] *= times[i];
          value = reshape(value, dims);
        }
        return value;
      },
      x);
}

Tensor repeat_interleave(Operand x, int64_t count, int axis) {
  return in_call(
      "repeat_interleave",
      [&] {
        const Tensor value = as_tensor(x);
        const int along = normalize_axis(axis, value.rank());
        const Tensor inserted = unsqueeze(value, along + 1);
        const Tensor repeated = broadcast_to(inserted, inserted.shape().with(along + 1, count));
        return reshape(repeated, value.shape().with(along, value.shape()[along] * count).to_ints());
      },
      x);
}

}  // namespace athanor
