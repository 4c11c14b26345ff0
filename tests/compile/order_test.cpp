// Ordering edges, and what a schedule shows about memory before kernels are chosen.
#include <gtest/gtest.h>

#include "athanor/compile/plan.h"
#include "athanor/graph/op.h"
#include "athanor/ops/ops.h"

namespace athanor {
namespace {

/// tanh(x) is needed at the start and at the end of a chain of products. It is kept meanwhile, or computed
/// again late.
class Chain {
 public:
  explicit Chain(bool again, bool late) {
    const int x = input();
    const int early = op("tanh", {x});
    int y = early;
    for (int i = 0; i < 6; ++i) y = op("batch_matmul", {y, y});
    int used = early;
    if (again) {
      used = op("tanh", {x});
      if (late) graph[used].after = {y};
    }
    graph.outputs = {op("sum", {op("mul", {y, used})}, {{"axes", Ints{0, 1, 2}}})};
  }
  Plan plan() const { return compile(graph, {false}, CompileOptions{.deterministic = true}); }
  /// The numbers of the steps that compute tanh.
  static std::vector<size_t> tanhs(const Plan& plan) {
    std::vector<size_t> found;
    for (size_t s = 0; s < plan.steps.size(); ++s)
      for (const std::string& name : plan.steps[s].ops)
        if (name == "tanh") found.push_back(s);
    return found;
  }
  Graph graph;

 private:
  static constexpr int64_t n = 32;
  int input() {
    graph.inputs.push_back(graph.add({.op = &find_op("input"), .type = {DType::f32, {1, n, n}, {}}}));
    return graph.inputs.back();
  }
  int op(const std::string& name, const std::vector<int>& inputs, Attrs attrs = {}) {
    const Op& found = find_op(name);
    std::vector<TensorType> types;
    for (const int i : inputs) types.push_back(graph[i].type);
    return graph.add({.op = &found, .attrs = attrs, .inputs = inputs, .type = found.infer(types, attrs)});
  }
};

TEST(OrderingEdges, KeepAValueThatIsComputedAgain) {
  EXPECT_EQ(Chain::tanhs(Chain(true, false).plan()).size(), 1U);  // the same value is computed once
  const Plan plan = Chain(true, true).plan();
  const std::vector<size_t> found = Chain::tanhs(plan);
  ASSERT_EQ(found.size(), 2U) << explain(plan);
  size_t products_between = 0;
  for (size_t s = found[0]; s < found[1]; ++s)
    products_between += plan.steps[s].ops.front() == "batch_matmul";
  EXPECT_EQ(products_between, 6U) << explain(plan);
}

TEST(OrderingEdges, SaveTheMemoryInBetween) {
  const Plan kept = Chain(false, false).plan(), again = Chain(true, true).plan();
  EXPECT_LT(again.arena_bytes(), kept.arena_bytes());
}

TEST(OrderingEdges, ShowInTheText) {
  EXPECT_NE(to_string(Chain(true, true).graph).find(" after %7"), std::string::npos)
      << to_string(Chain(true, true).graph);
}

TEST(Schedules, TellTheMemoryBeforeKernelsAreChosen) {
  for (const bool again : {false, true}) {
    const Graph graph = Chain(again, true).graph;
    const CompileOptions options{.deterministic = true};
    const Plan planned = schedule(graph, {false}, options), whole = compile(graph, {false}, options);
    int64_t scratch = 0;
    for (const PlanStep& step : whole.steps) {
      scratch = std::max(scratch, static_cast<int64_t>(step.kernel.scratch_bytes));
    }
    EXPECT_GT(planned.planned_memory_bytes(), 0);
    EXPECT_LE(planned.planned_memory_bytes(), whole.planned_memory_bytes());
    EXPECT_GE(planned.planned_memory_bytes() + scratch + 64, whole.planned_memory_bytes());
    for (const PlanStep& step : planned.steps) EXPECT_EQ(step.kernel.kernel, nullptr);
  }
}

}  // namespace
}  // namespace athanor
