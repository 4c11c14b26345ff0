#include "athanor/nn/function.h"

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/ops/activations.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/loss.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/random.h"

namespace athanor::nn {
namespace {

std::string text(const char* name, const Pair& kernel, const PoolOptions& options = {}) {
  std::string result = fmt::format("{}({}x{}", name, kernel.height, kernel.width);
  if (options.stride) result += fmt::format(", stride {}x{}", options.stride->height, options.stride->width);
  if (options.padding.height != 0 || options.padding.width != 0)
    result += fmt::format(", padding {}x{}", options.padding.height, options.padding.width);
  return result + ")";
}

}  // namespace

Identity::Identity() : Function("Identity", [](const Tensor& x) { return x; }) {}
Flatten::Flatten(int start, int end)
    : Function("Flatten", [start, end](const Tensor& x) { return flatten(x, start, end); }) {}

ReLU::ReLU() : Function("ReLU", [](const Tensor& x) { return relu(x); }) {}
LeakyReLU::LeakyReLU(double slope)
    : Function(fmt::format("LeakyReLU({})", slope),
               [slope](const Tensor& x) { return leaky_relu(x, slope); }) {}
ELU::ELU(double alpha) : Function("ELU", [alpha](const Tensor& x) { return elu(x, alpha); }) {}
GELU::GELU(bool by_tanh)
    : Function(by_tanh ? "GELU(tanh)" : "GELU",
               [by_tanh](const Tensor& x) { return by_tanh ? gelu_tanh(x) : gelu(x); }) {}
SiLU::SiLU() : Function("SiLU", [](const Tensor& x) { return silu(x); }) {}
Sigmoid::Sigmoid() : Function("Sigmoid", [](const Tensor& x) { return sigmoid(x); }) {}
Tanh::Tanh() : Function("Tanh", [](const Tensor& x) { return tanh(x); }) {}
Softplus::Softplus() : Function("Softplus", [](const Tensor& x) { return softplus(x); }) {}
HardSigmoid::HardSigmoid() : Function("HardSigmoid", [](const Tensor& x) { return hard_sigmoid(x); }) {}
HardSwish::HardSwish() : Function("HardSwish", [](const Tensor& x) { return hard_swish(x); }) {}
Softmax::Softmax(int axis) : Function("Softmax", [axis](const Tensor& x) { return softmax(x, axis); }) {}
LogSoftmax::LogSoftmax(int axis)
    : Function("LogSoftmax", [axis](const Tensor& x) { return log_softmax(x, axis); }) {}

MaxPool2d::MaxPool2d(Pair kernel, const PoolOptions& options)
    : Function(text("MaxPool2d", kernel, options),
               [kernel, options](const Tensor& x) { return max_pool2d(x, kernel, options); }) {}
AvgPool2d::AvgPool2d(Pair kernel, const PoolOptions& options)
    : Function(text("AvgPool2d", kernel, options),
               [kernel, options](const Tensor& x) { return avg_pool2d(x, kernel, options); }) {}
AdaptiveAvgPool2d::AdaptiveAvgPool2d(Pair output)
    : Function(text("AdaptiveAvgPool2d", output),
               [output](const Tensor& x) { return adaptive_avg_pool2d(x, output); }) {}
AdaptiveMaxPool2d::AdaptiveMaxPool2d(Pair output)
    : Function(text("AdaptiveMaxPool2d", output),
               [output](const Tensor& x) { return adaptive_max_pool2d(x, output); }) {}

Upsample::Upsample(Pair factor, const InterpolateOptions& options)
    : Function(text("Upsample", factor), [factor, options](const Tensor& x) {
        if (x.rank() != 4)
          throw Error(ErrorCode::shape, fmt::format("Upsample was given {}", to_string(x.type())), {},
                      "It takes [N, C, H, W]");
        return interpolate(x, {x.size(2) * factor.height, x.size(3) * factor.width}, options);
      }) {
  if (factor.height < 1 || factor.width < 1)
    throw Error(ErrorCode::value, fmt::format("Upsample by {}x{}", factor.height, factor.width), {},
                "Factors are at least 1; interpolate() makes images smaller");
}

Dropout::Dropout(double probability) : probability_(probability) {
  if (!(probability >= 0 && probability < 1))
    throw Error(ErrorCode::value, fmt::format("Dropout with probability {}", probability), {},
                "It must be in [0, 1)");
}

Tensor Dropout::forward(const Tensor& x) { return dropout(x, probability_, training()); }

std::string Dropout::describe() const { return fmt::format("Dropout({})", probability_); }

}  // namespace athanor::nn
