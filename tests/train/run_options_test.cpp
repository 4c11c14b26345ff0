// Options of a run that change what is learned and kept: averages, frozen parameters, decay, patience.
#include <gtest/gtest.h>

#include <cmath>

#include "athanor/compile/options.h"
#include "athanor/data/held_back.h"
#include "athanor/data/open_dataset.h"
#include "athanor/device/device.h"
#include "athanor/formats/safetensors.h"
#include "athanor/kernels/kernel.h"
#include "athanor/nn/linear.h"
#include "athanor/nn/models.h"
#include "athanor/nn/sequential.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/random.h"
#include "athanor/ops/reduction.h"
#include "athanor/optim/sgd.h"
#include "athanor/train/classification.h"
#include "athanor/train/fit.h"
#include "athanor/train/test_set.h"
#include "athanor/train/weight_average.h"
#include "tests/support/expect_error.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

using testing::expect_error;

class RunOptions : public testing::TrainerTest {
 protected:
  Checkpoint last(const std::string& name) { return read_checkpoint(run_folder(name).checkpoint()); }
};

TEST(WeightAverage, IsTheExponentialAverage) {
  nn::Linear layer(1, 1, false);
  layer.weight.assign(Tensor::from(std::vector<float>{2}, {1, 1}));
  WeightAverage average(layer.parameters(), 0.9);
  double expected = 2;
  for (int64_t step = 0; step < 120; ++step) {
    const float value = std::sin(static_cast<float>(step));
    layer.weight.assign(Tensor::from(std::vector<float>{value}, {1, 1}));
    average.update(step);
    const double keep = std::min(0.9, (1 + static_cast<double>(step)) / (10 + static_cast<double>(step)));
    expected = keep * expected + (1 - keep) * static_cast<double>(value);
    ASSERT_NEAR(to_doubles(average.state_dict().at("weight"))[0], expected, 1e-5) << step;
  }
  {
    const WeightAverage::Scope scope(&average);
    EXPECT_NEAR(layer.weight.value().item(), expected, 1e-5);
  }
  EXPECT_NEAR(layer.weight.value().item(), std::sin(119.0), 1e-6);
}

TEST_F(RunOptions, AnAverageIsTestedKeptAndResumed) {
  config_.ema = 0.9;
  train("whole");
  for (const int64_t stop : {3, 10, 14}) {
    config_.max_steps = stop;
    train("parts", true);
  }
  config_.max_steps = 0;
  train("parts", true);
  EXPECT_EQ(metrics("parts"), metrics("whole"));
  const Checkpoint whole = last("whole"), parts = last("parts");
  for (const auto& [name, array] : whole.average)
    EXPECT_EQ(parts.average.at(name).bytes, array.bytes) << name;
  EXPECT_NE(whole.average.at("fc1.weight").bytes, whole.model.at("fc1.weight").bytes);
  // The average was tested, and a restored model computes with it too.
  const auto model = restore_model(whole, "whole");
  const MetricsSum sum = test_model(*model, {}, Classification(config_), 8, [](int64_t) { return true; });
  EXPECT_NEAR(sum.mean_loss(), summary("whole")["test_loss"], 1e-6);
  EXPECT_EQ(summary("whole")["test_loss"], summary("parts")["test_loss"]);
}

TEST_F(RunOptions, FrozenParametersStay) {
  config_.freeze = "fc1.*, fc2.bias";
  config_.epochs = 1;
  manual_seed(config_.seed);
  const auto before = nn::make_model("mlp", {1, 8, 8}, 4)->state_dict();
  train("a");
  const Checkpoint after = last("a");
  for (const auto& [name, array] : before) {
    const bool frozen = name.starts_with("fc1") || name == "fc2.bias";
    EXPECT_EQ(after.model.at(name).bytes == array.bytes, frozen) << name;
    EXPECT_EQ(after.optimizer.contains(name + ".momentum_buffer"), !frozen) << name;
  }
  const Classification task(config_);
  const Learner learner(task, config_, Device{});
  EXPECT_EQ(learner.trained_count(), learner.model().parameter_count() - before.at("fc1.weight").size() -
                                         before.at("fc1.bias").size() - before.at("fc2.bias").size());
  config_.freeze = "conv9.*";
  expect_error(ErrorCode::usage, {"conv9", "--freeze", "fc1.weight"}, [&] { train("b"); });
  config_.freeze = "*";
  expect_error(ErrorCode::usage, {"nothing is left", "--freeze"}, [&] { train("b"); });
}

TEST_F(RunOptions, FrozenAndAveragedPartsLearnAsTheWhole) {
  config_.freeze = "fc1.*";
  config_.ema = 0.9;
  config_.epochs = 1;
  config_.deterministic = true;
  manual_seed(config_.seed);
  const auto before = nn::make_model("mlp", {1, 8, 8}, 4)->state_dict();
  train("whole");
  config_.accumulate = 4;
  train("parts");
  const Checkpoint whole = last("whole"), parts = last("parts");
  const auto expect_alike = [](const nn::StateDict& found, const nn::StateDict& wanted) {
    ASSERT_EQ(found.size(), wanted.size());
    for (const auto& [name, value] : wanted) {
      const auto expected = to_doubles(value), got = to_doubles(found.at(name));
      for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4) << name;
    }
  };
  expect_alike(parts.model, whole.model);
  expect_alike(parts.average, whole.average);
  for (const auto& [name, value] : before)
    EXPECT_EQ(parts.model.at(name).bytes == value.bytes, name.starts_with("fc1")) << name;
  // A run that is stopped and resumed has the same numbers.
  config_.max_steps = 4;
  train("again", true);
  config_.max_steps = 0;
  train("again", true);
  EXPECT_EQ(metrics("again"), metrics("parts"));
  EXPECT_EQ(last("again").average.at("fc2.weight").bytes, parts.average.at("fc2.weight").bytes);
}

// `offline` has its own memory. PoCL's is the host's, like that of an integrated GPU.
TEST_F(RunOptions, OffloadingCopiesNothingWhereMemoryIsShared) {
  const CompileOptions usual = compile_options();
  compile_options().deterministic = true;  // so no kernel is timed
  TrainConfig config = default_config("mlp");
  config.offload = "optimizer";
  const ExampleSpec spec{.input = {1, 28, 28}, .classes = 10, .normalization = {{0}, {1}}};
  std::vector<Device> devices{Device{}, parse_device("offline")};
  for (const DeviceInfo& info : list_devices())
    if (info.device != Device{}) devices.push_back(info.device);
  for (const Device device : devices) {
    const auto plan = StepPlanner(task_without_data(config, spec), config, device).plan({.batch_size = 8}, 0);
    const bool shared = backend_of(device).has_unified_memory(device.index);
    EXPECT_EQ(plan->copies() == 0, shared) << to_string(device);
    const auto task = task_without_data(config, spec);
    const std::string note = Learner(*task, config, device).offload_note();
    EXPECT_EQ(note.find("no effect: " + to_string(device)) != std::string::npos, shared) << note;
    EXPECT_EQ(note.empty(), !shared) << note;
    EXPECT_EQ(Learner(*task, default_config("mlp"), device).offload_note(), "");
  }
  compile_options() = usual;
}

// On the host there is nothing to offload: memory is shared.
TEST_F(RunOptions, OffloadedStateTrainsFrozenAveragedPartsToTheSameBits) {
  config_.freeze = "fc1.*";
  config_.optimizer = "adamw";
  const CompileOptions usual = compile_options();
  compile_options().deterministic = true;
  for (const DeviceInfo& info : list_devices()) {
    if (info.device == Device{}) continue;
    SCOPED_TRACE(to_string(info.device));
    std::vector<nn::StateDict> ends;
    for (const bool offloaded : {false, true}) {
      manual_seed(5);
      const auto model = nn::make_model("mlp", {1, 8, 8}, 4);
      model->to(info.device);
      const auto optimizer = make_optimizer(config_, model->parameters());
      if (offloaded) optimizer->offload_state();
      WeightAverage average(model->parameters(), 0.9);
      Generator random(2);
      for (int64_t step = 0; step < 2; ++step) {
        std::vector<BatchPart> parts;
        for (int part = 0; part < 2; ++part)
          parts.push_back({normal({4, 1, 8, 8}, 0, 1, DType::f32, random, info.device),
                           Tensor::from(std::vector<int64_t>{0, 1, 2, 3}, {4}).to(info.device), 4});
        const PendingStep made = training_step(*model, *optimizer, parts);
        average.update(step);
        made.loss.item();
      }
      ends.push_back(model->state_dict());
      for (auto& [name, value] : average.state_dict()) ends.back()["average." + name] = std::move(value);
    }
    for (const auto& [name, value] : ends[0]) EXPECT_EQ(value.bytes, ends[1].at(name).bytes) << name;
  }
  compile_options() = usual;
}

TEST_F(RunOptions, DecayLeavesBiasesOut) {
  nn::Sequential model(nn::Linear(3, 2));
  const auto parameters = model.parameters();
  for (const auto& parameter : parameters)
    parameter.assign(Tensor::from(HostArray::of<float>(
        parameter.shape(), std::vector<float>(static_cast<size_t>(parameter.size()), 1))));
  config_.weight_decay = 0.5;
  config_.weight_decay_on = "weights";
  config_.lr = 0.1;
  config_.momentum = 0;
  const auto optimizer = make_optimizer(config_, parameters);
  (sum(parameters[0].value()) * 0 + sum(parameters[1].value()) * 0).backward();
  optimizer->step();
  EXPECT_NEAR(parameters[0].value().to_vector<float>()[0], 1 - 0.1 * 0.5, 1e-6);
  EXPECT_EQ(parameters[1].value().to_vector<float>()[0], 1);
}

TEST_F(RunOptions, PatienceEndsARunAfterItsBestEpoch) {
  config_.epochs = 50;
  config_.patience = 2;
  config_.schedule = "constant";
  train("a");
  const auto result = summary("a");
  EXPECT_TRUE(result["stopped_early"]);
  const auto& epochs = result["epoch_metrics"];
  ASSERT_LT(epochs.size(), 50U);
  const auto best = result["best_epoch"].get<size_t>();
  EXPECT_EQ(epochs.size(), best + 2);
  for (size_t i = 0; i < epochs.size(); ++i)
    EXPECT_LE(epochs[i]["test_accuracy"], epochs[best - 1]["test_accuracy"]);
  // The model of the best epoch was kept.
  const auto model = restore_model(read_checkpoint(run_folder("a").best()), "a");
  const MetricsSum sum = test_model(*model, {}, Classification(config_), 8, [](int64_t) { return true; });
  EXPECT_NEAR(sum.mean_loss(), epochs[best - 1]["test_loss"], 1e-6);
  Reporter nobody;
  EXPECT_TRUE(Trainer(config_, run_folder("a"), true, nobody).finished());
  config_.patience = 4;
  train("a", true);
  EXPECT_GT(summary("a")["epoch_metrics"].size(), epochs.size()) << "with more patience it goes on";
}

TEST_F(RunOptions, ValidationHoldsTrainingPicturesBack) {
  config_.validation = 0.25;
  train("a");
  EXPECT_EQ(summary("a")["steps"], 2 * (63 / 8));
  const Classification task(config_);
  EXPECT_EQ(task.test_count(), 21);
  const auto whole = open_dataset(config_.data, Split::train);
  const auto [left, back] = held_back(whole, 0.25, 9);
  const auto [left_again, back_again] = held_back(whole, 0.25, 9);
  std::vector<std::vector<float>> seen;
  for (const auto& part : {left, back})
    for (int64_t i = 0; i < part->size(); ++i) {
      int64_t label = 0;
      seen.emplace_back(64);
      part->read(i, seen.back().data(), label);
      if (part == left) {
        std::vector<float> again(64);
        left_again->read(i, again.data(), label);
        EXPECT_EQ(again, seen.back());
      }
    }
  EXPECT_EQ(seen.size(), 84U);
  std::ranges::sort(seen);
  EXPECT_EQ(std::ranges::unique(seen).size(), 0U) << "no image is in both";
}

TEST_F(RunOptions, TheRunsOptionsAreKeptAsToml) {
  config_.max_steps = 1;
  train("a");
  EXPECT_NE(read_text_file(run_folder("a").config_toml()).find("batch_size = 8"), std::string::npos);
}

}  // namespace
}  // namespace athanor
