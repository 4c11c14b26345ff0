// Sliding windows and their transpose.
#include <fmt/format.h>

#include "athanor/ops/define.h"
#include "athanor/ops/movement.h"

namespace athanor {
namespace {

// The attributes of unfold and fold: windows of `window` elements, which are `dilation` apart. A window
// begins every `step` elements.
struct Windows {
  int axis;
  int64_t window, step, dilation;
  int64_t span() const { return (window - 1) * dilation + 1; }
  int64_t count(int64_t extent) const { return (extent - span()) / step + 1; }
};

void check(const Windows& w, int64_t extent) {
  if (w.window < 1 || w.step < 1 || w.dilation < 1)
    throw Error(ErrorCode::value,
                fmt::format("window {}, step {} and dilation {}", w.window, w.step, w.dilation), {},
                "Each must be at least 1");
  if (extent < w.span())
    throw Error(ErrorCode::shape,
                fmt::format("a window that spans {} does not fit an extent of {}", w.span(), extent), {},
                "Pad the tensor, or take a smaller window");
}

Windows unfold_windows(const Attrs& a) {
  return {static_cast<int>(a.integer("axis")), a.integer("window"), a.integer("step"), a.integer("dilation")};
}

Windows fold_windows(const Shape& in, const Attrs& a) {
  const auto axis = static_cast<int>(a.integer("axis"));
  normalize_axis(axis + 1, in.rank());
  return {axis, in[axis + 1], a.integer("step"), a.integer("dilation")};
}

TensorType infer_unfold(std::span<const TensorType> in, const Attrs& attrs) {
  const Windows w = unfold_windows(attrs);
  const Shape& shape = in[0].shape;
  normalize_axis(w.axis, shape.rank());
  check(w, shape[w.axis]);
  return {in[0].dtype, shape.with(w.axis, w.count(shape[w.axis])).insert(w.axis + 1, w.window), {}};
}

TensorType infer_fold(std::span<const TensorType> in, const Attrs& attrs) {
  const Shape& shape = in[0].shape;
  const Windows w = fold_windows(shape, attrs);
  const int64_t size = attrs.integer("size");
  check_dtype(in[0], Accept::numbers);
  check(w, size);
  if (w.count(size) != shape[w.axis])
    throw Error(ErrorCode::shape, fmt::format("{} windows do not make up an extent of {}, which has {}",
                                              shape[w.axis], size, w.count(size)));
  return {in[0].dtype, shape.erase(w.axis + 1).with(w.axis, size), {}};
}

RefArray reference_unfold(std::span<const RefArray> in, const Attrs& attrs) {
  const Windows w = unfold_windows(attrs);
  const Shape& shape = in[0].shape;
  const auto axis = static_cast<size_t>(w.axis);
  RefArray result(shape.with(w.axis, w.count(shape[w.axis])).insert(w.axis + 1, w.window));
  for_each_index(result.shape, [&](const Ints& index) {
    Ints source = index;
    source[axis] = index[axis] * w.step + index[axis + 1] * w.dilation;
    source.erase(source.begin() + w.axis + 1);
    result[offset_of(result.shape, index)] = in[0][offset_of(shape, source)];
  });
  return result;
}

RefArray reference_fold(std::span<const RefArray> in, const Attrs& attrs) {
  const Shape& shape = in[0].shape;
  const Windows w = fold_windows(shape, attrs);
  const auto axis = static_cast<size_t>(w.axis);
  RefArray result(shape.erase(w.axis + 1).with(w.axis, attrs.integer("size")));
  for_each_index(shape, [&](const Ints& index) {
    Ints target = index;
    target[axis] = index[axis] * w.step + index[axis + 1] * w.dilation;
    target.erase(target.begin() + w.axis + 1);
    result[offset_of(result.shape, target)] += in[0][offset_of(shape, index)];
  });
  return result;
}

Attrs unfold_attrs(int64_t axis, int64_t window, int64_t step, int64_t dilation) {
  return {{"axis", axis}, {"window", window}, {"step", step}, {"dilation", dilation}};
}

Attrs fold_attrs(int64_t axis, int64_t size, int64_t step, int64_t dilation) {
  return {{"axis", axis}, {"size", size}, {"step", step}, {"dilation", dilation}};
}

}  // namespace

ATHANOR_OPS(windows) {
  define_op({.name = "unfold",
             .doc = "an axis as sliding windows: extent n becomes [windows, window]",
             .prim = Prim::unfold,
             .dtypes = all_dtypes(),
             .infer = infer_unfold,
             .grad =
                 [](const GradArgs& a) {
                   const Windows w = unfold_windows(a.attrs);
                   return std::vector{fold(a.grad, w.axis, a.inputs[0].size(w.axis), w.step, w.dilation)};
                 },
             .reference = reference_unfold,
             .cases = {{{{{17}}}, unfold_attrs(0, 3, 1, 1)},
                       {{{{2, 11, 3}}}, unfold_attrs(1, 3, 2, 3)},
                       {{{{2, 5}}}, unfold_attrs(1, 1, 3, 1)},
                       {{{{0, 5}}}, unfold_attrs(1, 2, 1, 1)}},
             .flops = [](auto, const auto&, const auto&) { return int64_t{0}; }});
  define_op(
      {.name = "fold",
       .doc = "the transpose of unfold: [windows, window] become one axis, overlaps summed",
       .prim = Prim::fold,
       .dtypes = number_dtypes(),
       .infer = infer_fold,
       .grad =
           [](const GradArgs& a) {
             const Windows w = fold_windows(a.inputs[0].shape(), a.attrs);
             return std::vector{unfold(a.grad, w.axis, w.window, w.step, w.dilation)};
           },
       .reference = reference_fold,
       .cases = {{{{{15, 3}}}, fold_attrs(0, 17, 1, 1)},
                 {{{{2, 3, 3, 3}}}, fold_attrs(1, 11, 2, 3)},
                 {{{{2, 2, 1}}}, fold_attrs(1, 5, 3, 1)},
                 {{{{0, 4, 2}}}, fold_attrs(1, 5, 1, 1)}},
       .flops = [](std::span<const TensorType> in, const auto&, const auto&) { return in[0].shape.size(); }});
}

Tensor unfold(Operand x, int axis, int64_t window, int64_t step, int64_t dilation) {
  static const Op& op = find_op("unfold");
  return in_call(
      "unfold",
      [&] {
        return apply(op, {x},
                     unfold_attrs(normalize_axis(axis, as_tensor(x).rank()), window, step, dilation));
      },
      x);
}

Tensor fold(Operand x, int axis, int64_t size, int64_t step, int64_t dilation) {
  static const Op& op = find_op("fold");
  return in_call(
      "fold",
      [&] {
        return apply(op, {x},
                     fold_attrs(normalize_axis(axis, as_tensor(x).rank() - 1), size, step, dilation));
      },
      x);
}

}  // namespace athanor
