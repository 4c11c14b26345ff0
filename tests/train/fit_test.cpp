// Which batches fit: this is planned without running them, and is true when they run.
#include "athanor/train/fit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "athanor/memory/storage.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/runtime/executor.h"
#include "tests/support/gpu_devices.h"

namespace athanor {
namespace {

class Fit : public ::testing::Test {
 protected:
  Fit() : before_(compile_options()) {
    compile_options().deterministic = true;
    config_.model = "resnet18";
  }
  ~Fit() override { compile_options() = before_; }
  StepPlanner planner(const Shape& input = {3, 16, 16}, int64_t classes = 10, Device device = {}) {
    const ExampleSpec spec{.input = input,
                           .classes = classes,
                           .normalization = {{0}, {1}},
                           .pixels = task_kind(config_) == TaskKind::segmentation};
    return {task_without_data(config_, spec), config_, device};
  }
  TrainConfig config_;

 private:
  CompileOptions before_;
};

TEST_F(Fit, PartsAndComputingAgainTakeLessMemory) {
  StepPlanner resnet = planner();
  // Kernels depend on the processor, and their scratch memory does too.
  const int64_t limit = resnet.plan({.batch_size = 96}, 0)->planned_memory_bytes() * 8 / 10;
  const auto bytes = [&](const FitCase& of) { return resnet.plan(of, limit)->planned_memory_bytes(); };
  const int64_t whole = bytes({.batch_size = 128}), half = bytes({.batch_size = 64});
  EXPECT_GT(whole, int64_t{200} << 20);
  EXPECT_GT(whole, half);
  EXPECT_LT(bytes({.batch_size = 128, .parts = 8}), whole);
  EXPECT_LE(bytes({.batch_size = 96, .again = true}), limit);
  EXPECT_EQ(bytes({.batch_size = 128}), whole);  // other plans changed nothing
}

TEST_F(Fit, FindsTheLargestBatch) {
  StepPlanner resnet = planner();
  const int64_t limit = int64_t{180} << 20;
  Fitter fitter(resnet, limit);
  const auto kept = fitter.largest({}), again = fitter.largest({.again = true});
  ASSERT_TRUE(kept && again);
  EXPECT_LE(kept->bytes, limit);
  EXPECT_LE(again->bytes, limit);
  EXPECT_GT(again->of.batch_size, kept->of.batch_size * 5 / 4);
  EXPECT_GT(again->share, 0);
  EXPECT_FALSE(fitter.look({.batch_size = kept->of.batch_size * 5 / 4}));
  const auto parts = fitter.in_parts({.batch_size = 256});
  ASSERT_TRUE(parts);
  EXPECT_GT(parts->of.parts, 1);
  EXPECT_LE(parts->bytes, limit);
  EXPECT_GT(parts->seconds, kept->seconds);
  EXPECT_FALSE(Fitter(resnet, 1 << 20).largest({}));
}

// One model of each family: with batch norm over a single value, attention, tokens, pixels.
TEST_F(Fit, BeginsAtTheFirstBatchThatTheModelTakes) {
  struct Family {
    const char* name;
    Shape input;
    int64_t classes, least;
  };
  for (const Family& of :
       {Family{"mlp", {1, 8, 8}, 4, 1}, Family{"cnn", {1, 8, 8}, 4, 1}, Family{"resnet18", {3, 8, 8}, 4, 2},
        Family{"vit-tiny", {3, 8, 8}, 4, 1}, Family{"unet-small", {3, 32, 32}, 4, 1},
        Family{"gpt2-nano", {16}, 256, 1}, Family{"bert-tiny", {16}, 256, 1}}) {
    SCOPED_TRACE(of.name);
    config_ = default_config(of.name);
    StepPlanner model = planner(of.input, of.classes);
    const int64_t limit = model.plan({.batch_size = 4}, 0)->planned_memory_bytes();
    Fitter fitter(model, limit);
    EXPECT_EQ(fitter.least_batch(), of.least);
    const auto largest = fitter.largest({});
    ASSERT_TRUE(largest);
    EXPECT_GE(largest->of.batch_size, 4);
    EXPECT_LT(largest->of.batch_size, 8);
    EXPECT_FALSE(fitter.look({.batch_size = 8}));
    const auto parts = fitter.in_parts({.batch_size = 8});
    if (parts) {
      EXPECT_GE(8 / parts->of.parts, of.least);
    }
  }
}

TEST_F(Fit, FindsNoBatchLargerThanTheDataset) {
  config_.model = "cnn";
  StepPlanner cnn = planner({1, 8, 8}, 4);
  const auto largest = Fitter(cnn, int64_t{1} << 30, {.most_examples = 83}).largest({});
  ASSERT_TRUE(largest);
  EXPECT_GE(largest->of.batch_size, 80);
  EXPECT_LE(largest->of.batch_size, 83);
}

// Storage takes what was planned: parameters and state, all parts of the batch, gradients so far, the arena;
// on a GPU also the next batch.
TEST_F(Fit, PlannedMemoryIsWhatARunTakes) {
  struct Step {
    const char* model;
    Shape input;
    int64_t classes;
    FitCase of;
    bool on_gpu = false;  // also on a GPU: it has few kernels to compile
  };
  const Shape grey{1, 28, 28}, color{3, 32, 32};
  const std::vector<Step> steps{
      {"cnn", grey, 10, {.batch_size = 512}},
      {"cnn", grey, 10, {.batch_size = 1024, .parts = 2}},
      {"mlp", grey, 10, {.batch_size = 8192, .parts = 4}, true},  // most of its memory is the batch
      {"mlp", grey, 10, {.batch_size = 4096}, true},
      {"resnet18", color, 10, {.batch_size = 8}},
      {"vit-tiny", color, 10, {.batch_size = 8}},
      {"unet-small", color, 4, {.batch_size = 2}},
      {"gpt2-nano", {64}, 256, {.batch_size = 8}},
      {"bert-tiny", {64}, 256, {.batch_size = 8}}};
  std::vector<Device> devices{Device{}};
  if (const auto gpus = testing::gpu_devices(); !gpus.empty()) devices.push_back(gpus.front().device);
  for (const Device device : devices)
    for (const auto& [model, input, classes, of, on_gpu] : steps) {
      if (device != Device{} && !on_gpu) continue;
      SCOPED_TRACE(
          fmt::format("{} on {}, {} in {} parts", model, to_string(device), of.batch_size, of.parts));
      config_ = default_config(model);
      StepPlanner made = planner(input, classes, device);
      const int64_t planned = made.bytes(*made.plan(of, 0), of);
      made.run(of, 0);  // checks kernels, so that the next run does not
      release_arenas();
      reset_peak_memory(device);
      made.run(of, 0);
      const auto measured = static_cast<int64_t>(memory_use(device).peak);
      EXPECT_NEAR(static_cast<double>(measured), static_cast<double>(planned),
                  0.01 * static_cast<double>(planned));
    }
}

TEST_F(Fit, DrawsWhatItFound) {
  const FitPoint small{.of = {.batch_size = 8}, .bytes = 1 << 20, .seconds = 0.1},
      large{.of = {.batch_size = 64}, .bytes = 8 << 20, .seconds = 0.8};
  const std::string svg =
      draw_fit({.title = "a & b", .subtitle = "", .limit = 4 << 20, .series = {{"f32", {small, large}}}});
  EXPECT_NE(svg.find("a &amp; b"), std::string::npos);
  EXPECT_NE(svg.find("limit 4.00 MiB"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

/// Cases in f32 with these batches, and how many examples each computes in a second.
std::vector<FitPoint> cases_of(const std::vector<std::pair<int64_t, double>>& rates,
                               const FitCase& kind = {}) {
  std::vector<FitPoint> points;
  for (const auto& [batch, rate] : rates) {
    FitPoint point{.of = kind, .bytes = batch, .seconds = static_cast<double>(batch) / rate};
    point.of.batch_size = batch;
    points.push_back(point);
  }
  return points;
}

TEST(LargestFastBatch, IsNotSlowerThanSmallerOnes) {
  const auto largest = [](const std::vector<FitPoint>& points) {
    const auto found = largest_fast_batch(points, 1, Precision::f32);
    return found ? found->of.batch_size : 0;
  };
  EXPECT_EQ(largest(cases_of({{1, 100}, {2, 180}, {4, 200}, {5, 200}})), 4);  // 5 is no power of two
  EXPECT_EQ(largest(cases_of({{1, 100}, {2, 98}, {4, 96}})), 4);
  EXPECT_EQ(largest(cases_of({{1, 100}, {2, 98}, {4, 90}})), 2);
  EXPECT_EQ(largest(cases_of({{1, 100}, {2, 60}, {4, 70}})), 1);
  EXPECT_EQ(largest(cases_of({{64, 10}}, {.again = true})), 0);
  EXPECT_EQ(largest(cases_of({{64, 10}}, {.precision = Precision::bf16})), 0);
  EXPECT_EQ(
      largest_fast_batch(cases_of({{12, 10}, {24, 10}}, {.parts = 3}), 3, Precision::f32)->of.batch_size, 24);
}

TEST(LargestFastBatch, HasReasonsThatAreTrueOfAllBatches) {
  std::vector<FitPoint> points = cases_of({{1, 100}, {2, 50}, {4, 98}, {8, 99}, {9, 97}, {16, 80}});
  const std::vector<FitPoint> other = cases_of({{3, 1}, {6, 1}, {32, 100}}, {.precision = Precision::bf16});
  points.insert(points.end(), other.begin(), other.end());
  const auto best = largest_fast_batch(points, 1, Precision::f32);
  ASSERT_TRUE(best);
  ASSERT_EQ(best->of.batch_size, 8);
  EXPECT_EQ(speeds_around(*best, points).alike_from, 4);  // 1 is as fast, but 2 is not
  EXPECT_FALSE(speeds_around(*best, points).larger_slower);
  std::erase_if(points, [](const FitPoint& p) { return p.of.batch_size == 9; });
  EXPECT_TRUE(speeds_around(*best, points).larger_slower);
}

// Which of two precisions is faster by a little is chance, and may not decide what numbers a model gets.
TEST(FitAdvice, KeepsThePrecisionThatComesFirst) {
  std::vector<FitPoint> points = cases_of({{8, 100}, {16, 90}});
  const auto add = [&](const std::vector<FitPoint>& more) {
    points.insert(points.end(), more.begin(), more.end());
  };
  add(cases_of({{16, 95}}, {.parts = 2}));
  add(cases_of({{16, 97}, {32, 300}}, {.precision = Precision::bf16}));
  const auto way = fastest_way(points, 16);
  ASSERT_TRUE(way);
  EXPECT_EQ(way->of, (FitCase{.batch_size = 16, .parts = 2}));
  EXPECT_FALSE(faster_precision(*way, points)) << "2 % faster";
  EXPECT_EQ(fastest_way(points, 32)->of.precision, Precision::bf16) << "it does not fit in f32";
  EXPECT_FALSE(fastest_way(points, 64));
  add(cases_of({{16, 190}}, {.again = true, .precision = Precision::bf16}));
  const auto faster = faster_precision(*way, points);
  ASSERT_TRUE(faster);
  EXPECT_EQ(faster->of, (FitCase{.batch_size = 16, .again = true, .precision = Precision::bf16}));
}

TEST_F(Fit, TheLeastMemoryIsALimitThatIsEnough) {
  StepPlanner resnet = planner();
  const FitCase of{.batch_size = 8};
  const int64_t least = resnet.least_bytes(of);
  Fitter enough(resnet, least, {.runs = false}), low(resnet, least * 3 / 4, {.runs = false});
  EXPECT_TRUE(enough.look({.batch_size = 8, .again = true}));
  EXPECT_FALSE(low.look({.batch_size = 8, .again = true}));
  EXPECT_LT(least, resnet.bytes(*resnet.plan(of, 0), of));
}

}  // namespace
}  // namespace athanor
