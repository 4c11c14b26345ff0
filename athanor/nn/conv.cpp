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

}  // namespace athanor::nn
