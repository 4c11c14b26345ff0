// Whole runs, on a small dataset made up here.
#include "athanor/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "athanor/base/os/interrupt.h"
#include "athanor/formats/safetensors.h"
#include "athanor/nn/linear.h"
#include "athanor/ops/loss.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/expect_error.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

using testing::expect_error;
using testing::TrainerTest;
using testing::write_pictures;

TEST_F(TrainerTest, LearnsAndLeavesItsFiles) {
  config_.epochs = 4;
  EXPECT_EQ(train("a"), RunEnd::finished);
  const RunFolder folder = run_folder("a");
  for (const auto& file : {folder.config(), folder.metrics(), folder.checkpoint(), folder.summary(),
                           folder.plan(), folder.loss_svg()})
    EXPECT_TRUE(std::filesystem::exists(file)) << file;
  const auto steps = read_metrics(folder.metrics());
  ASSERT_EQ(steps.size(), 40U);
  EXPECT_EQ(steps[0].step, 1);
  EXPECT_EQ(steps[39].epoch, 4);
  const auto result = summary("a");
  for (const char* field :
       {"device", "steps", "epochs", "train_loss", "test_accuracy", "images_per_second", "step_ms_median",
        "peak_memory_bytes", "planned_memory_bytes", "kernels_total", "kernels_off_device"})
    EXPECT_TRUE(result.contains(field)) << field;
  EXPECT_EQ(result["steps"], 40);
  EXPECT_EQ(result["epochs"], 4);
  EXPECT_EQ(result["kernels_off_device"], 0);
  EXPECT_GE(result["test_accuracy"], 0.9);
  EXPECT_EQ(result["epoch_metrics"].size(), 4U);
  EXPECT_GT(result["peak_memory_bytes"], 0);
  EXPECT_LT(result["plans_compiled"], 6) << "steps of one kind need one plan";
}

TEST_F(TrainerTest, SaysWhatItWaitsFor) {
  struct Waits : Reporter {
    void waiting(const std::string& what, const std::string& how_far) override {
      said.push_back(what + ", " + how_far);
    }
    std::vector<std::string> said;
  } waits;
  config_.max_steps = 1;
  clear_plan_cache();  // removes plans of other tests
  Trainer(config_, run_folder("a"), false, waits).run();
  EXPECT_THAT(waits.said, ::testing::Contains(::testing::StartsWith("choosing kernels, step 1 of ")));
}

TEST_F(TrainerTest, TestsOnAsManyPicturesAsAreWanted) {
  config_.max_steps = 2;
  config_.eval_examples = 12;
  struct Tested : Reporter {
    void started(const RunFacts& facts) override { pictures = facts.test_count; }
    void tested(int64_t done, int64_t of) override { last = done, all = of; }
    int64_t pictures = 0, last = 0, all = 0;
  } tested;
  Trainer(config_, run_folder("a"), false, tested).run();
  EXPECT_EQ(tested.pictures, 12);
  EXPECT_EQ(tested.last, 12);
  EXPECT_EQ(tested.all, 12);
  config_.eval_examples = 0;
  config_.max_steps = 3;  // a resumed run may change it
  Trainer(config_, run_folder("a"), true, tested).run();
  EXPECT_EQ(tested.last, 20);
}

TEST_F(TrainerTest, InitialValuesTakeLittleMoreThanTheirOwnMemory) {
  use_text("gpt2-mini", testing::repeating_text("apples"));
  config_.max_steps = 1;
  config_.batch_size = 1;
  config_.lora = 2;  // a step that needs little memory besides the parameters
  config_.tune = "off";
  ASSERT_EQ(train("a"), RunEnd::finished);
  const auto result = summary("a");
  EXPECT_LE(result["peak_memory_bytes"].get<double>(), 1.1 * result["planned_memory_bytes"].get<double>());
}

TEST_F(TrainerTest, CallsBackAndStopsOnRequest) {
  train("whole");
  std::vector<int64_t> steps, epochs, tests, saves;
  {
    Reporter nobody;
    Trainer trainer(config_, run_folder("a"), false, nobody);
    trainer.callbacks().on_step = [&](const StepMetrics& metrics) {
      steps.push_back(metrics.step);
      if (metrics.step == 13) trainer.request_stop();
    };
    trainer.callbacks().on_epoch = [&](const EpochMetrics& epoch) { epochs.push_back(epoch.step); };
    trainer.callbacks().on_evaluation = [&](int64_t step, const MetricsSum& sum) {
      tests.push_back(step);
      EXPECT_EQ(sum.count, 20);
    };
    trainer.callbacks().on_checkpoint = [&](int64_t step, const auto&) { saves.push_back(step); };
    EXPECT_EQ(trainer.run(), RunEnd::stopped);
    EXPECT_TRUE(trainer.saved());
    EXPECT_EQ(trainer.steps(), steps.back());
  }
  ASSERT_GE(steps.size(), 13U);
  EXPECT_LE(steps.size(), 15U) << "those that were on their way";
  EXPECT_EQ(epochs, std::vector<int64_t>{10});
  EXPECT_EQ(tests, std::vector<int64_t>{10});
  EXPECT_EQ(saves, (std::vector<int64_t>{10, 10, steps.back()})) << "before and after the test";
  EXPECT_EQ(train("a", true), RunEnd::finished);
  EXPECT_EQ(metrics("a"), metrics("whole"));
}

/// Learns to reproduce its input: a task that is not an option.
class Autoencoding final : public Task {
 public:
  const ExampleSpec& spec() const override { return spec_; }
  std::string describe() const override { return "one batch"; }
  std::shared_ptr<const Scoring> scoring() const override { return std::make_shared<ClassScoring>(); }
  std::unique_ptr<nn::Module> make_model() const override { return std::make_unique<nn::Linear>(4, 4); }
  Forward forward(nn::Module& model, const Tensor& inputs, const Tensor& targets) const override {
    return {mse_loss(model(inputs), targets), Tensor::scalar(int64_t{0}, DType::i64)};
  }
  std::unique_ptr<Batches> training_batches() const override { return std::make_unique<Same>(5); }
  std::unique_ptr<Batches> test_batches(int64_t) const override { return std::make_unique<Same>(1); }
  int64_t test_count() const override { return 2; }
  TensorType input_type(int64_t batch_size) const override { return {DType::f32, {batch_size, 4}, {}}; }
  TensorType target_type(int64_t batch_size) const override { return input_type(batch_size); }

 private:
  class Same final : public Batches {
   public:
    explicit Same(int64_t count) : count_(count) {}
    std::optional<Batch> next() override {
      if (state_.next_batch == count_) {
        state_ = {state_.epoch + 1, 0};
        return std::nullopt;
      }
      ++state_.next_batch;
      const std::vector<float> values{1, 0, 0, 0, 0, 0, 2, 0};
      const auto array = HostArray::of<float>({2, 4}, std::span(values));
      return Batch{array, array};
    }
    int64_t batches() const override { return count_; }
    LoaderState state() const override { return state_; }
    void restore(const LoaderState& state) override { state_ = state; }

   private:
    int64_t count_;
    LoaderState state_;
  };
  ExampleSpec spec_{{1, 2, 2}, 1, {}, {{0}, {1}}, {}};
};

TEST_F(TrainerTest, TrainsATaskOfOnesOwn) {
  config_.model = "autoencoder";
  config_.data = "squares";
  config_.epochs = 20;
  config_.batch_size = 2;
  config_.lr = 0.3;
  const auto run = [&](const std::string& name, bool resume) {
    Reporter nobody;
    return Trainer(config_, run_folder(name), resume, nobody, std::make_unique<Autoencoding>()).run();
  };
  run("whole", false);
  EXPECT_EQ(summary("whole")["steps"], 100);
  EXPECT_LT(summary("whole")["test_loss"], 1e-3);
  config_.max_steps = 33;
  run("parts", false);
  config_.max_steps = 0;
  run("parts", true);
  EXPECT_EQ(metrics("parts"), metrics("whole"));
}

TEST_F(TrainerTest, SameSeedSameFileWhateverTheWorkers) {
  train("a");
  config_.workers = 3;
  train("b");
  EXPECT_EQ(metrics("a"), metrics("b"));
  config_.seed = 4;
  train("c");
  EXPECT_NE(metrics("a"), metrics("c"));
}

TEST_F(TrainerTest, StoppedAnywhereItGoesOnToTheSameNumbers) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    config_.optimizer = optimizer;
    config_.max_steps = 0;
    const std::string whole = std::string("whole-") + optimizer, parts = std::string("parts-") + optimizer;
    train(whole);
    for (const int64_t stop : {1, 4, 10, 11, 19, 20}) {
      config_.max_steps = stop;
      train(parts, true);
      EXPECT_EQ(summary(parts)["steps"], stop);
    }
    EXPECT_EQ(metrics(parts), metrics(whole)) << optimizer;
    EXPECT_EQ(summary(parts)["test_loss"], summary(whole)["test_loss"]);
    EXPECT_EQ(summary(parts)["epoch_metrics"], summary(whole)["epoch_metrics"]);
    const auto left = read_checkpoint(run_folder(parts).checkpoint()),
               right = read_checkpoint(run_folder(whole).checkpoint());
    for (const auto& [name, array] : right.optimizer)
      EXPECT_EQ(left.optimizer.at(name).bytes, array.bytes) << name;
    for (const auto& [name, array] : right.model) EXPECT_EQ(left.model.at(name).bytes, array.bytes) << name;
  }
}

TEST_F(TrainerTest, AConvolutionalNetworkResumesToo) {
  config_.model = "cnn";
  config_.epochs = 1;
  train("whole");
  config_.max_steps = 3;
  train("parts", true);
  config_.max_steps = 0;
  train("parts", true);
  EXPECT_EQ(metrics("parts"), metrics("whole"));
}

TEST_F(TrainerTest, AutoGoesOnWithTheDeviceOfTheRun) {
  config_.deterministic = true;
  int number = 0;
  for (const DeviceInfo& info : list_devices()) {
    const std::string device = to_string(info.device), name = "on-" + std::to_string(number++);
    config_.device = device;
    config_.max_steps = 1;
    train(name);
    config_.device = "auto";
    config_.max_steps = 2;
    train(name, true);
    EXPECT_EQ(summary(name)["device"], device);
  }
}

TEST_F(TrainerTest, LinesAfterTheCheckpointAreCutOff) {
  config_.max_steps = 5;
  train("a");
  const std::string five = metrics("a");
  std::ofstream(run_folder("a").metrics(), std::ios::app)
      << to_line({6, 1, 9.5, 0, 1}) << "\n{\"step\":7,\"epo";
  config_.max_steps = 6;
  train("a", true);
  const std::string six = metrics("a");
  EXPECT_TRUE(six.starts_with(five));
  EXPECT_EQ(read_metrics(run_folder("a").metrics()).size(), 6U);
  EXPECT_EQ(six.find("9.5"), std::string::npos);
}

TEST_F(TrainerTest, MetricsThatWereCutAreRefused) {
  config_.max_steps = 5;
  train("a");
  std::filesystem::resize_file(run_folder("a").metrics(), 20);
  config_.max_steps = 6;
  expect_error(ErrorCode::format, {"metrics.jsonl"}, [&] { train("a", true); });
}

TEST_F(TrainerTest, AnInterruptSavesAndIsGoneOnWith) {
  train("whole");
  struct StopAt : Reporter {
    void stepped(const StepMetrics& metrics, double) override {
      if (metrics.step == 7) request_interrupt(SIGINT);
    }
  } stop;
  Trainer trainer(config_, run_folder("parts"), false, stop);
  EXPECT_EQ(trainer.run(), RunEnd::interrupted);
  EXPECT_EQ(trainer.steps(), 7);
  EXPECT_FALSE(std::filesystem::exists(run_folder("parts").summary()));
  EXPECT_EQ(train("parts", true), RunEnd::finished);
  EXPECT_EQ(metrics("parts"), metrics("whole"));
}

TEST_F(TrainerTest, AnInterruptWhileTestingLosesNoEpoch) {
  train("whole");
  struct StopInTest : Reporter {
    void tested(int64_t, int64_t) override { request_interrupt(SIGINT); }
  } stop;
  Trainer trainer(config_, run_folder("parts"), false, stop);
  EXPECT_EQ(trainer.run(), RunEnd::interrupted);
  EXPECT_EQ(trainer.steps(), 10);
  EXPECT_EQ(train("parts", true), RunEnd::finished);
  EXPECT_EQ(metrics("parts"), metrics("whole"));
  EXPECT_EQ(summary("parts")["epoch_metrics"], summary("whole")["epoch_metrics"]);
}

// A checkpoint with a flipped bit, wherever it is, is never accepted.
TEST_F(TrainerTest, ADamagedCheckpointIsRefused) {
  config_.max_steps = 2;
  config_.optimizer = "adam";
  train("a");
  const auto path = run_folder("a").checkpoint();
  std::vector<std::byte> data = read_file(path);
  const SafeTensorsHeader header = read_safetensors_header(path);
  const auto flip = [&](size_t bit) { data[bit / 8] ^= std::byte(1 << bit % 8); };
  size_t of_the_optimizer = 0;
  const auto expect_found = [&](size_t bit) {
    std::string tensor;
    for (const auto& [name, place] : header.tensors)
      if (bit / 8 >= header.data_offset + place.begin && bit / 8 < header.data_offset + place.end)
        tensor = name;
    of_the_optimizer += tensor.starts_with("optimizer.") ? 1 : 0;
    flip(bit);
    expect_error(ErrorCode::format, {"c.safetensors", tensor},
                 [&] { parse_safetensors(data, "c.safetensors"); });
    flip(bit);
  };
  for (size_t bit = 0; bit < 8 * header.data_offset; bit += 3) expect_found(bit);
  for (size_t bit = 8 * header.data_offset; bit < 8 * data.size(); bit += 80'021) expect_found(bit);
  EXPECT_GT(of_the_optimizer, 50U);
  // Reading the damaged file, not only the bytes in memory, fails too.
  flip(8 * header.data_offset + 12'345);
  write_file_atomically(path, {Bytes(data)});
  expect_error(ErrorCode::format, {path.string(), "the tensor is damaged"}, [&] { read_checkpoint(path); });
  config_.max_steps = 4;
  expect_error(ErrorCode::format, {path.string(), "the tensor is damaged"}, [&] { train("a", true); });
}

// A step that is abandoned while its kernels are chosen has no effect: the numbers continue like those of a
// run without an interruption. The resnet has everything that a step changes: parameters, momentum, running
// statistics.
TEST_F(TrainerTest, AStepThatIsGivenUpIsTakenBack) {
  config_.model = "resnet18";
  config_.batch_size = 4;
  config_.epochs = 1;
  config_.max_steps = 5;
  config_.deterministic = true;
  train("whole");
  struct StopInStep : Reporter {
    void stepped(const StepMetrics& metrics, double) override {
      if (metrics.step != 3) return;
      clear_plan_cache();  // so that the next step is compiled anew, and abandoned then
      stop = true;
    }
    std::atomic<bool> stop = false;
  } reporter;
  {
    Trainer trainer(config_, run_folder("parts"), false, reporter);
    std::thread later([&] {
      while (!reporter.stop) std::this_thread::sleep_for(std::chrono::microseconds(200));
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      request_interrupt(SIGTERM);
    });
    EXPECT_EQ(trainer.run(), RunEnd::interrupted);
    later.join();
    EXPECT_TRUE(trainer.saved());
  }
  EXPECT_EQ(train("parts", true), RunEnd::finished);
  EXPECT_EQ(metrics("parts"), metrics("whole"));
  EXPECT_EQ(summary("parts")["test_loss"], summary("whole")["test_loss"]);
}

TEST_F(TrainerTest, AFinishedRunSaysSo) {
  train("a");
  Reporter nobody;
  EXPECT_TRUE(Trainer(config_, run_folder("a"), true, nobody).finished());
  config_.max_steps = 5;
  EXPECT_FALSE(Trainer(config_, run_folder("new"), true, nobody).finished());
}

TEST_F(TrainerTest, ASummaryThatWasLostIsWrittenAgain) {
  train("a");
  const auto before = summary("a");
  std::filesystem::remove(run_folder("a").summary());
  train("a", true);
  for (const char* field :
       {"steps", "train_loss", "test_loss", "test_accuracy", "kernels_total", "planned_memory_bytes"})
    EXPECT_EQ(summary("a")[field], before[field]) << field;
}

TEST_F(TrainerTest, OtherDataIsRefusedOnResuming) {
  config_.max_steps = 3;
  train("a");
  HostArray images(DType::u8, {84, 8, 8});
  images.bytes[5] = std::byte{200};
  write_npy(folder_ / "data" / "train_images.npy", images);
  config_.max_steps = 5;
  expect_error(ErrorCode::value, {"not those", "data"}, [&] { train("a", true); });
}

TEST_F(TrainerTest, ALossThatIsNoNumberStopsTheRun) {
  config_.lr = 1e30;
  config_.schedule = "constant";
  expect_error(ErrorCode::numeric, {"the loss of step", "--check-nan", "--lr"}, [&] { train("a"); });
  config_.check_nan = true;
  expect_error(ErrorCode::numeric, {" in ", "produced"}, [&] { train("a", true); });
}

TEST_F(TrainerTest, OneProcessAtATimeWorksOnARun) {
  Reporter nobody;
  {
    const Trainer trainer(config_, run_folder("a"), false, nobody);
    expect_error(ErrorCode::io, {"another process", "a", "--out"}, [&] { train("a", true); });
  }
  EXPECT_EQ(train("a", true), RunEnd::finished);
}

TEST_F(TrainerTest, ADiskTooFullForACheckpointIsSaidAtTheStart) {
  run_folder("a").create();
  run_folder("a").check_space(1);
  expect_error(ErrorCode::io, {"too full", "free"},
               [&] { run_folder("none/b").check_space(uint64_t{1} << 60); });
  expect_error(ErrorCode::io, {"too full", "free"}, [&] { run_folder("a").check_space(uint64_t{1} << 60); });
  // There is room for one checkpoint but not for two, which is enough for a run that already has one.
  const uint64_t most = std::filesystem::space(run_folder("a").path).available / 4 * 3;
  expect_error(ErrorCode::io, {"checkpoints need", "free"}, [&] { run_folder("a").check_space(most); });
  write_file_atomically(run_folder("a").checkpoint(), "");
  run_folder("a").check_space(most);
}

TEST_F(TrainerTest, TestPicturesOfAnotherSizeAreRefusedAtTheStart) {
  write_npy(folder_ / "data" / "test_images.npy", HostArray(DType::u8, {20, 9, 9}));
  expect_error(ErrorCode::shape, {"test images are [1, 9, 9]", "[1, 8, 8]", "data"}, [&] { train("a"); });
  EXPECT_FALSE(std::filesystem::exists(run_folder("a").path));
}

TEST_F(TrainerTest, BadOptionsLeaveNoFolder) {
  config_.batch_size = 85;
  expect_error(ErrorCode::usage, {"--batch-size", "84"}, [&] { train("a"); });
  config_.batch_size = 8;
  config_.device = "cup";
  expect_error(ErrorCode::usage, {"--device", "'cpu'"}, [&] { train("a"); });
  config_.device = "auto";
  config_.data = "fashion-mnits";
  expect_error(ErrorCode::usage, {"--data", "fashion-mnist"}, [&] { train("a"); });
  EXPECT_FALSE(std::filesystem::exists(run_folder("a").path));
}

TEST_F(TrainerTest, CheckpointsAreSafetensors) {
  config_.max_steps = 2;
  train("a");
  const auto header = read_safetensors_header(run_folder("a").checkpoint());
  EXPECT_EQ(header.tensors.at("model.fc1.weight").shape, (Shape{512, 64}));
  EXPECT_TRUE(header.tensors.contains("optimizer.fc1.weight.momentum_buffer"));
  const Checkpoint checkpoint = read_checkpoint(run_folder("a").checkpoint());
  EXPECT_EQ(checkpoint.config, config_);
  EXPECT_EQ(checkpoint.threads, 1);
  EXPECT_EQ(checkpoint.state.step, 2);
  EXPECT_EQ(checkpoint.state.loader, (LoaderState{0, 2}));
  EXPECT_EQ(checkpoint.data.classes, 4);
  EXPECT_EQ(restore_model(checkpoint, "a")->parameter_count(),
            64 * 512 + 512 + 512 * 512 + 512 + 512 * 4 + 4);
}

TEST_F(TrainerTest, DamagedCheckpointsAreNamed) {
  config_.max_steps = 2;
  train("a");
  const auto path = run_folder("a").checkpoint();
  const auto whole = read_file(path);
  config_.max_steps = 3;
  for (const size_t kept : {size_t{0}, size_t{5}, size_t{300}, whole.size() / 2, whole.size() - 1}) {
    write_file_atomically(path, {Bytes(whole).first(kept)});
    expect_error(ErrorCode::format, {"checkpoint.safetensors"}, [&] { train("a", true); });
  }
  write_safetensors(path, {});
  expect_error(ErrorCode::format, {"not a checkpoint", "checkpoint.safetensors"}, [&] { train("a", true); });
  SafeTensors content = parse_safetensors(whole, "whole");
  content.tensors.erase("model.fc2.bias");
  write_safetensors(path, content);
  expect_error(ErrorCode::format, {"fc2.bias", "checkpoint.safetensors"}, [&] { train("a", true); });
  content = parse_safetensors(whole, "whole");
  content.metadata["state"] = "{\"step\": 1}";
  write_safetensors(path, content);
  expect_error(ErrorCode::format, {"damaged", "checkpoint.safetensors"}, [&] { train("a", true); });
}

}  // namespace
}  // namespace athanor
