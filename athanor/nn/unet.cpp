#include "athanor/nn/unet.h"

#include <fmt/format.h>

#include "athanor/nn/conv.h"
#include "athanor/nn/function.h"
#include "athanor/nn/init.h"
#include "athanor/nn/norm.h"
#include "athanor/nn/sequential.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/pool.h"

namespace athanor::nn {
namespace {

Conv2d unet_convolution(int64_t inputs, int64_t outputs) {
  Conv2d conv(inputs, outputs, 3, {.padding = 1, .bias = false});
  conv.weight.assign(init::kaiming_normal(conv.weight.shape(), {.nonlinearity = "relu"}));
  return conv;
}

/// "enc1conv1", "enc1norm1", "enc1relu1", "enc1conv2", ...
Sequential unet_stage(const std::string& name, int64_t inputs, int64_t outputs) {
  Sequential stage;
  for (int i = 1; i <= 2; ++i) {
    stage.append(fmt::format("{}conv{}", name, i), unet_convolution(i == 1 ? inputs : outputs, outputs));
    stage.append(fmt::format("{}norm{}", name, i), BatchNorm2d(outputs));
    stage.append(fmt::format("{}relu{}", name, i), ReLU());
  }
  return stage;
}

}  // namespace

UNet::UNet(int64_t channels, int64_t classes, int64_t features) {
  int64_t inputs = channels, width = features;
  for (size_t i = 0; i < stages; ++i) {
    encoders_[i] =
        &add(fmt::format("encoder{}", i + 1), unet_stage(fmt::format("enc{}", i + 1), inputs, width));
    inputs = width, width *= 2;
  }
  bottleneck_ = &add("bottleneck", unet_stage("bottleneck", inputs, width));
  for (size_t i = stages; i-- > 0;) {
    width /= 2;
    upconvs_[i] = &add(fmt::format("upconv{}", i + 1), ConvTranspose2d(2 * width, width, 2, {.stride = 2}));
    decoders_[i] =
        &add(fmt::format("decoder{}", i + 1), unet_stage(fmt::format("dec{}", i + 1), 2 * width, width));
  }
  conv_ = &add("conv", Conv2d(features, classes, 1));
}

Tensor UNet::forward(const Tensor& x) {
  constexpr int64_t smallest = 16;  // pixels that become one at the bottom
  const int64_t height = x.size(2), width = x.size(3);
  const int64_t below = (smallest - height % smallest) % smallest,
                beside = (smallest - width % smallest) % smallest;
  const bool whole = below == 0 && beside == 0;
  Tensor y = whole ? x : pad(x, {0, 0, 0, 0}, {0, 0, below, beside});
  std::array<Tensor, stages> down;
  for (size_t i = 0; i < stages; ++i) {
    down[i] = (*encoders_[i])(y);
    y = max_pool2d(down[i], 2);
  }
  y = (*bottleneck_)(y);
  for (size_t i = stages; i-- > 0;) y = (*decoders_[i])(concat({(*upconvs_[i])(y), down[i]}, 1));
  y = (*conv_)(y);
  return whole ? y : slice(slice(y, 2, 0, height), 3, 0, width);
}

}  // namespace athanor::nn
