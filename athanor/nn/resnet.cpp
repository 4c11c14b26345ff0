#include "athanor/nn/resnet.h"

#include "athanor/nn/conv.h"
#include "athanor/nn/init.h"
#include "athanor/nn/linear.h"
#include "athanor/nn/norm.h"
#include "athanor/nn/sequential.h"
#include "athanor/ops/activations.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/pool.h"
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

Sequential shortcut(int64_t inputs, int64_t outputs, int64_t stride) {
  return Sequential(convolution(inputs, outputs, 1, stride), BatchNorm2d(outputs));
}

}  // namespace

BasicBlock::BasicBlock(int64_t inputs, int64_t outputs, int64_t stride)
    : conv1_(add("conv1", convolution(inputs, outputs, 3, stride))),
      bn1_(add("bn1", BatchNorm2d(outputs))),
      conv2_(add("conv2", convolution(outputs, outputs, 3, 1))),
      bn2_(add("bn2", BatchNorm2d(outputs))) {
  if (stride != 1 || inputs != outputs) downsample_ = &add("downsample", shortcut(inputs, outputs, stride));
}

Tensor BasicBlock::forward(const Tensor& x) {
  const Tensor y = bn2_(conv2_(relu(bn1_(conv1_(x)))));
  return relu(y + (downsample_ ? (*downsample_)(x) : x));
}

Bottleneck::Bottleneck(int64_t inputs, int64_t width, int64_t stride)
    : conv1_(add("conv1", convolution(inputs, width, 1, 1))),
      bn1_(add("bn1", BatchNorm2d(width))),
      conv2_(add("conv2", convolution(width, width, 3, stride))),
      bn2_(add("bn2", BatchNorm2d(width))),
      conv3_(add("conv3", convolution(width, 4 * width, 1, 1))),
      bn3_(add("bn3", BatchNorm2d(4 * width))) {
  if (stride != 1 || inputs != 4 * width)
    downsample_ = &add("downsample", shortcut(inputs, 4 * width, stride));
}

Tensor Bottleneck::forward(const Tensor& x) {
  const Tensor y = relu(bn2_(conv2_(relu(bn1_(conv1_(x))))));
  return relu(bn3_(conv3_(y)) + (downsample_ ? (*downsample_)(x) : x));
}

ResNet::ResNet(int64_t channels, int64_t classes, const ResNetOptions& options)
    : small_stem_(options.small_stem),
      conv1_(add("conv1",
                 options.small_stem ? convolution(channels, 64, 3, 1) : convolution(channels, 64, 7, 2))),
      bn1_(add("bn1", BatchNorm2d(64))) {
  int64_t inputs = 64, width = 64;
  for (size_t stage = 0; stage < options.blocks.size(); ++stage) {
    Sequential layer;
    for (int block = 0; block < options.blocks[stage]; ++block) {
      const int64_t stride = block == 0 && stage > 0 ? 2 : 1;
      if (options.bottleneck)
        layer.append(Bottleneck(inputs, width, stride));
      else
        layer.append(BasicBlock(inputs, width, stride));
      inputs = options.bottleneck ? 4 * width : width;
    }
    stages_.push_back(&add("layer" + std::to_string(stage + 1), std::move(layer)));
    width *= 2;
  }
  fc_ = &add("fc", Linear(inputs, classes));
}

Tensor ResNet::forward(const Tensor& x) {
  Tensor y = relu(bn1_(conv1_(x)));
  if (!small_stem_) y = max_pool2d(y, 3, {.stride = 2, .padding = 1});
  for (Module* stage : stages_) y = (*stage)(y);
  return (*fc_)(mean(y, {2, 3}));
}

}  // namespace athanor::nn
