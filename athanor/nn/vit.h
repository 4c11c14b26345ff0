// Vision Transformer: an image as a sentence of patches.
//
// Dosovitskiy and others: An Image is Worth 16x16 Words (2021); the tiny one is from Touvron and others, DeiT
// (2021).
#pragma once
#include <vector>

#include "athanor/nn/conv.h"
#include "athanor/nn/linear.h"

namespace athanor::nn {

struct ViTOptions {
  int64_t patch = 16, layers = 12, dimensions = 192, heads = 3;
};

/// Images [N, C, H, W] of one size -> logits [N, classes]. Pixels at the right and the bottom that do not
/// fill a patch are ignored.
///
/// Parameters have torchvision's names: class_token, conv_proj, encoder.pos_embedding,
/// encoder.layers.encoder_layer_0.self_attention.in_proj_weight, encoder.ln, heads.head. The default options
/// are timm's vit_tiny_patch16_224, with 5,717,416 parameters for 224 x 224 pixels and 1000 classes. The
/// head's initial weights are zero, as in torchvision.
class ViT : public Module {
 public:
  /// Throws Error(value) when heads does not divide dimensions, and Error(shape) for images that are
  /// smaller than a patch.
  ViT(const Shape& input, int64_t classes, const ViTOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  ViTOptions options_;
  Shape input_;
  Parameter class_token_;
  Conv2d& patches_;
  Module* encoder_ = nullptr;
  Module* head_ = nullptr;
};

}  // namespace athanor::nn
