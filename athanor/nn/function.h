// Layers without parameters.
#pragma once
#include <functional>

#include "athanor/nn/module.h"
#include "athanor/ops/interpolate.h"
#include "athanor/ops/pool.h"

namespace athanor::nn {

/// Any function as a module: nn::Function("Square", [](const Tensor& x) { return square(x); })
class Function : public Module {
 public:
  Function(std::string name, std::function<Tensor(const Tensor&)> function)
      : name_(std::move(name)), function_(std::move(function)) {}
  Tensor forward(const Tensor& x) override { return function_(x); }
  std::string describe() const override { return name_; }

 private:
  std::string name_;
  std::function<Tensor(const Tensor&)> function_;
};

struct Identity : Function {
  Identity();
};
/// Axes [start, end] become one.
struct Flatten : Function {
  explicit Flatten(int start = 1, int end = -1);
};

// Activations: see athanor/ops/activations.h.
struct ReLU : Function {
  ReLU();
};
struct LeakyReLU : Function {
  explicit LeakyReLU(double slope = 0.01);
};
struct ELU : Function {
  explicit ELU(double alpha = 1);
};
struct GELU : Function {
  explicit GELU(bool by_tanh = false);
};
struct SiLU : Function {
  SiLU();
};
struct Sigmoid : Function {
  Sigmoid();
};
struct Tanh : Function {
  Tanh();
};
struct Softplus : Function {
  Softplus();
};
struct HardSigmoid : Function {
  HardSigmoid();
};
struct HardSwish : Function {
  HardSwish();
};
struct Softmax : Function {
  explicit Softmax(int axis = -1);
};
struct LogSoftmax : Function {
  explicit LogSoftmax(int axis = -1);
};

// Pooling of [N, C, H, W]: see athanor/ops/pool.h.
struct MaxPool2d : Function {
  explicit MaxPool2d(Pair kernel, const PoolOptions& options = {});
};
struct AvgPool2d : Function {
  explicit AvgPool2d(Pair kernel, const PoolOptions& options = {});
};
struct AdaptiveAvgPool2d : Function {
  explicit AdaptiveAvgPool2d(Pair output);
};
struct AdaptiveMaxPool2d : Function {
  explicit AdaptiveMaxPool2d(Pair output);
};

/// [N, C, H, W] to [N, C, factor.height H, factor.width W]: see athanor/ops/interpolate.h.
struct Upsample : Function {
  explicit Upsample(Pair factor, const InterpolateOptions& options = {});
};

/// In training, sets each element to zero with a probability and scales up the others to keep the mean. In
/// evaluation, returns x.
class Dropout : public Module {
 public:
  /// Throws Error(value) unless 0 <= probability < 1.
  explicit Dropout(double probability = 0.5);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  double probability_;
};

}  // namespace athanor::nn
