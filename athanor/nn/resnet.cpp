#include "athanor/nn/resnet.h"

#include "athanor/nn/conv.h"
#include "athanor/nn/init.h"
#include "athanor/nn/linear.h"
#include "athanor/nn/norm.h"
#include "athanor/nn/sequential.h"
#include "athanor/ops/activations.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/reduction.h"

namespace athanor::nn {
namespace {

// A convolution before a batch norm: without a bias, and initialised to keep the size of gradients.
Conv2d convolution(int64_t inputs, int64_t outputs, int kernel, int64_t stride) {
  Conv2d conv(inputs, outputs, kernel, {.stride = stride, .padding = kernel / 2, .bias = false});
  conv.weight.assign(
      init::kaiming_normal(conv.weight.shape(), {.nonlinearity = "relu", .fan = init::Fan::out}));
  return conv;
}

}  // namespace

BasicBlock::BasicBlock(int64_t inputs, int64_t outputs, int64_t stride)
    : conv1_(add("conv1", convolution(inputs, outputs, 3, stride))),
      bn1_(add("bn1", BatchNorm2d(outputs))),
      conv2_(add("conv2", convolution(outputs, outputs, 3, 1))),
      bn2_(add("bn2", BatchNorm2d(outputs))) {
  if (stride != 1 || inputs != outputs)
    downsample_ =
        &add("downsample", Sequential(convolution(inputs, outputs, 1, stride), BatchNorm2d(outputs)));
}

Tensor BasicBlock::forward(const Tensor& x) {
  const Tensor y = bn2_(conv2_(relu(bn1_(conv1_(x)))));
  return relu(y + (downsample_ ? (*downsample_)(x) : x));
}

ResNet::ResNet(int64_t channels, int64_t classes, const std::vector<int>& blocks)
    : conv1_(add("conv1", convolution(channels, 64, 3, 1))), bn1_(add("bn1", BatchNorm2d(64))) {
  int64_t inputs = 64, outputs = 64;
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    Sequential layer;
    for (int block = 0; block < blocks[stage]; ++block) {
      layer.append(BasicBlock(inputs, outputs, block == 0 && stage > 0 ? 2 : 1));
      inputs = outputs;
    }
    stages_.push_back(&add("layer" + std::to_string(stage + 1), std::move(layer)));
    outputs *= 2;
  }
  fc_ = &add("fc", Linear(inputs, classes));
}

Tensor ResNet::forward(const Tensor& x) {
  Tensor y = relu(bn1_(conv1_(x)));
  for (Module* stage : stages_) y = (*stage)(y);
  return (*fc_)(mean(y, {2, 3}));
}

}  // namespace athanor::nn
