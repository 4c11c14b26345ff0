// Convolutional layers.
#pragma once
#include "athanor/nn/module.h"
#include "athanor/ops/conv.h"

namespace athanor::nn {

struct ConvOptions {
  Pair stride = 1;
  Pair padding = 0;
  Pair dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

/// x [N, C, H, W] -> [N, O, OH, OW], see athanor::conv2d. weight [O, C/groups, KH, KW], bias [O]: uniform in
/// ± 1 / sqrt(C/groups KH KW).
class Conv2d : public Module {
 public:
  /// Throws Error(value) when groups does not divide the channels.
  Conv2d(int64_t inputs, int64_t outputs, Pair kernel, const ConvOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Parameter weight, bias;

 private:
  ConvOptions options_;
};

struct ConvTransposeOptions {
  Pair stride = 1;
  Pair padding = 0;
  Pair output_padding = 0;
  Pair dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

/// x [N, C, H, W] -> [N, O, OH, OW], see athanor::conv_transpose2d. weight [C, O/groups, KH, KW], bias [O].
class ConvTranspose2d : public Module {
 public:
  ConvTranspose2d(int64_t inputs, int64_t outputs, Pair kernel, const ConvTransposeOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Parameter weight, bias;

 private:
  ConvTransposeOptions options_;
};

struct Conv1dLayerOptions {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  bool bias = true;
};

/// x [N, C, L] -> [N, O, OL], see athanor::conv1d. weight [O, C/groups, K], bias [O]: as Conv2d's.
class Conv1d : public Module {
 public:
  Conv1d(int64_t inputs, int64_t outputs, int64_t kernel, const Conv1dLayerOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Parameter weight, bias;

 private:
  Conv1dLayerOptions options_;
};

struct Conv3dLayerOptions {
  Triple stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

/// x [N, C, D, H, W] -> [N, O, OD, OH, OW], see athanor::conv3d. weight [O, C/groups, KD, KH, KW], bias [O]:
/// as Conv2d's.
class Conv3d : public Module {
 public:
  Conv3d(int64_t inputs, int64_t outputs, Triple kernel, const Conv3dLayerOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Parameter weight, bias;

 private:
  Conv3dLayerOptions options_;
};

}  // namespace athanor::nn
