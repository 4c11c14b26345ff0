// Whole training steps: the same numbers as PyTorch, one plan for all steps, updates in place, no growth.
#include <gtest/gtest.h>

#include <set>

#include "../nn/reference.h"
#include "athanor/nn/nn.h"
#include "athanor/ops/loss.h"
#include "athanor/optim/optim.h"
#include "athanor/runtime/evaluate.h"

namespace athanor::optim {
namespace {

using testing::expect_near;

struct Data {
  Tensor x, labels;
};

Data some_data(const Shape& input, int64_t classes) {
  Generator generator(5);
  Data data{normal(input, 0, 1, DType::f32, generator), random_integers({input[0]}, 0, classes, generator)};
  eval({data.x, data.labels});
  return data;
}

double train_step(nn::Module& model, Optimizer& optimizer, const Data& data) {
  const Tensor loss = cross_entropy(model(data.x), data.labels);
  loss.backward();
  optimizer.step();
  return loss.item();
}

TEST(TrainingStep, AsPyTorch) {
  const auto expected = testing::read_reference("training");
  nn::Sequential model(nn::Linear(6, 8), nn::ReLU(), nn::BatchNorm1d(8), nn::Linear(8, 3));
  model.load_state_dict(testing::under(expected, "start/"));
  const Tensor x = Tensor::from(expected.at("x")), labels = Tensor::from(expected.at("labels"));
  AdamW optimizer(model.parameters(), {.lr = 0.01, .weight_decay = 0.05});
  const auto losses = to_doubles(expected.at("losses"));
  for (size_t step = 0; step < losses.size(); ++step) {
    const Tensor loss = cross_entropy(model(x), labels, {.label_smoothing = 0.1});
    loss.backward();
    clip_grad_norm(model.parameters(), 0.5);
    optimizer.step();
    EXPECT_NEAR(loss.item(), losses[step], 1e-5) << "step " << step;
  }
  const auto state = model.state_dict();
  for (const auto& [name, array] : testing::under(expected, "end/"))
    expect_near(state.at(name), array, 1e-4, name);
}

// Counts the last plan's outputs that reuse an input's memory.
int updated_in_place() {
  int count = 0;
  const auto plan = last_plan();
  for (int output : plan->outputs) count += plan->values[static_cast<size_t>(output)].in_place_of >= 0;
  return count;
}

class Steady : public ::testing::TestWithParam<const char*> {};

// All steps use the first step's plan, although the rate changes. Weights and their state are updated in
// place.
TEST_P(Steady, OnePlanUpdatesInPlaceNoGrowth) {
  manual_seed(2);
  const auto model = nn::make_model("cnn", {1, 12, 12}, 5);
  const auto optimizer = make_optimizer(GetParam(), model->parameters(), {.lr = 0.01, .weight_decay = 0.01});
  const Data data = some_data({8, 1, 12, 12}, 5);
  reset_evaluation_stats();
  for (int step = 0; step < 2; ++step) train_step(*model, *optimizer, data);
  const uint64_t before = memory_use({}).current;
  const void* address = model->parameters()[0].value().node()->value->address();
  double loss = 0;
  for (int step = 0; step < 20; ++step) {
    optimizer->set_lr(0.01 / (1 + step));
    loss = train_step(*model, *optimizer, data);
  }
  EXPECT_LT(loss, 1.7);
  EXPECT_EQ(evaluation_stats().plans_compiled, 1);
  EXPECT_EQ(evaluation_stats().plans_reused, 21);
  EXPECT_EQ(memory_use({}).current, before);
  EXPECT_EQ(model->parameters()[0].value().node()->value->address(), address);
  const int states = std::string(GetParam()) == "sgd" ? 1 : 2;
  EXPECT_EQ(updated_in_place(), static_cast<int>(model->parameters().size()) * (1 + states));
}
INSTANTIATE_TEST_SUITE_P(Optimizers, Steady, ::testing::Values("sgd", "adam", "adamw"),
                         [](const auto& test) { return std::string(test.param); });

TEST(TrainingStep, RunningStatisticsNeedNoPlanOfTheirOwn) {
  manual_seed(2);
  nn::Sequential model(nn::Conv2d(3, 8, 3, {.bias = false}), nn::BatchNorm2d(8), nn::ReLU(), nn::Flatten(),
                       nn::Linear(8 * 6 * 6, 5));
  Sgd optimizer(model.parameters(), {.lr = 0.05, .momentum = 0.9});
  const Data data = some_data({8, 3, 8, 8}, 5);
  reset_evaluation_stats();
  for (int step = 0; step < 2; ++step) train_step(model, optimizer, data);
  const uint64_t before = memory_use({}).current;
  for (int step = 0; step < 3; ++step) train_step(model, optimizer, data);
  EXPECT_EQ(evaluation_stats().plans_compiled, 1);
  EXPECT_EQ(evaluation_stats().plans_reused, 4);  // one plan for each step, which includes the statistics
  EXPECT_EQ(memory_use({}).current, before);
  EXPECT_EQ(model.state_dict().at("1.num_batches_tracked").as<int64_t>()[0], 5);
}

TEST(TrainingStep, StepsMayBeLookedAtLater) {
  // Three steps in one plan must have the same results as three plans.
  const Data data = some_data({4, 1, 8, 8}, 3);
  const auto run = [&](bool at_once) {
    manual_seed(4);
    const auto model = nn::make_model("cnn", {1, 8, 8}, 3);
    Sgd optimizer(model->parameters(), {.lr = 0.1, .momentum = 0.5});
    Tensor loss;
    for (int step = 0; step < 3; ++step) {
      loss = cross_entropy((*model)(data.x), data.labels);
      loss.backward();
      optimizer.step();
      if (!at_once) loss.eval();
    }
    return loss.item();
  };
  EXPECT_NEAR(run(true), run(false), 1e-5);
}

TEST(TrainingStep, UpdatesCarryTheParametersName) {
  nn::Sequential model(nn::Linear(20, 30));
  Adam optimizer(model.parameters());
  train_step(model, optimizer, some_data({4, 20}, 30));
  std::set<std::string> parts;
  for (const auto& step : last_plan()->steps) parts.insert(step.parts.begin(), step.parts.end());
  EXPECT_TRUE(parts.contains("0.weight"));
  EXPECT_TRUE(parts.contains("0.bias"));
}

TEST(TrainingStep, AKeptGradientCanBeReadAfterStep) {
  nn::Linear layer(2, 1);
  Sgd optimizer(layer.parameters(), {.lr = 0.1});
  const Tensor loss = mse_loss(layer(Tensor::from<float>({1, 2}, {1, 2})), Tensor::from<float>({0}, {1, 1}));
  loss.backward();
  const Tensor gradient = layer.bias.grad();
  optimizer.step();
  EXPECT_TRUE(gradient.defined());
  EXPECT_NEAR(gradient.item() * gradient.item() / 4, loss.item(), 1e-5);
}

TEST(TrainingStep, TheSameSeedGivesTheSameLosses) {
  const Data data = some_data({8, 1, 12, 12}, 5);
  const auto run = [&] {
    manual_seed(9);
    const auto model = nn::make_model("mlp", {1, 12, 12}, 5);
    Adam optimizer(model->parameters());
    std::vector<double> losses;
    for (int step = 0; step < 5; ++step) losses.push_back(train_step(*model, optimizer, data));
    return losses;
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace athanor::optim
