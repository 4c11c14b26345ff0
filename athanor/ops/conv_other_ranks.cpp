// Convolutions of signals and volumes, computed by conv2d.
#include <fmt/format.h>

#include "athanor/ops/conv.h"
#include "athanor/ops/conv_problem.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/movement.h"

namespace athanor {
namespace {

// Throws unless x is [N, C, `axes`] and the weight and the bias fit x.
void check_fits(const Tensor& x, const Tensor& w, const Tensor& bias, const char* axes, int rank,
                int64_t groups) {
  if (x.rank() != rank || w.rank() != rank)
    throw Error(ErrorCode::shape,
                fmt::format("x is {} and the weight {}", to_string(x.shape()), to_string(w.shape())), {},
                fmt::format("They are [N, C, {}] and [O, C/groups, kernel...], each of {} axes", axes, rank));
  if (groups < 1 || x.size(1) % groups != 0 || w.size(0) % groups != 0)
    throw Error(ErrorCode::value,
                fmt::format("{} groups for {} channels in and {} out", groups, x.size(1), w.size(0)), {},
                "The groups must divide both");
  if (w.size(1) != x.size(1) / groups)
    throw Error(ErrorCode::shape,
                fmt::format("the input has {} channels{}, the weight takes {}", x.size(1) / groups,
                            groups == 1 ? "" : " a group", w.size(1)),
                {}, fmt::format("The weight is [O, {}, kernel...]", x.size(1) / groups));
  if (bias.defined() && bias.shape() != Shape{w.size(0)})
    throw Error(ErrorCode::shape,
                fmt::format("the bias is {}, not [{}]", to_string(bias.shape()), w.size(0)));
}

}  // namespace

Tensor conv1d(Operand x, Operand weight, const Tensor& bias, const Conv1dOptions& o) {
  return in_call(
      "conv1d",
      [&] {
        const Tensor value = as_tensor(x), w = as_tensor(weight);
        check_fits(value, w, bias, "L", 3, o.groups);
        windows_along(value.size(2), w.size(2), o.stride, o.padding, o.dilation);
        const Tensor y = conv2d(unsqueeze(value, 2), unsqueeze(w, 2), bias,
                                {.stride = {1, o.stride},
                                 .padding = {0, o.padding},
                                 .dilation = {1, o.dilation},
                                 .groups = o.groups});
        return squeeze(y, {2});
      },
      x, weight);
}

Tensor conv3d(Operand x, Operand weight, const Tensor& bias, const Conv3dOptions& o) {
  return in_call(
      "conv3d",
      [&] {
        const Tensor value = as_tensor(x), w = as_tensor(weight);
        check_fits(value, w, bias, "D, H, W", 5, o.groups);
        const int64_t n = value.size(0), c = value.size(1), kernel = w.size(2);
        const int64_t depth =
            windows_along(value.size(2), kernel, o.stride.depth, o.padding.depth, o.dilation.depth);
        const Pair stride{o.stride.height, o.stride.width}, padding{o.padding.height, o.padding.width},
            dilation{o.dilation.height, o.dilation.width};
        windows_along(value.size(3), w.size(3), stride.height, padding.height, dilation.height);
        windows_along(value.size(4), w.size(4), stride.width, padding.width, dilation.width);
        const Ints border{0, 0, o.padding.depth, 0, 0};
        const Tensor slices = unfold(pad(value, border, border), 2, kernel, o.stride.depth, o.dilation.depth);
        // [N, C, OD, KD, H, W] as N OD images of C KD channels. The channels of a group stay together.
        const Tensor pictures = reshape(permute(slices, {0, 2, 1, 3, 4, 5}),
                                        {n * depth, c * kernel, value.size(3), value.size(4)});
        const Tensor filters = reshape(w, {w.size(0), w.size(1) * kernel, w.size(3), w.size(4)});
        const Tensor y = conv2d(pictures, filters, bias, {stride, padding, dilation, o.groups});
        return permute(reshape(y, {n, depth, y.size(1), y.size(2), y.size(3)}), {0, 2, 1, 3, 4});
      },
      x, weight);
}

}  // namespace athanor
