// Small tasks that can only be learned if an op and its gradients are right. They run on the host. With
// $ATHANOR_TEST_BACKEND, they also run on that backend's devices, whose first losses must equal the host's.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "athanor/nn/nn.h"
#include "athanor/ops/ops.h"
#include "athanor/optim/optim.h"
#include "tests/support/gpu_devices.h"

namespace athanor::nn {

/// A model with a task: its loss on all of the data.
class Learner : public Module {
 public:
  Tensor forward(const Tensor&) override { return {}; }
  virtual Tensor loss(Device device) = 0;
};

template <class Task>
std::vector<double> losses_of(Task& task, Device device, int steps, double lr) {
  task.to(device);
  optim::Adam optimizer(task.parameters(), {.lr = lr});
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const Tensor loss = task.loss(device);
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item());
  }
  return losses;
}

/// Returns the task after training on the host. Its last loss must be below `goal`, with other seeds too.
template <class Task>
Task learned(int steps, double lr, double goal) {
  for (const uint64_t seed : {6, 7}) {
    manual_seed(seed);
    Task other;
    const auto losses = losses_of(other, {}, steps, lr);
    EXPECT_LT(losses.back(), goal) << "from " << losses.front() << ", seed " << seed;
  }
  manual_seed(5);
  Task task;
  const auto losses = losses_of(task, {}, steps, lr);
  EXPECT_LT(losses.back(), goal) << "from " << losses.front();
  if (std::getenv("ATHANOR_TEST_BACKEND") == nullptr) return task;
  for (const DeviceInfo& info : testing::gpu_devices()) {
    manual_seed(5);
    Task again;
    const auto there = losses_of(again, info.device, 3, lr);
    for (size_t i = 0; i < there.size(); ++i)
      EXPECT_NEAR(there[i], losses[i], 1e-3 * (1 + std::abs(losses[i])))
          << to_string(info.device) << ", step " << i;
  }
  return task;
}

/// f(i) for each element, as f32 or i64.
template <class T, class F>
Tensor made(const Shape& shape, Device device, F f) {
  std::vector<T> values(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(f(static_cast<int64_t>(i)));
  return Tensor::from(values, shape, device);
}

}  // namespace athanor::nn
