// A step that is abandoned before it changed anything in memory leaves no trace.
#include "athanor/train/step_mark.h"

#include <gtest/gtest.h>

#include <csignal>

#include "athanor/base/os/interrupt.h"
#include "athanor/nn/nn.h"
#include "athanor/ops/ops.h"
#include "athanor/optim/optim.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/train/training_step.h"

namespace athanor {
namespace {

/// Everything that a step may change: weights, running statistics and their count, an optimizer's state,
/// random numbers.
class Net : public nn::Module {
 public:
  Tensor forward(const Tensor& x) override {
    return fc2(dropout(relu(norm(fc1(flatten(x, 1)))), 0.5, training()));
  }

 private:
  nn::Linear& fc1 = add("fc1", nn::Linear(12, 8));
  nn::BatchNorm1d& norm = add("norm", nn::BatchNorm1d(8));
  nn::Linear& fc2 = add("fc2", nn::Linear(8, 3));
};

struct World {
  Net net;
  std::unique_ptr<optim::Optimizer> optimizer;

  World() : net((manual_seed(5), Net())), optimizer(optim::make_optimizer("adam", net.parameters())) {
    eval({});
  }

  double step(int number) {
    std::vector<float> pixels(4 * 12);
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = float((i * 7 + size_t(number) * 3) % 11) / 11;
    const Tensor pictures = Tensor::from(pixels, {4, 1, 3, 4});
    const Tensor labels = Tensor::from<int64_t>({0, 1, 2, 0}, {4});
    optimizer->set_lr(0.01 / number);
    return training_step(net, *optimizer, pictures, labels, {}).loss.item();
  }
  nn::StateDict state() const {
    nn::StateDict all = net.state_dict();
    for (const auto& [name, value] : optimizer->state_dict()) all["optimizer." + name] = value;
    return all;
  }
};

void expect_same(const nn::StateDict& a, const nn::StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, array] : a) EXPECT_EQ(array.bytes, b.at(name).bytes) << name;
}

class StepMarkTest : public ::testing::Test {
 protected:
  ~StepMarkTest() override { reset_evaluation_stats(); }  // other tests count their plans
};

TEST_F(StepMarkTest, TakesBackAStepThatWasLeft) {
  std::vector<double> losses;
  nn::StateDict last;
  {
    World whole;
    for (int i = 1; i <= 4; ++i) losses.push_back(whole.step(i));
    last = whole.state();
  }
  for (const bool compiled : {false, true}) {  // abandoned while kernels are chosen, or when the plan starts
    SCOPED_TRACE(compiled);
    World world;
    StepMark mark(world.net, *world.optimizer);
    for (int i = 1; i <= 2; ++i) EXPECT_EQ(world.step(i), losses[size_t(i) - 1]);
    const nn::StateDict before = world.state();
    const auto random = default_generator().state();
    for (int times = 0; times < 2; ++times) {
      if (!compiled) clear_plan_cache();
      const InterruptScope scope;
      mark.set();
      request_interrupt(SIGTERM);
      EXPECT_THROW(world.step(3), Interrupted);
      EXPECT_TRUE(mark.go_back());
      EXPECT_EQ(default_generator().state(), random);
      expect_same(world.state(), before);
    }
    for (int i = 3; i <= 4; ++i) EXPECT_EQ(world.step(i), losses[size_t(i) - 1]);
    expect_same(world.state(), last);
  }
}

TEST_F(StepMarkTest, DoesNotKeepMemoryFromBeingUpdatedInPlace) {
  World world;
  StepMark mark(world.net, *world.optimizer);
  const auto step = [&](int number) {
    mark.set();
    world.step(number);
    return last_plan()->planned_memory_bytes();
  };
  world.step(1);
  world.step(2);
  const int64_t without = last_plan()->planned_memory_bytes();
  EXPECT_EQ(step(3), without);
  EXPECT_EQ(step(4), without);
}

}  // namespace
}  // namespace athanor
