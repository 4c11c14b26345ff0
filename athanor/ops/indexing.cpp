#include "athanor/ops/indexing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "athanor/ops/define.h"
#include "athanor/ops/movement.h"

namespace athanor {

const Index Index::ellipsis(Kind::ellipsis);
const Index Index::new_axis(Kind::new_axis);

namespace {

TensorType infer_slice(std::span<const TensorType> in, const Attrs& attrs) {
  const Ints &start = attrs.ints("start"), &size = attrs.ints("size"), &step = attrs.ints("step");
  const Shape& shape = in[0].shape;
  const auto rank = static_cast<size_t>(shape.rank());
  if (start.size() != rank || size.size() != rank || step.size() != rank)
    throw Error(ErrorCode::shape, fmt::format("ranges of {} axes for {}", start.size(), to_string(shape)));
  for (size_t i = 0; i < rank; ++i) {
    const int64_t extent = shape[static_cast<int>(i)], last = start[i] + (size[i] - 1) * step[i];
    if (step[i] == 0) throw Error(ErrorCode::value, fmt::format("a step of 0 along axis {}", i));
    if (size[i] > 0 && (start[i] < 0 || start[i] >= extent || last < 0 || last >= extent))
      throw Error(ErrorCode::value,
                  fmt::format("elements {} to {} of axis {}, which has {}", start[i], last, i, extent));
  }
  return {in[0].dtype, size, {}};
}

// The transpose of slice along one axis: puts dy's elements back at their positions, with zeros elsewhere.
Tensor unslice(Tensor dy, int axis, int64_t extent, int64_t start, int64_t step) {
  const int64_t size = dy.size(axis);
  if (size == 0) return broadcast_to(constant(0, dy.dtype(), dy.device()), dy.shape().with(axis, extent));
  if (step < 0) {
    dy = flip(dy, {axis});
    start += (size - 1) * step;
    step = -step;
  }
  const auto padded = [](const Tensor& x, int along, int64_t low, int64_t high) {
    Ints before(static_cast<size_t>(x.rank()), 0), after = before;
    before[static_cast<size_t>(along)] = low;
    after[static_cast<size_t>(along)] = high;
    return pad(x, before, after);
  };
  int64_t span = size;
  if (step > 1 && size > 1) {
    const Tensor spread = padded(unsqueeze(dy, axis + 1), axis + 1, 0, step - 1);
    span = (size - 1) * step + 1;
    dy = slice(reshape(spread, dy.shape().with(axis, size * step).to_ints()), axis, 0, span);
  }
  return padded(dy, axis, start, extent - start - span);
}

std::vector<Tensor> slice_grad(const GradArgs& a) {
  const Ints &start = a.attrs.ints("start"), &step = a.attrs.ints("step");
  Tensor dx = a.grad;
  for (int axis = 0; axis < dx.rank(); ++axis)
    dx = unslice(dx, axis, a.inputs[0].size(axis), start[static_cast<size_t>(axis)],
                 step[static_cast<size_t>(axis)]);
  return {dx};
}

RefArray reference_slice(std::span<const RefArray> in, const Attrs& attrs) {
  const Ints &start = attrs.ints("start"), &step = attrs.ints("step");
  RefArray result{Shape(attrs.ints("size"))};
  for_each_index(result.shape, [&](const Ints& index) {
    Ints source(index.size());
    for (size_t i = 0; i < index.size(); ++i) source[i] = start[i] + index[i] * step[i];
    result[offset_of(result.shape, index)] = in[0][offset_of(in[0].shape, source)];
  });
  return result;
}

Attrs slice_attrs(Ints start, Ints size, Ints step) {
  return {{"start", std::move(start)}, {"size", std::move(size)}, {"step", std::move(step)}};
}

struct Range {
  int64_t start, size, step;
};

// Python's rule: negative bounds count from the end, then bounds are cut to the extent.
Range resolve(const Slice& slice, int64_t extent) {
  if (slice.step == 0)
    throw Error(ErrorCode::value, "a slice with a step of 0", {}, "Steps may be negative, not 0");
  const bool up = slice.step > 0;
  const int64_t lowest = up ? 0 : -1, highest = up ? extent : extent - 1;
  const auto bound = [&](int64_t value, int64_t open) {
    if (value == Slice::none) return open;
    return std::clamp(value < 0 ? value + extent : value, lowest, highest);
  };
  const int64_t start = bound(slice.start, up ? 0 : extent - 1), stop = bound(slice.stop, up ? extent : -1);
  const int64_t distance = up ? stop - start : start - stop, stride = up ? slice.step : -slice.step;
  return {start, distance > 0 ? (distance + stride - 1) / stride : 0, slice.step};
}

}  // namespace

ATHANOR_OPS(indexing) {
  define_op({.name = "slice",
             .doc = "element i of each axis is element start + i * step of x, for `size` elements",
             .prim = Prim::slice,
             .dtypes = all_dtypes(),
             .infer = infer_slice,
             .grad = slice_grad,
             .reference = reference_slice,
             .cases = {{{{{17}}}, slice_attrs({3}, {5}, {1})},
                       {{{{17}}}, slice_attrs({15}, {4}, {-3})},
                       {{{{5, 7, 3}}}, slice_attrs({4, 1, 0}, {5, 3, 3}, {-1, 2, 1})},
                       {{{{3, 2}}}, slice_attrs({1, 0}, {1, 0}, {1, 1})},
                       {{{{0, 3}}}, slice_attrs({0, 2}, {0, 2}, {1, -2})}},
             .flops = [](auto, const auto&, const auto&) { return int64_t{0}; }});
}

Tensor slice(Operand x, const std::vector<Index>& indices) {
  static const Op& op = find_op("slice");
  return in_call(
      "slice",
      [&] {
        const Tensor value = as_tensor(x);
        int named = 0, ellipses = 0;
        for (const Index& index : indices) {
          named += index.kind == Index::Kind::integer || index.kind == Index::Kind::slice;
          ellipses += index.kind == Index::Kind::ellipsis;
        }
        if (named > value.rank() || ellipses > 1)
          throw Error(ErrorCode::shape,
                      fmt::format("{} indices and {} ellipses for {} axes", named, ellipses, value.rank()),
                      {}, "Give at most one index an axis, and one ellipsis");
        Ints start, size, step, shape;
        const auto whole = [&](int64_t extent) {
          start.push_back(0), size.push_back(extent), step.push_back(1), shape.push_back(extent);
        };
        const auto rest = [&] {
          for (int i = named; i < value.rank(); ++i) whole(value.shape()[static_cast<int>(start.size())]);
        };
        for (const Index& index : indices) {
          const auto axis = static_cast<int>(start.size());
          if (index.kind == Index::Kind::new_axis) {
            shape.push_back(1);
          } else if (index.kind == Index::Kind::ellipsis) {
            rest();
          } else if (index.kind == Index::Kind::slice) {
            const Range range = resolve(index.slice, value.shape()[axis]);
            start.push_back(range.size > 0 ? range.start : 0);
            size.push_back(range.size), step.push_back(range.step), shape.push_back(range.size);
          } else {
            const int64_t extent = value.shape()[axis];
            if (index.at < -extent || index.at >= extent)
              throw Error(ErrorCode::value, fmt::format("index {} is out of range for axis {}, which has {}",
                                                        index.at, axis, extent));
            start.push_back(index.at < 0 ? index.at + extent : index.at), size.push_back(1),
                step.push_back(1);
          }
        }
        if (ellipses == 0) rest();
        const bool same = size == value.shape().to_ints() &&
                          std::all_of(step.begin(), step.end(), [](int64_t by) { return by == 1; });
        return reshape(same ? value : apply(op, {value}, slice_attrs(start, size, step)), shape);
      },
      x);
}

Tensor slice(Operand x, int axis, int64_t start, int64_t stop, int64_t step) {
  return in_call(
      "slice",
      [&] {
        const Tensor value = as_tensor(x);
        std::vector<Index> indices(static_cast<size_t>(value.rank()), Slice());
        indices[static_cast<size_t>(normalize_axis(axis, value.rank()))] = Slice(start, stop, step);
        return slice(value, indices);
      },
      x);
}

}  // namespace athanor
