// unfold2d and fold2d: windows as columns, and back. Each is the other's gradient.
#include <fmt/format.h>

#include <functional>

#include "athanor/ops/conv.h"
#include "athanor/ops/conv_problem.h"
#include "athanor/ops/define.h"
#include "athanor/ops/movement.h"

namespace athanor {
namespace {

struct ColumnsProblem {
  Pair kernel, stride, padding, dilation;

  explicit ColumnsProblem(const Attrs& attrs)
      : kernel(pair(attrs, "kernel")),
        stride(pair(attrs, "stride")),
        padding(pair(attrs, "padding")),
        dilation(pair(attrs, "dilation")) {}

  int64_t window() const { return kernel.height * kernel.width; }
  /// The number of windows in an image of this size. Throws Error(shape|value).
  Pair counts(Pair size) const {
    return {windows_along(size.height, kernel.height, stride.height, padding.height, dilation.height),
            windows_along(size.width, kernel.width, stride.width, padding.width, dilation.width)};
  }
  /// Calls f(offset in x [N, C, H, W], offset in its columns) for every element that is not padding.
  void each(const Shape& x, const std::function<void(int64_t, int64_t)>& f) const {
    const Pair n = counts({x[2], x[3]});
    for_each_index({x[0] * x[1], kernel.height, kernel.width, n.height, n.width}, [&](const Ints& i) {
      const int64_t row = i[3] * stride.height + i[1] * dilation.height - padding.height,
                    column = i[4] * stride.width + i[2] * dilation.width - padding.width;
      if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) return;
      f((i[0] * x[2] + row) * x[3] + column,
        (((i[0] * kernel.height + i[1]) * kernel.width + i[2]) * n.height + i[3]) * n.width + i[4]);
    });
  }

 private:
  static Pair pair(const Attrs& attrs, const char* name) {
    return {attrs.ints(name)[0], attrs.ints(name)[1]};
  }
};

TensorType unfold_type(std::span<const TensorType> in, const Attrs& attrs) {
  const Shape& x = in[0].shape;
  check_dtype(in[0], Accept::numbers);
  if (x.rank() != 4)
    throw Error(ErrorCode::shape, fmt::format("x has {} axes", x.rank()), {}, "It is [N, C, H, W]");
  const ColumnsProblem p(attrs);
  const Pair n = p.counts({x[2], x[3]});
  return {in[0].dtype, {x[0], x[1] * p.window(), n.height * n.width}, {}};
}

TensorType fold_type(std::span<const TensorType> in, const Attrs& attrs) {
  const Shape& columns = in[0].shape;
  check_dtype(in[0], Accept::numbers);
  const ColumnsProblem p(attrs);
  const Ints& size = attrs.ints("size");
  const Pair n = p.counts({size[0], size[1]});
  if (columns.rank() != 3 || columns[1] % p.window() != 0 || columns[2] != n.height * n.width)
    throw Error(
        ErrorCode::shape, fmt::format("the columns are {}", to_string(columns)), {},
        fmt::format("For [{}, {}] they are [N, C {}, {}]", size[0], size[1], p.window(), n.height * n.width));
  return {in[0].dtype, {columns[0], columns[1] / p.window(), size[0], size[1]}, {}};
}

Tensor unfold_decompose(const std::vector<Tensor>& in, const Attrs& attrs) {
  const ColumnsProblem p(attrs);
  const Tensor windows = windows_of(in[0], p.kernel, p.stride, p.padding, p.dilation, 0);
  return reshape(permute(windows, {0, 1, 3, 5, 2, 4}),
                 {in[0].size(0), in[0].size(1) * p.window(), windows.size(2) * windows.size(4)});
}

Tensor fold_decompose(const std::vector<Tensor>& in, const Attrs& attrs) {
  const ColumnsProblem p(attrs);
  const Ints& size = attrs.ints("size");
  const Pair counts = p.counts({size[0], size[1]});
  const int64_t n = in[0].size(0), c = in[0].size(1) / p.window();
  const Tensor windows =
      permute(reshape(in[0], {n, c, p.kernel.height, p.kernel.width, counts.height, counts.width}),
              {0, 1, 4, 2, 5, 3});
  return sum_of_windows(windows, {n, c, size[0], size[1]}, p.stride, p.padding, p.dilation);
}

RefArray unfold_reference(std::span<const RefArray> in, const Attrs& attrs) {
  const TensorType x{DType::f64, in[0].shape, {}};
  RefArray y(unfold_type({&x, 1}, attrs).shape);
  ColumnsProblem(attrs).each(in[0].shape, [&](int64_t from, int64_t to) { y[to] = in[0][from]; });
  return y;
}

RefArray fold_reference(std::span<const RefArray> in, const Attrs& attrs) {
  const TensorType columns{DType::f64, in[0].shape, {}};
  RefArray y(fold_type({&columns, 1}, attrs).shape);
  ColumnsProblem(attrs).each(y.shape, [&](int64_t to, int64_t from) { y[to] += in[0][from]; });
  return y;
}

Attrs columns_attrs(Pair kernel, const UnfoldOptions& o) {
  return {{"kernel", kernel.ints()},
          {"stride", o.stride.ints()},
          {"padding", o.padding.ints()},
          {"dilation", o.dilation.ints()}};
}

Attrs to_size(Attrs attrs, Pair size) {
  attrs.set("size", size.ints());
  return attrs;
}

}  // namespace

ATHANOR_OPS(columns) {
  const Attrs plain = columns_attrs({2, 3}, {.padding = {1, 2}}),
              sparse = columns_attrs({3, 2}, {.stride = {2, 1}, .dilation = {1, 2}});
  define_op({.name = "unfold2d",
             .doc = "the windows of x [N, C, H, W] as columns, [N, C KH KW, OH OW]",
             .infer = unfold_type,
             .grad =
                 [](const GradArgs& a) {
                   const Shape& x = a.inputs[0].shape();
                   return std::vector{apply(find_op("fold2d"), {a.grad}, to_size(a.attrs, {x[2], x[3]}))};
                 },
             .decompose = unfold_decompose,
             .reference = unfold_reference,
             .cases = {{{{{2, 3, 4, 5}}}, plain}, {{{{1, 2, 7, 5}}}, sparse}, {{{{0, 2, 7, 5}}}, sparse}},
             .flops = [](auto, const auto&, const auto&) { return int64_t{0}; }});
  define_op(
      {.name = "fold2d",
       .doc = "columns [N, C KH KW, OH OW] of windows, added up where they overlap: [N, C, size...]",
       .infer = fold_type,
       .grad = [](const GradArgs& a) { return std::vector{apply(find_op("unfold2d"), {a.grad}, a.attrs)}; },
       .decompose = fold_decompose,
       .reference = fold_reference,
       .cases = {{{{{2, 18, 35}}}, to_size(plain, {4, 5})},
                 {{{{1, 12, 9}}}, to_size(sparse, {7, 5})},
                 {{{{0, 12, 9}}}, to_size(sparse, {7, 5})}},
       .flops = [](std::span<const TensorType> in, const auto&, const auto&) { return in[0].shape.size(); },
       .tolerance = 4});
}

Tensor unfold2d(Operand x, Pair kernel, const UnfoldOptions& o) {
  static const Op& op = find_op("unfold2d");
  return apply(op, {x}, columns_attrs(kernel, o));
}

Tensor fold2d(Operand columns, Pair size, Pair kernel, const UnfoldOptions& o) {
  static const Op& op = find_op("fold2d");
  return apply(op, {columns}, to_size(columns_attrs(kernel, o), size));
}

}  // namespace athanor
