// Normalisation layers.
#pragma once
#include <optional>

#include "athanor/nn/module.h"

namespace athanor::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  /// The weight of a batch in the running statistics; none: all batches have equal weight.
  std::optional<double> momentum = 0.1;
  bool affine = true;  // with weight and bias
};

/// Normalises each channel of x [N, C, ...] to mean 0 and variance 1, multiplies by weight [C] (ones) and
/// adds bias [C] (zeros).
///
/// Training uses the batch's own statistics and updates the running ones: running = (1 - momentum) running +
/// momentum batch, with the variance at correction 1. Evaluation uses the running ones.
class BatchNorm : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Parameter weight, bias;                                 // undefined unless affine
  Buffer running_mean, running_var, num_batches_tracked;  // [C], [C], i64

 protected:
  BatchNorm(const char* name, int rank, int64_t channels, const BatchNormOptions& options);

 private:
  void gather(const Tensor& x);

  const char* name_;
  int rank_;  // the rank of x; 2 also accepts 3
  BatchNormOptions options_;
  int64_t channels_;
};

/// BatchNorm of [N, C] or [N, C, L].
class BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(int64_t channels, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm1d", 2, channels, options) {}
};
/// BatchNorm of [N, C, H, W].
class BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(int64_t channels, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm2d", 4, channels, options) {}
};

/// Normalises over the last axes, which have extents `shape`; weight (ones) and bias (zeros) have that shape.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& shape, double eps = 1e-5, bool affine = true);
  explicit LayerNorm(int64_t features) : LayerNorm(Shape{features}) {}
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Parameter weight, bias;

 private:
  Shape shape_;
  double eps_;
};

/// Divides each row of x [..., features] by its root of the mean square, and multiplies by weight [features]
/// (ones); see athanor::rms_norm.
class RMSNorm : public Module {
 public:
  explicit RMSNorm(int64_t features, double eps = 1e-6, bool affine = true);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Parameter weight;

 private:
  int64_t features_;
  double eps_;
};

/// Normalises each of `groups` groups of channels of x [N, C, ...]; weight [C] (ones), bias [C] (zeros).
class GroupNorm : public Module {
 public:
  /// Throws Error(value) when groups does not divide channels.
  GroupNorm(int64_t groups, int64_t channels, double eps = 1e-5, bool affine = true);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Parameter weight, bias;

 private:
  int64_t groups_, channels_;
  double eps_;
};

}  // namespace athanor::nn
