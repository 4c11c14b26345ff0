// U-Net: a class for each pixel. Ronneberger, Fischer, Brox: U-Net (2015).
#pragma once
#include <array>

#include "athanor/nn/module.h"

namespace athanor::nn {

/// The U-Net of Buda, Saha, Mazurowski (2019) as on PyTorch Hub (mateuszbuda/brain-segmentation-pytorch),
/// with its names of parameters: four stages down and four up, each of two 3x3 convolutions with batch norm
/// and ReLU, of `features` channels and twice as many at each stage. Max-pools lead down, transposed
/// convolutions lead up. Each stage on the way up also gets the result of the stage on the way down.
///
/// x [N, C, H, W] -> logits [N, classes, H, W]. If 16 does not divide H and W, x is padded with zeros.
class UNet : public Module {
 public:
  UNet(int64_t channels, int64_t classes, int64_t features = 32);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "UNet"; }

 private:
  static constexpr size_t stages = 4;
  std::array<Module*, stages> encoders_{}, upconvs_{}, decoders_{};
  Module *bottleneck_ = nullptr, *conv_ = nullptr;
};

}  // namespace athanor::nn
