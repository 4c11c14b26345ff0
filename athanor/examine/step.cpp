#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "athanor/examine/cases.h"
#include "athanor/examine/parts.h"
#include "athanor/graph/op.h"
#include "athanor/ops/op_case.h"
#include "athanor/ops/ops.h"

namespace athanor {
namespace {

constexpr int64_t classes = 10;

struct Named {
  const char* name;
  HostArray value;
};

HostArray numbers_within(double most, const Shape& shape, uint64_t seed) {
  const Op& op = find_op("neg");
  return fill_case(op, OpCase{{{shape, -most, most}}}, DType::f32, seed).inputs.front();
}

std::vector<Named> step_on(Device device) {
  const auto on = [&](const Shape& shape, uint64_t seed, double most = 0.5) {
    return Tensor::from(numbers_within(most, shape, seed), device);
  };
  using namespace examined;
  const int64_t features = maps * pooled * pooled;
  // The logits are about 1, so that the loss depends on each: a much larger one would hide the others.
  const Tensor x = on({batch, channels, size, size}, 1);
  std::vector<Tensor> parameters{on({maps, channels, window, window}, 2), on({maps, 1, 1}, 3),
                                 on({classes, features}, 4, 0.03), on({classes}, 5)};
  for (Tensor& parameter : parameters) parameter.requires_grad();
  std::vector<int64_t> labels(batch);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int64_t>(i * 3 + 2) % classes;
  const Tensor convolved = conv2d(x, parameters[0], {}, {.padding = padding});
  const Tensor activated = relu(max_pool2d(convolved, pool) + parameters[1]);
  const Tensor logits =
      matmul(reshape(activated, {batch, features}), transpose(parameters[2], 0, 1)) + parameters[3];
  const Tensor loss = cross_entropy(logits, Tensor::from(labels, {batch}, device));
  const std::vector<Tensor> gradients = grad({loss}, parameters);
  std::vector<Tensor> results{loss};
  for (size_t i = 0; i < parameters.size(); ++i) {
    results.push_back(gradients[i]);
    results.push_back(parameters[i] - 0.1 * gradients[i]);
  }
  eval(results);
  const std::vector<const char*> names{"the loss",
                                       "the convolution's gradient",
                                       "the updated convolution",
                                       "its bias' gradient",
                                       "its updated bias",
                                       "the product's gradient",
                                       "the updated matrix",
                                       "the gradient of the last biases",
                                       "the updated last biases"};
  std::vector<Named> all;
  for (size_t i = 0; i < results.size(); ++i) all.push_back({names[i], results[i].to_host()});
  return all;
}

}  // namespace

void examine_training_step(Device device, Examination& verdict) {
  constexpr double allowed = 1e-4;  // of the largest; both sides round
  const std::vector<Named> got = step_on(device), expected = step_on(Device{});
  for (size_t n = 0; n < got.size(); ++n) {
    ++verdict.checks;
    const std::vector<double> a = to_doubles(got[n].value), b = to_doubles(expected[n].value);
    double largest = 0;
    for (const double value : b) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < a.size(); ++i)
      if (!(std::abs(a[i] - b[i]) <= allowed * largest)) {
        verdict.wrong.push_back(fmt::format("a training step: {}: element {} of {} is {:.6g}, not {:.6g}",
                                            got[n].name, i, a.size(), a[i], b[i]));
        break;
      }
  }
}

}  // namespace athanor
