#include "athanor/nn/conv.h"

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/nn/init.h"

namespace athanor::nn {
namespace {

std::string text(const Pair& p) {
  return p.height == p.width ? fmt::format("{}", p.height) : fmt::format("{}x{}", p.height, p.width);
}

// The options that differ from the defaults, for describe().
std::string text(const ConvOptions& o) {
  std::string result;
  const auto say = [&](const char* name, const Pair& value, int64_t usual) {
    if (value.height != usual || value.width != usual) result += fmt::format(", {} {}", name, text(value));
  };
  say("stride", o.stride, 1);
  say("padding", o.padding, 0);
  say("dilation", o.dilation, 1);
  say("groups", o.groups, 1);
  return result + (o.bias ? "" : ", no bias");
}

void check_groups(const char* layer, int64_t inputs, int64_t outputs, int64_t groups) {
  if (groups < 1 || inputs < 1 || outputs < 1 || inputs % groups != 0 || outputs % groups != 0)
    throw Error(ErrorCode::value, fmt::format("{}({} -> {}) with {} groups", layer, inputs, outputs, groups),
                {}, "Channels must be positive and divide by the groups");
}

std::string text(const Triple& t) {
  return t.depth == t.height && t.height == t.width ? fmt::format("{}", t.depth)
                                                    : fmt::format("{}x{}x{}", t.depth, t.height, t.width);
}

// ", stride 2" unless it is the default.
std::string unless(int64_t usual, const char* name, const Triple& value) {
  const bool same = value.depth == usual && value.height == usual && value.width == usual;
  return same ? "" : fmt::format(", {} {}", name, text(value));
}

Tensor value_or_none(const Parameter& p) { return p.defined() ? p.value() : Tensor(); }

}  // namespace

Conv2d::Conv2d(int64_t inputs, int64_t outputs, Pair kernel, const ConvOptions& options) : options_(options) {
  check_groups("Conv2d", inputs, outputs, options.groups);
  const Shape shape{outputs, inputs / options.groups, kernel.height, kernel.width};
  weight = add_parameter("weight", init::layer_weight(shape));
  if (options.bias) bias = add_parameter("bias", init::layer_bias({outputs}, shape));
}

Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(x, weight, bias.defined() ? bias.value() : Tensor(),
                {.stride = options_.stride,
                 .padding = options_.padding,
                 .dilation = options_.dilation,
                 .groups = options_.groups});
}

std::string Conv2d::describe() const {
  const Shape& w = weight.shape();
  return fmt::format("Conv2d({} -> {}, {}x{}{})", w[1] * options_.groups, w[0], w[2], w[3], text(options_));
}

ConvTranspose2d::ConvTranspose2d(int64_t inputs, int64_t outputs, Pair kernel,
                                 const ConvTransposeOptions& options)
    : options_(options) {
  check_groups("ConvTranspose2d", inputs, outputs, options.groups);
  const Shape shape{inputs, outputs / options.groups, kernel.height, kernel.width};
  weight = add_parameter("weight", init::layer_weight(shape));
  if (options.bias) bias = add_parameter("bias", init::layer_bias({outputs}, shape));
}

Tensor ConvTranspose2d::forward(const Tensor& x) {
  return conv_transpose2d(x, weight, bias.defined() ? bias.value() : Tensor(),
                          {.stride = options_.stride,
                           .padding = options_.padding,
                           .dilation = options_.dilation,
                           .groups = options_.groups,
                           .output_padding = options_.output_padding});
}

std::string ConvTranspose2d::describe() const {
  const Shape& w = weight.shape();
  const ConvOptions shared{options_.stride, options_.padding, options_.dilation, options_.groups,
                           options_.bias};
  return fmt::format("ConvTranspose2d({} -> {}, {}x{}{})", w[0], w[1] * options_.groups, w[2], w[3],
                     text(shared));
}

Conv1d::Conv1d(int64_t inputs, int64_t outputs, int64_t kernel, const Conv1dLayerOptions& options)
    : options_(options) {
  check_groups("Conv1d", inputs, outputs, options.groups);
  const Shape shape{outputs, inputs / options.groups, kernel};
  weight = add_parameter("weight", init::layer_weight(shape));
  if (options.bias) bias = add_parameter("bias", init::layer_bias({outputs}, shape));
}

Tensor Conv1d::forward(const Tensor& x) {
  const auto& o = options_;
  return conv1d(x, weight, value_or_none(bias), {o.stride, o.padding, o.dilation, o.groups});
}

std::string Conv1d::describe() const {
  const Shape& w = weight.shape();
  const auto& o = options_;
  return fmt::format("Conv1d({} -> {}, {}{}{}{}{}{})", w[1] * o.groups, w[0], w[2],
                     unless(1, "stride", o.stride), unless(0, "padding", o.padding),
                     unless(1, "dilation", o.dilation), unless(1, "groups", o.groups),
                     o.bias ? "" : ", no bias");
}

Conv3d::Conv3d(int64_t inputs, int64_t outputs, Triple kernel, const Conv3dLayerOptions& options)
    : options_(options) {
  check_groups("Conv3d", inputs, outputs, options.groups);
  const Shape shape{outputs, inputs / options.groups, kernel.depth, kernel.height, kernel.width};
  weight = add_parameter("weight", init::layer_weight(shape));
  if (options.bias) bias = add_parameter("bias", init::layer_bias({outputs}, shape));
}

Tensor Conv3d::forward(const Tensor& x) {
  const auto& o = options_;
  return conv3d(x, weight, value_or_none(bias), {o.stride, o.padding, o.dilation, o.groups});
}

std::string Conv3d::describe() const {
  const Shape& w = weight.shape();
  const auto& o = options_;
  return fmt::format("Conv3d({} -> {}, {}x{}x{}{}{}{}{}{})", w[1] * o.groups, w[0], w[2], w[3], w[4],
                     unless(1, "stride", o.stride), unless(0, "padding", o.padding),
                     unless(1, "dilation", o.dilation), unless(1, "groups", o.groups),
                     o.bias ? "" : ", no bias");
}

}  // namespace athanor::nn
