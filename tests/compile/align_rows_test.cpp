// Values that products read begin their rows at multiples of some bytes on GPUs, and results stay the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "athanor/compile/options.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/host_result.h"
#include "athanor/kernels/trial.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/gpu_devices.h"

namespace athanor {
namespace {

// Rows of f32 of an odd length, and how far apart they should be.
constexpr int64_t odd_row = 1001, spaced_row = 1024;

std::vector<Tensor> inputs_kept;  // so that no result takes over their memory

Tensor input_of(const Shape& shape, Device device) {
  std::vector<float> values(static_cast<size_t>(shape.size()));
  uint32_t state = 11 + static_cast<uint32_t>(shape.size());
  for (float& v : values)
    v = static_cast<float>(static_cast<double>((state = state * 1664525 + 1013904223) >> 8) / (1 << 24) -
                           0.5);
  Tensor x = Tensor::from(values, shape).to(device);
  inputs_kept.push_back(x);
  return x;
}

using SpacedComputation = std::function<std::vector<Tensor>(Device)>;

/// The loss of a classifier with many classes, and its gradients.
std::vector<Tensor> classifier(Device device) {
  Tensor x = input_of({24, 20}, device), weights = input_of({odd_row, 20}, device);
  const Tensor labels = Tensor::from(std::vector<int64_t>(24, 7), Shape{24}).to(device);
  inputs_kept.push_back(labels);
  x.requires_grad();
  weights.requires_grad();
  const Tensor loss = cross_entropy(matmul(x, transpose(weights)), labels);
  loss.backward();
  return {loss, x.grad(), weights.grad()};
}

/// Products that read parts of a value with odd rows, and a loop that reads it in another shape.
std::vector<Tensor> parts_of_rows(Device device) {
  const Tensor y = exp(matmul(input_of({2, 20, 5}, device), input_of({5, odd_row}, device))) * 0.5F;
  return {matmul(slice(y, 2, 3, 900), input_of({897, 16}, device)),
          matmul(transpose(slice(y, 1, 4, 20, 2)), input_of({8, 12}, device)),
          matmul(y, input_of({odd_row, 9}, device)), sum(y * y, {1})};
}

/// Products with a bias, an activation and sums behind them, and their gradients.
std::vector<Tensor> hidden_layer(Device device) {
  Tensor x = input_of({2, 20, 16}, device), first = input_of({16, odd_row}, device),
         bias = input_of({odd_row}, device), second = input_of({odd_row, 9}, device);
  for (Tensor* trained : {&x, &first, &bias, &second}) trained->requires_grad();
  const Tensor y = matmul(relu(matmul(x, first) + bias) * 0.5F, second);
  sum(y * y).backward();
  return {x.grad(), first.grad(), bias.grad(), second.grad()};
}

/// Sums and the largest values of rows, and of the whole result, which a product's kernel computes: what is
/// behind a row must not be among them. The bias has nothing behind its last element.
std::vector<Tensor> reduced_rows(Device device) {
  const Tensor x = input_of({24, 16}, device), w = input_of({16, odd_row}, device),
               bias = input_of({odd_row}, device), second = input_of({odd_row, 9}, device);
  const Tensor y = matmul(x, w) + bias, z = matmul(x, w) - bias, v = matmul(x, w * 2.0F) + bias;
  return {sum(y * y, {1}), matmul(y, second), max(z, {1}), matmul(z, second), sum(v * v), matmul(v, second)};
}

/// A value that is also read in the order of its memory.
std::vector<Tensor> flattened(Device device) {
  const Tensor y = exp(matmul(input_of({20, 5}, device), input_of({5, odd_row}, device)));
  return {matmul(y, input_of({odd_row, 9}, device)),
          sum(reshape(y, {odd_row, 20}) * input_of({odd_row, 20}, device), {1})};
}

class AlignedRows : public ::testing::Test {
 protected:
  void TearDown() override { inputs_kept.clear(); }

  static std::vector<PlanValue> spaced(const Plan& plan) {
    std::vector<PlanValue> found;
    std::ranges::copy_if(plan.values, std::back_inserter(found),
                         [](const PlanValue& value) { return value.row_pitch != 0; });
    return found;
  }

  /// A GPU that need not exist.
  static Device paper() { return parse_device("offline"); }

  /// Checks that a GPU computes what the CPU does, and that each product's candidates agree.
  static void check(const SpacedComputation& computed) {
    ATHANOR_NEEDS_GPU();
    const Device gpu = testing::gpu_devices().front().device;
    if (backend_of(gpu).row_alignment(gpu.index) == 1) GTEST_SKIP() << "this device reads rows anywhere";
    const auto plan = plan_for(computed(gpu));
    EXPECT_FALSE(spaced(*plan).empty()) << explain(*plan);
    for (const PlanStep& step : plan->steps) {
      if (!step.request || step.request->op->prim != Prim::batch_matmul) continue;
      const TrialResults host = host_result(*step.request);
      Trial trial(gpu, *step.request);
      for (const Candidate& one : backend_of(gpu).candidates(gpu.index, *step.request))
        EXPECT_TRUE(agree(trial.result(one), host, *step.request))
            << one.name << " of " << step.request->key();
    }
    const std::vector<Tensor> here = computed(gpu), there = computed({});
    for (size_t t = 0; t < here.size(); ++t) {
      const auto got = here[t].to(Device{}).to_vector<float>(), want = there[t].to_vector<float>();
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], want[i], 1e-4 * std::max(1.0F, std::abs(want[i]))) << t << " at " << i;
    }
  }
};

TEST_F(AlignedRows, LogitsAndTheirGradient) {
  const auto plan = plan_for(classifier(paper()));
  const std::vector<PlanValue> values = spaced(*plan);
  EXPECT_EQ(values.size(), 2U) << "the logits and their gradient: " << explain(*plan);
  for (const PlanValue& value : values) {
    EXPECT_EQ(value.type.shape[-1], odd_row);
    EXPECT_EQ(value.row_pitch, spaced_row);
    EXPECT_EQ(value.bytes(), 24 * spaced_row * 4);
  }
  EXPECT_EQ(std::ranges::count_if(values, [](const PlanValue& value) { return value.in_place_of >= 0; }), 1)
      << "the gradient takes over the logits' memory: " << explain(*plan);
  int written = 0, read = 0;
  for (const PlanStep& step : plan->steps) {
    if (!step.request) continue;
    written += step.request->output().padding == spaced_row - odd_row ? 1 : 0;
    for (const OperandDesc& operand : step.request->inputs)
      read += operand.padding == spaced_row - odd_row ? 1 : 0;
  }
  EXPECT_EQ(written, 1) << explain(*plan);
  EXPECT_EQ(read, 2) << explain(*plan);
  EXPECT_NE(explain(*plan).find("rows 1024 apart"), std::string::npos) << explain(*plan);
  const ScopedDisable dense("layout");
  EXPECT_TRUE(spaced(*plan_for(classifier(paper()))).empty());
}

TEST_F(AlignedRows, CpusReadThemAnywhere) { EXPECT_TRUE(spaced(*plan_for(classifier({}))).empty()); }

TEST_F(AlignedRows, NotOfValuesReadInAnotherShape) {
  EXPECT_EQ(spaced(*plan_for(parts_of_rows(paper()))).size(), 1U);
  EXPECT_TRUE(spaced(*plan_for(flattened(paper()))).empty());
}

// Results have no gaps, short rows would be mostly gap, and only products gain.
TEST_F(AlignedRows, NotWhereTheyCostMoreThanTheyGive) {
  const auto result_and_product = [](Device device) -> std::vector<Tensor> {
    const Tensor y = exp(input_of({20, odd_row}, device));
    return {y, matmul(y, input_of({odd_row, 9}, device))};
  };
  // A loop that reads values with gaps and without would read element by element.
  const auto beside_an_input = [](Device device) -> std::vector<Tensor> {
    const Tensor y = input_of({20, odd_row}, device) * exp(input_of({20, odd_row}, device));
    return {matmul(y, input_of({odd_row, 9}, device))};
  };
  const auto short_rows = [](Device device) -> std::vector<Tensor> {
    return {matmul(exp(input_of({20, 21}, device)), input_of({21, 9}, device))};
  };
  const auto no_product = [](Device device) -> std::vector<Tensor> {
    const Tensor y = exp(input_of({20, odd_row}, device));
    return {sum(y, {1}), cumsum(y, 0)};
  };
  for (const SpacedComputation& computed :
       std::vector<SpacedComputation>{result_and_product, beside_an_input, short_rows, no_product})
    EXPECT_TRUE(spaced(*plan_for(computed(paper()))).empty()) << explain(*plan_for(computed(paper())));
}

TEST_F(AlignedRows, AClassifierTrainsAsOnTheCpu) { check(classifier); }

TEST_F(AlignedRows, AHiddenLayerTrainsAsOnTheCpu) { check(hidden_layer); }

TEST_F(AlignedRows, PaddingIsNotReduced) { check(reduced_rows); }

TEST_F(AlignedRows, PartsOfRowsAreRead) { check(parts_of_rows); }

}  // namespace
}  // namespace athanor
