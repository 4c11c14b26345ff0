#include "athanor/nn/init.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/ops/creation.h"
#include "athanor/ops/elementwise.h"

namespace athanor::nn::init {
namespace {

double normal_cdf(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

Tensor polynomial(const Tensor& x, std::initializer_list<double> coefficients) {
  Tensor y;
  for (const double c : coefficients) y = y.defined() ? y * x + c : full_like(x, c);
  return y;
}

// Giles: Approximating the erfinv function (GPU Computing Gems, 2011), accurate to f32.
Tensor erf_inverse(const Tensor& x) {
  const Tensor w = -log((1 - x) * (1 + x));
  const Tensor central =
      polynomial(w - 2.5, {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                           -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
  const Tensor tail =
      polynomial(sqrt(w) - 3, {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                               -0.0076224613, 0.00943887047, 1.00167406, 2.83297682});
  return x * where(less(w, 5), central, tail);
}

double kaiming_stddev(const Shape& shape, const Kaiming& options) {
  const Fans fans = fans_of(shape);
  return gain(options.nonlinearity, options.slope) /
         std::sqrt(static_cast<double>(options.fan == Fan::in ? fans.in : fans.out));
}

double xavier_stddev(const Shape& shape, double factor) {
  const Fans fans = fans_of(shape);
  return factor * std::sqrt(2.0 / static_cast<double>(fans.in + fans.out));
}

// A uniform distribution in ± bound has the standard deviation bound / sqrt(3).
Tensor uniform_of_stddev(const Shape& shape, double stddev, Generator& generator) {
  const double bound = std::sqrt(3.0) * stddev;
  return uniform(shape, -bound, bound, generator);
}

}  // namespace

Fans fans_of(const Shape& shape) {
  if (shape.rank() < 2)
    throw Error(ErrorCode::shape, fmt::format("a weight of shape {} has no fans", to_string(shape)), {},
                "It needs at least two axes, [outputs, inputs, ...]");
  int64_t field = 1;
  for (int axis = 2; axis < shape.rank(); ++axis) field *= shape[axis];
  return {shape[1] * field, shape[0] * field};
}

double gain(std::string_view nonlinearity, double slope) {
  for (const char* linear : {"linear", "conv2d", "sigmoid"})
    if (nonlinearity == linear) return 1;
  if (nonlinearity == "tanh") return 5.0 / 3;
  if (nonlinearity == "relu") return std::sqrt(2.0);
  if (nonlinearity == "leaky_relu") return std::sqrt(2 / (1 + slope * slope));
  if (nonlinearity == "selu") return 0.75;
  throw Error(
      ErrorCode::name, fmt::format("unknown nonlinearity '{}'", nonlinearity), {},
      nearest_hint(nonlinearity, {"linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"}));
}

Tensor zeros(const Shape& shape) { return athanor::zeros(shape); }
Tensor ones(const Shape& shape) { return athanor::ones(shape); }
Tensor constant(const Shape& shape, double value) { return full(shape, value); }

Tensor uniform(const Shape& shape, double low, double high, Generator& generator) {
  return athanor::uniform(shape, low, high, DType::f32, generator);
}

Tensor normal(const Shape& shape, double mean, double stddev, Generator& generator) {
  return athanor::normal(shape, mean, stddev, DType::f32, generator);
}

Tensor trunc_normal(const Shape& shape, double mean, double stddev, double low, double high,
                    Generator& generator) {
  if (!(low < high) || !(stddev > 0))
    throw Error(ErrorCode::value,
                fmt::format("trunc_normal with stddev {} within [{}, {}]", stddev, low, high), {},
                "It needs stddev > 0 and low < high");
  const double from = normal_cdf((low - mean) / stddev), to = normal_cdf((high - mean) / stddev);
  const Tensor u = uniform(shape, 2 * from - 1, 2 * to - 1, generator);
  return clamp(erf_inverse(u) * (stddev * std::sqrt(2.0)) + mean, low, high);
}

Tensor xavier_uniform(const Shape& shape, double factor, Generator& generator) {
  return uniform_of_stddev(shape, xavier_stddev(shape, factor), generator);
}

Tensor xavier_normal(const Shape& shape, double factor, Generator& generator) {
  return normal(shape, 0, xavier_stddev(shape, factor), generator);
}

Tensor kaiming_uniform(const Shape& shape, const Kaiming& options, Generator& generator) {
  return uniform_of_stddev(shape, kaiming_stddev(shape, options), generator);
}

Tensor kaiming_normal(const Shape& shape, const Kaiming& options, Generator& generator) {
  return normal(shape, 0, kaiming_stddev(shape, options), generator);
}

Tensor layer_weight(const Shape& shape) {
  return kaiming_uniform(shape, {.nonlinearity = "leaky_relu", .slope = std::sqrt(5.0)});
}

Tensor layer_bias(const Shape& shape, const Shape& weight_shape) {
  const double bound = 1 / std::sqrt(static_cast<double>(fans_of(weight_shape).in));
  return init::uniform(shape, -bound, bound);
}

}  // namespace athanor::nn::init
