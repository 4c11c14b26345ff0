// Residual networks. He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition (2016).
#pragma once
#include <vector>

#include "athanor/nn/module.h"

namespace athanor::nn {

/// Two 3x3 convolutions with batch norm beside a shortcut: relu(x' + bn2(conv2(relu(bn1(conv1(x)))))), where
/// x' is x, or a 1x1 convolution of it ("downsample") when the shape changes.
class BasicBlock : public Module {
 public:
  BasicBlock(int64_t inputs, int64_t outputs, int64_t stride = 1);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "BasicBlock"; }

 private:
  Module &conv1_, &bn1_, &conv2_, &bn2_;
  Module* downsample_ = nullptr;
};

/// Like BasicBlock, with three convolutions: 1x1 to `width` channels, 3x3 with the stride, 1x1 to 4 width.
class Bottleneck : public Module {
 public:
  Bottleneck(int64_t inputs, int64_t width, int64_t stride = 1);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "Bottleneck"; }

 private:
  Module &conv1_, &bn1_, &conv2_, &bn2_, &conv3_, &bn3_;
  Module* downsample_ = nullptr;
};

struct ResNetOptions {
  std::vector<int> blocks = {2, 2, 2, 2};  // of each stage
  bool bottleneck = false;                 // Bottleneck instead of BasicBlock
  /// Whether the network begins with a 3x3 convolution of stride 1, for small images. Otherwise it begins
  /// with a 7x7 convolution of stride 2 and a 3x3 max-pool of stride 2, as in the paper.
  bool small_stem = true;
};

/// Four stages of 64, 128, 256, 512 channels (times 4 with bottlenecks). Every stage except the first halves
/// the image. Parameters have torchvision's names.
class ResNet : public Module {
 public:
  ResNet(int64_t channels, int64_t classes, const ResNetOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "ResNet"; }

 private:
  bool small_stem_;
  Module &conv1_, &bn1_;
  std::vector<Module*> stages_;
  Module* fc_ = nullptr;
};

}  // namespace athanor::nn
