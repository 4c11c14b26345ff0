// Replay: plans that run repeatedly are captured, and give the same numbers as their separate
// launches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "athanor/base/error.h"
#include "athanor/compile/options.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/kernel.h"
#include "athanor/nn/nn.h"
#include "athanor/ops/ops.h"
#include "athanor/optim/optim.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/runtime/replays.h"
#include "tests/support/expect_error.h"
#include "tests/support/gpu_devices.h"

namespace athanor {
namespace {

class Counted final : public Replay {
 public:
  explicit Counted(int& runs) : runs_(runs) {}
  void run() override { ++runs_; }

 private:
  int& runs_;
};

using Values = std::vector<Replays::Where>;
constexpr int64_t large = 1 << 20;

class ReplaysTest : public ::testing::Test {
 protected:
  Replay* run(const Values& values) {
    replays.look(values);
    const Replays::Captured* const found = replays.find([this] {
      ++captures;
      Replays::Captured all;
      if (possible) all.push_back(std::make_unique<Counted>(runs));
      return all;
    });
    return found == nullptr ? nullptr : found->front().get();
  }
  Replays replays;
  bool possible = true;
  int captures = 0, runs = 0;
  const std::vector<int> memory = std::vector<int>(40);
  const int &a = memory[0], &b = memory[1];
};

TEST_F(ReplaysTest, AreCapturedWhenAddressesComeAgain) {
  EXPECT_EQ(run({{&a, large}, {&b, 0}}), nullptr);
  EXPECT_EQ(run({{&b, large}, {&b, 0}}), nullptr);
  EXPECT_EQ(captures, 0);
  Replay* const first = run({{&a, large}, {&b, 0}});
  ASSERT_NE(first, nullptr);
  first->run();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(run({{&a, large}, {&b, 0}}), first);
  EXPECT_NE(run({{&b, large}, {&b, 0}}), first);
  EXPECT_EQ(captures, 2);
  EXPECT_EQ(replays.slots(Device{}), nullptr);
}

TEST_F(ReplaysTest, SmallValuesThatMoveGetSlots) {
  EXPECT_EQ(run({{&a, 4}, {&b, 4}, {&a, 100}}), nullptr);
  EXPECT_EQ(replays.slot(0), -1);
  EXPECT_EQ(run({{&b, 4}, {&b, 4}, {&b, 100}}), nullptr);
  EXPECT_NE(run({{&a, 4}, {&b, 4}, {&memory[7], 100}}), nullptr);
  EXPECT_NE(run({{&memory[9], 4}, {&b, 4}, {&memory[8], 100}}), nullptr);
  EXPECT_EQ(captures, 1);
  EXPECT_EQ(replays.slot(1), -1);
  EXPECT_NE(replays.slot(0), replays.slot(2));
  const auto slots = replays.slots(Device{});
  ASSERT_NE(slots, nullptr);
  EXPECT_GE(static_cast<int64_t>(slots->bytes()), std::max(replays.slot(0) + 4, replays.slot(2) + 100));
  // The second value moves for the first time, so the captured launches have its old address.
  EXPECT_EQ(run({{&a, 4}, {&memory[3], 4}, {&a, 100}}), nullptr);
  EXPECT_GE(replays.slot(1), 0);
  EXPECT_NE(run({{&a, 4}, {&memory[4], 4}, {&a, 100}}), nullptr);
  EXPECT_EQ(captures, 2);
}

TEST_F(ReplaysTest, GoTheOldestFirst) {
  for (const int& one : memory) EXPECT_EQ(run({{&one, large}}), nullptr);
  EXPECT_EQ(run({{&memory.front(), large}}), nullptr);  // it was forgotten, as the oldest
  EXPECT_NE(run({{&memory.back(), large}}), nullptr);
}

TEST_F(ReplaysTest, AreNotTriedAgainWhereADriverRefuses) {
  possible = false;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(run({{&a, large}}), nullptr);
  EXPECT_EQ(captures, 1);
}

class ReplayedSteps : public ::testing::Test {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    setenv("ATHANOR_REPLAY", "1", 1);  // on a processor too
    device = testing::gpu_devices().front().device;
    captures = queue_of(device).captures();
  }
  void TearDown() override { unsetenv("ATHANOR_REPLAY"); }
  // The losses of the steps, then the parameters of the first layer. That layer is on `first`, the others are
  // on the device.
  std::vector<float> train(int steps, Device first) const {
    manual_seed(5);
    struct Split : nn::Module {
      Tensor forward(const Tensor& x) override { return head(body(x).to(second)); }
      nn::Sequential& body = add("body", nn::Sequential(nn::Linear(12, 16), nn::ReLU()));
      nn::Sequential& head = add("head", nn::Sequential(nn::Linear(16, 16), nn::ReLU(), nn::Linear(16, 4)));
      Device second;
    } model;
    model.body.to(first);
    model.head.to(device);
    model.second = device;
    optim::Adam optimizer(model.parameters(), {.lr = 0.01});
    std::vector<Tensor> losses;
    std::vector<float> numbers;
    for (int step = 0; step < steps; ++step) {
      std::vector<float> pixels(size_t{8} * 12);
      for (size_t i = 0; i < pixels.size(); ++i)
        pixels[i] = static_cast<float>((i * 7 + static_cast<size_t>(step) * 11) % 23) / 23;
      std::vector<int64_t> classes(8);
      for (size_t i = 0; i < classes.size(); ++i)
        classes[i] = static_cast<int64_t>((i + static_cast<size_t>(step)) % 4);
      const Tensor loss = cross_entropy(model(Tensor::from<float>(pixels, {8, 12}, first)),
                                        Tensor::from<int64_t>(classes, {8}, device));
      loss.backward();
      optimizer.step();
      eval({loss});
      losses.push_back(loss);
      if (losses.size() > 2) numbers.push_back(static_cast<float>(losses[losses.size() - 3].item()));
    }
    for (const float weight : model.parameters().front().value().to_vector<float>())
      numbers.push_back(weight);
    return numbers;
  }
  Device device;
  bool captures = false;
};

TEST_F(ReplayedSteps, GiveTheSameBits) {
  const ScopedDisable untuned("tune");
  std::vector<Device> firsts{device, Device{}};
  if (const auto all = testing::gpu_devices(); all.size() > 1) firsts.push_back(all[1].device);
  for (const Device first : firsts) {
    reset_evaluation_stats();
    std::vector<float> alone;
    {
      const ScopedDisable off("replay");
      alone = train(24, first);
      EXPECT_EQ(evaluation_stats().plans_replayed, 0);
    }
    EXPECT_EQ(train(24, first), alone) << to_string(first);
    if (captures) {
      EXPECT_GE(evaluation_stats().plans_replayed, 8) << to_string(first);
    }
  }
  if (!captures) GTEST_SKIP() << to_string(device) << " cannot capture launches: all ran them one by one";
}

// Values that move from step to step are copied into slots and out of them.
TEST_F(ReplayedSteps, OfBatchNormUpdateAllInItsPlace) {
  const ScopedDisable untuned("tune");
  nn::Sequential net(nn::Linear(12, 16), nn::BatchNorm1d(16), nn::ReLU(), nn::Linear(16, 4));
  net.to(device);
  optim::Sgd optimizer(net.parameters(), {.lr = 0.01, .momentum = 0.9});
  eval({});
  const int64_t before = evaluation_stats().plans_replayed;
  for (int step = 0; step < 24; ++step) {
    std::vector<float> pixels(size_t{8} * 12);
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i * 7 % 23) / 23;
    const Tensor loss = cross_entropy(net(Tensor::from<float>(pixels, {8, 12}, device)),
                                      Tensor::from<int64_t>({0, 1, 2, 3, 0, 1, 2, 3}, {8}, device));
    loss.backward();
    optimizer.step();
    eval({loss});
  }
  const Plan& plan = *last_plan();
  const auto moves = std::ranges::count_if(
      plan.outputs, [&](int v) { return plan.values[static_cast<size_t>(v)].in_place_of < 0; });
  EXPECT_EQ(moves, 1) << "the loss; " << explain(plan);
  EXPECT_EQ(plan.copies(), 0);
  if (captures) {
    EXPECT_GE(evaluation_stats().plans_replayed - before, 8);
  }
}

TEST_F(ReplayedSteps, StillNameAnIndexThatIsOutside) {
  const ScopedDisable untuned("tune");
  const Tensor table = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {3, 2}, device);
  const auto look = [&](int64_t last) {
    const Tensor found = take(table * 2, Tensor::from<int64_t>({0, 2, last}, {3}, device), 0) + 1;
    return found.to_vector<float>();
  };
  const int64_t before = evaluation_stats().plans_replayed;
  for (int i = 0; i < 12; ++i) EXPECT_EQ(look(1), (std::vector<float>{3, 5, 11, 13, 7, 9}));
  if (captures) {
    EXPECT_GE(evaluation_stats().plans_replayed - before, 4);
  }
  testing::expect_error(ErrorCode::value, {"plan step", "index 7", "extent 3", "replay_test.cpp"},
                        [&] { look(7); });
  EXPECT_EQ(look(1), (std::vector<float>{3, 5, 11, 13, 7, 9}));
}

}  // namespace
}  // namespace athanor
