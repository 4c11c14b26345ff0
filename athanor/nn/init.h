// Initial values of parameters. Each draws from a generator and is reproducible from its seed on every
// device.
//
//     fc.weight.assign(nn::init::xavier_uniform(fc.weight.shape()));
//
// A weight's fans: of [O, I, ...] with k elements in "...": fan_in = I k, fan_out = O k.
#pragma once
#include <cstdint>
#include <string_view>

#include "athanor/ops/random.h"

namespace athanor::nn::init {

struct Fans {
  int64_t in, out;
};
/// Throws Error(shape) for a weight with less than two axes.
Fans fans_of(const Shape& shape);

/// A factor for initial weights, because a nonlinearity shrinks the standard deviation: "linear", "conv2d",
/// "sigmoid": 1; "tanh": 5/3; "relu": sqrt(2); "leaky_relu": sqrt(2 / (1 + slope^2)); "selu": 3/4. Throws
/// Error(name) for other names.
double gain(std::string_view nonlinearity, double slope = 0.01);

Tensor zeros(const Shape& shape);
Tensor ones(const Shape& shape);
Tensor constant(const Shape& shape, double value);
Tensor uniform(const Shape& shape, double low = 0, double high = 1,
               Generator& generator = default_generator());
Tensor normal(const Shape& shape, double mean = 0, double stddev = 1,
              Generator& generator = default_generator());
/// Normally distributed and truncated to [low, high]: the inverse of the distribution function, applied to
/// uniform numbers.
Tensor trunc_normal(const Shape& shape, double mean = 0, double stddev = 1, double low = -2, double high = 2,
                    Generator& generator = default_generator());

/// Variance gain^2 * 2 / (fan_in + fan_out). Glorot, Bengio (2010).
Tensor xavier_uniform(const Shape& shape, double gain = 1, Generator& generator = default_generator());
Tensor xavier_normal(const Shape& shape, double gain = 1, Generator& generator = default_generator());

enum class Fan { in, out };
struct Kaiming {
  std::string_view nonlinearity = "leaky_relu";
  double slope = 0;   // of leaky_relu
  Fan fan = Fan::in;  // in keeps the size of activations, out keeps that of gradients
};
/// Variance gain(nonlinearity)^2 / fan. He, Zhang, Ren, Sun (2015).
Tensor kaiming_uniform(const Shape& shape, const Kaiming& options = {},
                       Generator& generator = default_generator());
Tensor kaiming_normal(const Shape& shape, const Kaiming& options = {},
                      Generator& generator = default_generator());

/// PyTorch's defaults of linear and convolutional layers: weights and biases uniform in ± 1 / sqrt(fan_in).
Tensor layer_weight(const Shape& shape);
Tensor layer_bias(const Shape& shape, const Shape& weight_shape);

}  // namespace athanor::nn::init
