// Runs the cases that ops declare: compares results with the op's reference, and gradients with finite
// differences.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "athanor/graph/op.h"
#include "athanor/ops/define.h"
#include "athanor/ops/op_case.h"
#include "athanor/ops/ops.h"

namespace athanor::testing {

inline FilledCase fill(const Op& op, size_t number, DType dtype) { return fill_case(op, number, dtype); }

/// The device that cases run on.
inline Device& test_device() {
  thread_local Device device;
  return device;
}

inline Tensor call_op(const Op& op, const std::vector<Tensor>& inputs, const Attrs& attrs) {
  if (inputs.empty()) return apply_on(test_device(), op, attrs);
  return apply(op, std::vector<Operand>(inputs.begin(), inputs.end()), attrs);
}

/// Expects `actual` to equal the op's reference for the case's inputs. Returns whether it does.
inline bool expect_reference(const FilledCase& c, const HostArray& actual) {
  const std::string wrong = mismatch(c, actual);
  if (!wrong.empty()) ADD_FAILURE() << describe(c) << ": " << wrong;
  return wrong.empty();
}

inline std::vector<Tensor> tensors_of(const FilledCase& c, bool with_grad) {
  std::vector<Tensor> result;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    result.push_back(Tensor::from(c.inputs[i], test_device()));
    if (with_grad && c.free[i]) result.back().requires_grad();
  }
  return result;
}

inline HostArray random_like(const TensorType& type, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> distribution(-1, 1);
  std::vector<double> values(static_cast<size_t>(type.shape.size()));
  for (double& value : values) value = distribution(random);
  return from_doubles(type.dtype, type.shape, values);
}

/// Whether the case has a gradient to test, in float64.
inline bool has_gradient(const FilledCase& c) {
  if (!c.op.differentiable || c.inputs.empty()) return false;
  bool any = false;
  for (size_t i = 0; i < c.inputs.size(); ++i) any |= c.free[i] && is_float(c.inputs[i].dtype);
  return any;
}

/// sum(output * weight) for inputs in float64, computed by the reference.
inline double projected(const Op& op, const std::vector<RefArray>& inputs, const Attrs& attrs,
                        const std::vector<double>& weight) {
  const RefArray output = op.reference(inputs, attrs);
  double total = 0;
  for (size_t i = 0; i < weight.size(); ++i) total += output.data[i] * weight[i];
  return total;
}

/// Compares the gradient of every free input of a case in float64 with central differences of the reference.
inline void expect_gradient(const FilledCase& c) {
  const auto inputs = tensors_of(c, true);
  const Tensor output = call_op(c.op, inputs, c.spec.attrs);
  if (!is_float(output.dtype())) return;
  const HostArray weight = random_like(output.type(), 7);
  const auto weights = to_doubles(weight);
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (c.free[i]) leaves.push_back(inputs[i]);
  const auto gradients = grad({output}, leaves, {Tensor::from(weight, test_device())});
  constexpr double step = 1e-5;
  auto at = c.exact();
  size_t leaf = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!c.free[i]) continue;
    const auto got = to_doubles(gradients[leaf++].to_host());
    for (size_t j = 0; j < got.size(); ++j) {
      const double middle = at[i].data[j];
      at[i].data[j] = middle + step;
      const double above = projected(c.op, at, c.spec.attrs, weights);
      at[i].data[j] = middle - step;
      const double below = projected(c.op, at, c.spec.attrs, weights);
      at[i].data[j] = middle;
      const double expected = (above - below) / (2 * step);
      if (!(std::abs(got[j] - expected) <= 1e-6 * (1 + std::abs(expected)))) {
        ADD_FAILURE() << "the gradient of " << describe(c) << " for element " << j << " of input " << i
                      << " is " << got[j] << ", not " << expected;
        return;
      }
    }
  }
}

/// The sum of the gradients times `directions`, over the inputs and the output's gradient. `gradients` are
/// the gradients of this sum.
struct SecondOrder {
  double value = 0;
  std::vector<std::vector<double>> gradients;
};

inline SecondOrder second_order(const FilledCase& c, const std::vector<HostArray>& points,
                                const std::vector<HostArray>& directions, bool with_gradients) {
  std::vector<Tensor> inputs, leaves;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back(Tensor::from(points[i], test_device()));
    if (c.free[i]) leaves.push_back(inputs.back().requires_grad());
  }
  Tensor seed = Tensor::from(points.back(), test_device());
  seed.requires_grad();
  const auto first = grad({call_op(c.op, inputs, c.spec.attrs)}, leaves, {seed});
  Tensor total = zeros({}, DType::f64, test_device());
  for (size_t i = 0; i < first.size(); ++i)
    total = total + sum(first[i] * Tensor::from(directions[i], test_device()));
  SecondOrder result;
  leaves.push_back(seed);
  if (with_gradients)
    for (const Tensor& g : grad({total}, leaves)) result.gradients.push_back(to_doubles(g.to_host()));
  result.value = total.item();
  return result;
}

/// Compares gradients of gradients of a case in float64, along random directions, with central differences
/// of gradients.
inline void expect_second_gradient(const FilledCase& c) {
  const auto inputs = tensors_of(c, false);
  const Tensor output = call_op(c.op, inputs, c.spec.attrs);
  if (output.dtype() != DType::f64) return;  // the op is a cast
  std::vector<HostArray> points = c.inputs, directions;
  points.push_back(random_like(output.type(), 11));
  for (size_t i = 0; i < c.inputs.size(); ++i)
    if (c.free[i]) directions.push_back(random_like(inputs[i].type(), 13 + i));
  const SecondOrder middle = second_order(c, points, directions, true);
  for (uint64_t trial = 0; trial < 2; ++trial) {
    constexpr double step = 1e-5;
    double expected = 0;
    std::vector<HostArray> above = points, below = points;
    for (size_t i = 0, leaf = 0; i < points.size(); ++i) {
      if (i < c.free.size() && !c.free[i]) continue;
      const TensorType type{DType::f64, points[i].shape, {}};
      const auto move = to_doubles(random_like(type, 17 + 31 * trial + i));
      for (size_t j = 0; j < move.size(); ++j) {
        above[i].as<double>()[j] += step * move[j];
        below[i].as<double>()[j] -= step * move[j];
        expected += middle.gradients[leaf][j] * move[j];
      }
      ++leaf;
    }
    const double difference =
        (second_order(c, above, directions, false).value - second_order(c, below, directions, false).value) /
        (2 * step);
    EXPECT_NEAR(expected, difference, 1e-5 * (1 + std::abs(difference)))
        << "second gradient of " << describe(c);
  }
}

/// Passes the same tensor to all inputs of one shape. Its gradient, and the gradient of that, must be the sum
/// of the gradients of separate tensors with the same values.
inline void expect_shared_gradient(const FilledCase& c) {
  std::vector<size_t> alike;
  for (size_t i = 0; i < c.inputs.size(); ++i)
    if (c.free[i] && (alike.empty() || c.inputs[i].shape == c.inputs[alike[0]].shape)) alike.push_back(i);
  if (alike.size() < 2) return;
  const auto gradients = [&](bool shared) {
    std::vector<Tensor> inputs = tensors_of(c, false), leaves;
    for (const size_t i : alike) {
      const bool again = shared && i != alike[0];
      inputs[i] = again ? inputs[alike[0]] : Tensor::from(c.inputs[alike[0]], test_device());
      if (!again) leaves.push_back(inputs[i].requires_grad());
    }
    const Tensor output = call_op(c.op, inputs, c.spec.attrs);
    const Tensor direction = Tensor::from(random_like(leaves[0].type(), 19), test_device());
    Tensor first = zeros_like(leaves[0]), second = first;
    for (const Tensor& g :
         grad({output}, leaves, {Tensor::from(random_like(output.type(), 7), test_device())}))
      first = first + g;
    for (const Tensor& g : grad({sum(first * direction)}, leaves)) second = second + g;
    return std::array{to_doubles(first.to_host()), to_doubles(second.to_host())};
  };
  const auto one = gradients(true), many = gradients(false);
  for (size_t order = 0; order < one.size(); ++order)
    for (size_t j = 0; j < one[order].size(); ++j)
      if (!(std::abs(one[order][j] - many[order][j]) <= 1e-9 * (1 + std::abs(many[order][j])))) {
        ADD_FAILURE() << (order == 0 ? "the gradient of " : "the second gradient of ") << describe(c)
                      << " with one tensor for several inputs is " << one[order][j] << " for element " << j
                      << ", not " << many[order][j];
        return;
      }
}

/// Gradients of a case in a lower precision must be close to those of the same numbers in float64: gradient
/// rules keep dtypes and lose no digits.
inline void expect_gradient_in(DType dtype, const FilledCase& c) {
  const auto widen = [](const HostArray& x) { return from_doubles(DType::f64, x.shape, to_doubles(x)); };
  FilledCase exact = c;
  for (size_t i = 0; i < c.inputs.size(); ++i)
    if (c.free[i]) exact.inputs[i] = widen(c.inputs[i]);
  const auto gradients_of = [&](const FilledCase& one, bool wide) {
    const auto inputs = tensors_of(one, true);
    const Tensor output = call_op(one.op, inputs, one.spec.attrs);
    std::vector<Tensor> leaves;
    for (size_t i = 0; is_float(output.dtype()) && i < inputs.size(); ++i)
      if (one.free[i]) leaves.push_back(inputs[i]);
    const HostArray seed = random_like({dtype, output.shape(), {}}, 7);
    std::vector<std::vector<double>> result;
    for (const Tensor& g :
         grad({output}, leaves,
              {cast(Tensor::from(wide ? widen(seed) : seed, test_device()), output.dtype())}))
      result.push_back(to_doubles(g.to_host()));
    return result;
  };
  const auto got = gradients_of(c, false), expected = gradients_of(exact, true);
  for (size_t i = 0; i < got.size(); ++i) {
    double largest = 0;
    for (double value : expected[i]) largest = std::max(largest, std::abs(value));
    for (size_t j = 0; j < got[i].size(); ++j)
      if (!(std::abs(got[i][j] - expected[i][j]) <= 8 * c.op.tolerance * epsilon(dtype) * (largest + 0.1))) {
        ADD_FAILURE() << "the gradient of " << describe(c) << " for element " << j << " of leaf " << i
                      << " is " << got[i][j] << ", in float64 " << expected[i][j];
        return;
      }
  }
}

}  // namespace athanor::testing
