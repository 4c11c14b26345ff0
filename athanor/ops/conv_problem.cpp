#include "athanor/ops/conv_problem.h"

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/movement.h"

namespace athanor {
namespace {

Pair pair_of(const Attrs& attrs, const char* name) {
  const Ints& values = attrs.ints(name);
  return {values.at(0), values.at(1)};
}

}  // namespace

Attrs conv_attrs(const Conv2dOptions& o) {
  return {{"stride", o.stride.ints()},
          {"padding", o.padding.ints()},
          {"dilation", o.dilation.ints()},
          {"groups", o.groups}};
}

Conv2dOptions conv_options(const Attrs& attrs) {
  return {pair_of(attrs, "stride"), pair_of(attrs, "padding"), pair_of(attrs, "dilation"),
          attrs.integer("groups")};
}

int64_t windows_along(int64_t extent, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  if (kernel < 1 || stride < 1 || dilation < 1 || padding < 0)
    throw Error(
        ErrorCode::value,
        fmt::format("kernel {}, stride {}, dilation {} and padding {}", kernel, stride, dilation, padding),
        {}, "Padding must be at least 0; all others must be at least 1");
  const int64_t span = dilation * (kernel - 1) + 1, padded = extent + 2 * padding;
  if (span > padded)
    throw Error(
        ErrorCode::shape,
        fmt::format("a kernel that spans {} does not fit an input of {} (with padding)", span, padded), {},
        "Pad more, or take a smaller kernel or dilation");
  return (padded - span) / stride + 1;
}

ConvProblem::ConvProblem(const Shape& x_shape, const Shape& w_shape, const Attrs& attrs)
    : x(x_shape),
      w(w_shape),
      stride(pair_of(attrs, "stride")),
      padding(pair_of(attrs, "padding")),
      dilation(pair_of(attrs, "dilation")),
      groups(attrs.integer("groups")) {
  if (x.rank() != 4 || w.rank() != 4)
    throw Error(ErrorCode::shape, fmt::format("an input {} and a weight {}", to_string(x), to_string(w)), {},
                "They are [N, C, H, W] and [O, C/groups, KH, KW]");
  if (groups < 1 || x[1] % groups != 0 || w[0] % groups != 0)
    throw Error(ErrorCode::value, fmt::format("{} groups for {} channels in and {} out", groups, x[1], w[0]),
                {}, "The groups must divide both");
  if (w[1] != x[1] / groups)
    throw Error(ErrorCode::shape,
                fmt::format("the input has {} channels{}, the weight takes {}", x[1] / groups,
                            groups == 1 ? "" : " a group", w[1]),
                {}, fmt::format("The weight is [O, {}, KH, KW]", x[1] / groups));
  y = {x[0], w[0], windows_along(x[2], w[2], stride.height, padding.height, dilation.height),
       windows_along(x[3], w[3], stride.width, padding.width, dilation.width)};
}

int64_t ConvProblem::multiplications() const { return y.size() * w[1] * w[2] * w[3]; }

void ConvProblem::for_each_product(const std::function<void(int64_t, int64_t, int64_t)>& f) const {
  const int64_t outputs = w[0] / groups;
  for (int64_t n = 0; n < y[0]; ++n)
    for (int64_t o = 0; o < y[1]; ++o)
      for (int64_t i = 0; i < y[2]; ++i)
        for (int64_t j = 0; j < y[3]; ++j)
          for (int64_t c = 0; c < w[1]; ++c)
            for (int64_t kh = 0; kh < w[2]; ++kh)
              for (int64_t kw = 0; kw < w[3]; ++kw) {
                const int64_t row = i * stride.height - padding.height + kh * dilation.height;
                const int64_t column = j * stride.width - padding.width + kw * dilation.width;
                if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
                const int64_t channel = o / outputs * w[1] + c;
                f(((n * x[1] + channel) * x[2] + row) * x[3] + column,
                  ((o * w[1] + c) * w[2] + kh) * w[3] + kw, ((n * y[1] + o) * y[2] + i) * y[3] + j);
              }
}

Tensor windows_of(const Tensor& x, Pair kernel, Pair stride, Pair padding, Pair dilation, double fill) {
  const Ints widths = {0, 0, padding.height, padding.width};
  const Tensor rows = unfold(pad(x, widths, widths, fill), 2, kernel.height, stride.height, dilation.height);
  return unfold(rows, 4, kernel.width, stride.width, dilation.width);
}

Tensor sum_of_windows(const Tensor& windows, const Shape& shape, Pair stride, Pair padding, Pair dilation) {
  const Tensor columns = fold(windows, 4, shape[3] + 2 * padding.width, stride.width, dilation.width);
  const Tensor padded = fold(columns, 2, shape[2] + 2 * padding.height, stride.height, dilation.height);
  return slice(padded, {Slice(), Slice(), Slice(padding.height, padding.height + shape[2]),
                        Slice(padding.width, padding.width + shape[3])});
}

}  // namespace athanor
