// Residual networks. He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition (2016).
#pragma once
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

/// Stages of `blocks[i]` basic blocks with 64, 128, 256, 512 channels. Every stage except the first halves
/// the image.
class ResNet : public Module {
 public:
  ResNet(int64_t channels, int64_t classes, const std::vector<int>& blocks = {2, 2, 2, 2});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "ResNet"; }

 private:
  Module &conv1_, &bn1_;
  std::vector<Module*> stages_;
  Module* fc_ = nullptr;
};

}  // namespace athanor::nn
