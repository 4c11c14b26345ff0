// What the compiler guarantees: what is fused, what is updated in place, and that memory never
// overlaps.
#include "athanor/compile/plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

Tensor ramp(const Shape& shape, double scale = 0.1) {
  std::vector<float> values(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(scale * (static_cast<double>(i % 23) - 11));
  return Tensor::from(values, shape);
}

// Two temporaries (or scratch blocks) that are alive in the same step must not share a byte.
void expect_no_overlap(const Plan& plan) {
  struct Block {
    int first, last;
    int64_t begin, end;
  };
  std::vector<Block> blocks;
  for (const auto& v : plan.values)
    if (v.kind == PlanValue::Kind::temporary && v.first_step >= 0 && v.in_place_of < 0)
      blocks.push_back(
          {v.first_step, v.last_step, v.offset, v.offset + static_cast<int64_t>(v.type.bytes())});
  for (int s = 0; s < static_cast<int>(plan.steps.size()); ++s) {
    const auto& step = plan.steps[static_cast<size_t>(s)];
    if (step.scratch_offset >= 0)
      blocks.push_back(
          {s, s, step.scratch_offset, step.scratch_offset + static_cast<int64_t>(step.kernel.scratch_bytes)});
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_LE(blocks[i].end, plan.arena_bytes());
    for (size_t j = 0; j < i; ++j) {
      const bool together = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
      const bool overlap = blocks[i].begin < blocks[j].end && blocks[j].begin < blocks[i].end;
      EXPECT_FALSE(together && overlap) << "blocks " << i << " and " << j;
    }
  }
}

TEST(Plan, DeterministicPlansTimeNothing) {
  const bool before = compile_options().deterministic;
  compile_options().deterministic = true;
  const Tensor y = conv2d(ramp({2, 8, 6, 6}), ramp({16, 8, 3, 3}));
  y.eval();
  compile_options().deterministic = before;
  for (const PlanStep& step : last_plan()->steps) {
    EXPECT_TRUE(step.measured.empty()) << step.name();
    EXPECT_EQ(step.why.find("fastest"), std::string::npos) << step.why;
  }
}

TEST(Plan, AChainOfElementwiseOpsIsOneStep) {
  const Tensor x = ramp({31, 17}), y = ramp({17});
  const Tensor z = exp(-(x * 2.0 + y)) / (1.0 + abs(x));
  const auto plan = plan_for({z});
  ASSERT_EQ(plan->steps.size(), 1U);
  EXPECT_EQ(plan->steps[0].loops.size(), 1U);
  EXPECT_EQ(plan->arena_bytes(), 0);
}

TEST(Plan, SwitchedOffFusionRunsEachOpAlone) {
  const ScopedDisable off("fuse");
  const Tensor x = ramp({31, 17});
  const Tensor z = exp(-(x * x));
  EXPECT_EQ(plan_for({z})->steps.size(), 3U);
}

TEST(Plan, AReductionTakesItsProducersAndItsEpilogue) {
  const Tensor x = ramp({64, 100});
  const Tensor norm = sqrt(sum(x * x, {1}) / 100.0);
  EXPECT_EQ(plan_for({norm})->steps.size(), 1U);
}

TEST(Plan, SiblingReductionsShareOneWalk) {
  const Tensor x = ramp({64, 100}), y = ramp({64, 100});
  const Tensor a = sum(x * y, {0}), b = sum(x, {0});
  EXPECT_EQ(plan_for({a, b})->steps.size(), 1U);
}

TEST(Plan, NormalisationReadsItsInputThreeTimesAndStoresOnce) {
  const Tensor x = ramp({8, 16, 5, 5});
  const Tensor y = relu(batch_norm(x, ramp({16}), ramp({16})));
  const auto plan = plan_for({y});
  EXPECT_EQ(plan->steps.size(), 3U);  // mean; variance; normalise, scale, shift and ReLU in one loop
  int64_t large = 0;
  for (const auto& v : plan->values)
    if (v.kind == PlanValue::Kind::temporary && v.type.shape.size() >= x.size()) ++large;
  EXPECT_EQ(large, 0) << explain(*plan);
}

TEST(Plan, BiasAndActivationJoinTheContraction) {
  const Tensor x = ramp({12, 20}), w = ramp({7, 20}), b = ramp({7});
  const Tensor y = relu(linear(x, w, b));
  const auto plan = plan_for({y});
  ASSERT_EQ(plan->steps.size(), 1U) << explain(*plan);
  EXPECT_EQ(plan->steps[0].name(), "batch_matmul+bias+relu");
}

TEST(Plan, ParametersAreUpdatedWhereTheyLie) {
  Tensor p = ramp({50, 40}), m = ramp({50, 40});
  p.eval(), m.eval();
  const void* before_p = p.node()->value->address();
  const void* before_m = m.node()->value->address();
  const Tensor g = ramp({50, 40}, 0.3);
  m = 0.9 * m + g;
  p = p - 0.1 * m;
  p.eval();
  EXPECT_EQ(p.node()->value->address(), before_p);
  EXPECT_EQ(m.node()->value->address(), before_m);
  EXPECT_EQ(last_plan()->steps.size(), 1U);
}

// If both changed addresses in every step, captured launches could not run again.
TEST(Plan, ParametersOfOneLoopDoNotSwapTheirMemory) {
  Tensor p = ramp({50, 40}), m = ramp({50, 40}, 0.2);
  p.eval(), m.eval();
  const void* before_p = p.node()->value->address();
  const void* before_m = m.node()->value->address();
  const Tensor g = ramp({50, 40}, 0.3);
  p = 0.1 * m + p;
  m = 0.9 * m + g;
  eval({p, m});
  EXPECT_EQ(last_plan()->steps.size(), 1U);
  EXPECT_EQ(p.node()->value->address(), before_p);
  EXPECT_EQ(m.node()->value->address(), before_m);
}

TEST(Plan, AnUpdateAtTheEndOfAReductionIsInPlace) {
  // A bias with momentum: only this update needs its gradient, which is a sum.
  const Tensor g = ramp({64, 48}, 0.3);
  const auto step = [&](Tensor& p, Tensor& m) {
    m = 0.9 * m + sum(g, {0});
    p = p - 0.1 * m;
    p.eval();
  };
  Tensor p = ramp({48}), m = ramp({48}, 0.2);
  p.eval(), m.eval();
  const void* before_p = p.node()->value->address();
  const void* before_m = m.node()->value->address();
  step(p, m);
  EXPECT_EQ(last_plan()->steps.size(), 1U);
  EXPECT_EQ(p.node()->value->address(), before_p);
  EXPECT_EQ(m.node()->value->address(), before_m);
  const ScopedDisable off("inplace");
  Tensor q = ramp({48}), n = ramp({48}, 0.2);
  step(q, n);
  EXPECT_EQ(p.to_vector<float>(), q.to_vector<float>());
  EXPECT_EQ(m.to_vector<float>(), n.to_vector<float>());
}

TEST(Plan, AnEpilogueDoesNotOverwriteWhatItsLoopReadsElsewhere) {
  // Every sum reads all of p. The first result must not take over p's memory before the last sum is done.
  const auto results = [] {
    Tensor p = ramp({40}), q = ramp({40});
    const Tensor x = ramp({40, 40}, 0.3), y = ramp({40, 40}, 0.2);
    eval({p, q});
    p = p + sum(x * reshape(p, {1, 40}), {1});  // read along the reduced axis
    q = flip(q) + sum(y, {1});                  // reads the element of another index of the epilogue
    eval({p, q});
    for (int output : last_plan()->outputs)
      EXPECT_LT(last_plan()->values[static_cast<size_t>(output)].in_place_of, 0) << explain(*last_plan());
    return std::pair(p.to_vector<float>(), q.to_vector<float>());
  };
  const auto got = results();
  const ScopedDisable off("inplace,fuse");
  const auto want = results();
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_NEAR(got.first[i], want.first[i], 1e-4);
    EXPECT_NEAR(got.second[i], want.second[i], 1e-4);
  }
}

TEST(Plan, DropoutKeepsItsMaskInsteadOfItsNumbers) {
  Generator generator(3);
  Tensor x = ramp({24, 40});
  x.requires_grad();
  const Tensor w = ramp({40, 16}, 0.1);
  const Tensor y = matmul(dropout(tanh(x), 0.5, true, generator), w);
  sum(y * y).backward();
  x.grad().eval();
  int masks = 0;
  for (const PlanValue& value : last_plan()->values) {
    masks += value.type.dtype == DType::b8;
    EXPECT_FALSE(value.type.dtype == DType::f32 && value.type.shape == Shape({24 * 40}))
        << explain(*last_plan());
  }
  EXPECT_EQ(masks, 1) << explain(*last_plan());
}

TEST(Plan, AValueThatSomeoneHoldsIsNotOverwritten) {
  Tensor p = ramp({50});
  p.eval();
  const Tensor old = p;
  const auto before = old.to_vector<float>();
  p = p - 1.0;
  p.eval();
  EXPECT_EQ(old.to_vector<float>(), before);
  EXPECT_FLOAT_EQ(p.to_vector<float>()[0], before[0] - 1);
}

TEST(Plan, AParameterStillReadLaterIsUpdatedAfterwards) {
  Tensor p = ramp({300, 300});
  p.eval();
  const auto old = p.to_vector<float>();
  const Tensor x = ramp({10, 300});
  const Tensor y = matmul(x, p);
  p = p * 2.0;
  const Tensor z = matmul(y, transpose(ramp({10, 300}), 0, 1));
  eval({z});
  Tensor expected = matmul(matmul(x, Tensor::from(old, {300, 300})), transpose(ramp({10, 300}), 0, 1));
  const auto got = z.to_vector<float>(), want = expected.to_vector<float>();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-3 * std::abs(want[i]) + 1e-3);
}

// Checks for NaN after each step while this exists.
class CheckNan {
 public:
  CheckNan() { compile_options().check_nan = true; }
  ~CheckNan() { compile_options().check_nan = before_; }
  CheckNan(const CheckNan&) = delete;
  CheckNan& operator=(const CheckNan&) = delete;

 private:
  bool before_ = compile_options().check_nan;
};

TEST(Plan, AValueThatAFailedUpdateMayHaveTouchedIsLost) {
  const CheckNan check;
  Tensor p = ramp({50}), other = ramp({30});
  eval({p, other});
  p = p * 2.0;
  other = other + 1.0;
  {
    const Tensor bad = log(sum(p) * 0.0 - 1.0);
    testing::expect_error(ErrorCode::numeric, {"log", "NaN"}, [&] { bad.item(); });
  }
  testing::expect_error(ErrorCode::value, {"lost", "log", "produced NaN"}, [&] { p.eval(); });
  testing::expect_error(ErrorCode::value, {"lost", "plan_test.cpp"}, [&] { (p + 1.0).eval(); });
  EXPECT_EQ(ramp({3}).to_vector<float>(), ramp({3}).to_vector<float>());  // other work still succeeds
  p = ramp({50});
  EXPECT_EQ((p + 1.0).to_vector<float>()[0], p.to_vector<float>()[0] + 1);
}

TEST(Plan, AnErrorBeforeAnUpdateLeavesTheOldValue) {
  const CheckNan check;
  Tensor p = ramp({50});
  p.eval();
  const auto old = p.to_vector<float>();
  {
    const Tensor bad = log(sum(ramp({20, 30})) * 0.0 - 1.0);
    p = p * bad;
    testing::expect_error(ErrorCode::numeric, {"NaN"}, [&] { p.eval(); });
  }
  testing::expect_error(ErrorCode::numeric, {"NaN"},
                        [&] { p.eval(); });  // fails again, because no tensor was changed
  EXPECT_EQ(p.node()->inputs[0]->value->bytes(), old.size() * sizeof(float));
}

TEST(Plan, TemporariesNeverOverlap) {
  Tensor x = ramp({16, 1, 14, 14}), w1 = ramp({16, 1, 3, 3}), w2 = ramp({32, 16, 3, 3});
  w1.requires_grad(), w2.requires_grad();
  const Tensor h = relu(conv2d(x, w1, {}, {.padding = 1}));
  const Tensor y = max_pool2d(relu(conv2d(h, w2, {}, {.padding = 1})), 2);
  const Tensor loss = mean(y * y);
  loss.backward();
  const Tensor g1 = w1.grad(), g2 = w2.grad();
  for (const char* disabled : {"", "layout", "inplace", "dedicated", "fuse", "epilogue"}) {
    const ScopedDisable off(disabled);
    expect_no_overlap(*plan_for({loss, g1, g2}));
  }
}

TEST(Plan, GradientsThatNobodyAsksForLeaveNothingBehind) {
  WeakNodePtr leaf;
  {
    Tensor w = ramp({5});
    w.requires_grad();
    sum(w * w).backward();  // the gradient refers to w, and w's slot refers to the gradient
    leaf = WeakNodePtr(w.node());
  }
  EXPECT_TRUE(leaf.expired());
  EXPECT_TRUE(pending_nodes().empty());
}

TEST(Plan, MemoryIsReused) {
  Tensor x = ramp({1000, 100});
  for (int i = 0; i < 12; ++i) x = softmax(x * 2.0, 1);
  const auto plan = plan_for({x});
  EXPECT_LE(plan->arena_bytes(), 4 * 400'000 + 100'000);
}

TEST(Plan, TheSecondStepReusesThePlanWhateverTheScalars) {
  Tensor p = ramp({20});
  p.eval();
  reset_evaluation_stats();
  for (int i = 0; i < 5; ++i) {
    p = p - Tensor::scalar(0.1 * i) * p;
    p.eval();
  }
  EXPECT_LE(evaluation_stats().plans_compiled, 1);
  EXPECT_GE(evaluation_stats().plans_reused, 4);
}

TEST(Plan, IsNotSharedByGraphsWithOtherAttributes) {
  // The two pairs of bounds once had the same 64-bit hash.
  const Tensor x = Tensor::from<float>({-9, 0.5, 9}, {3}).eval();
  EXPECT_EQ(clamp(x, -1, 1).to_vector<float>(), (std::vector<float>{-1, 0.5F, 1}));
  EXPECT_EQ(clamp(x, -4.0064, 0x1.84e785223ec49p+6).to_vector<float>(),
            (std::vector<float>{-4.0064F, 0.5F, 9}));
}

TEST(Plan, AnOpWithoutKernelOrDecompositionIsNamedWithTheCallersLine) {
  static const Op& op =
      define_op({.name = "test_unkernelled", .doc = "Cannot run.", .infer = [](auto in, const Attrs&) {
                   return in[0];
                 }});
  const Tensor x = ramp({3});
  const auto line = std::source_location::current().line() + 1;
  const Tensor y = apply(op, {x});
  try {
    plan_for({y});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("test_unkernelled"), std::string::npos) << error.what();
    EXPECT_NE(error.where().find("plan_test.cpp:" + std::to_string(line)), std::string::npos)
        << error.where();
  }
}

TEST(Plan, OutputsThatAreViewsOrRepeatedHaveMemoryOfTheirOwn) {
  const Tensor x = ramp({4, 6});
  const Tensor y = x * 2.0;
  const Tensor t = transpose(y, 0, 1), r = reshape(y, {24}), b = broadcast_to(Tensor::scalar(3.0), {5});
  eval({y, t, r, b});
  EXPECT_NE(y.node()->value, r.node()->value);
  EXPECT_EQ(r.to_vector<float>(), y.to_vector<float>());
  EXPECT_EQ(t.to_vector<float>()[1], y.to_vector<float>()[6]);
  EXPECT_EQ(b.to_vector<float>(), std::vector<float>(5, 3.0F));
}

TEST(Plan, ExplainAndJsonSayTheSame) {
  const Tensor y = relu(linear(ramp({12, 20}), ramp({7, 20}), ramp({7})));
  const auto plan = plan_for({y});
  const auto json = to_json(*plan);
  EXPECT_EQ(json["kernels_total"], plan->steps.size());
  EXPECT_EQ(json["kernels_off_device"], 0);
  const std::string text = explain(*plan);
  EXPECT_NE(text.find("batch_matmul+bias+relu"), std::string::npos);
  EXPECT_NE(text.find("f32[1, 12, 7]"), std::string::npos) << text;
  EXPECT_EQ(plan->flops(), 2 * 12 * 20 * 7);
}

TEST(Plan, ExplainListsTheKernelsThatWereLeftOutByReason) {
  Plan plan = *plan_for({linear(ramp({12, 20}), ramp({7, 20}), ramp({7}))});
  EXPECT_EQ(explain(plan).find("left out"), std::string::npos);
  const std::string large = "needs 300 MiB of scratch memory, the most is 256 MiB";
  plan.steps[0].left_out = {{"lib 1 algorithm 2", large},
                            {"lib 1 algorithm 5", "its results are wrong"},
                            {"lib 1 algorithm 6", large}};
  plan.steps.push_back(plan.steps[0]);  // the same problem is reported once
  EXPECT_TRUE(explain(plan).ends_with("\nKernels that were left out:\n\nstep 0 " + plan.steps[0].name() +
                                      ":\n  lib 1 algorithm 2, lib 1 algorithm 6: " + large +
                                      "\n  lib 1 algorithm 5: its results are wrong\n"))
      << explain(plan);
  EXPECT_EQ(to_json(plan)["steps"][0]["left_out"][1]["why"], "its results are wrong");
}

TEST(Plan, ExplainSaysTheTypeThatIsComputedIn) {
  const auto text_of = [](DType dtype) {
    const Tensor y = matmul(cast(ramp({12, 20}), dtype), cast(ramp({20, 7}), dtype));
    return explain(*plan_for({y}));
  };
  EXPECT_NE(text_of(DType::bf16).find(" in f32"), std::string::npos) << text_of(DType::bf16);
  EXPECT_EQ(text_of(DType::f32).find(" in f32"), std::string::npos) << text_of(DType::f32);
}

TEST(Plan, UnknownPassesAreNamedWithTheNearest) {
  try {
    parse_passes("fuze");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'fuse'"), std::string::npos) << error.what();
  }
}

// An exponential takes a GPU less time than to write it and read it again; a CPU keeps it.
TEST(Plan, GpusComputeFunctionsAgain) {
  const auto kept = [](Device device) {
    const Tensor x = uniform({64, 1000}, -1, 1).eval().to(device);
    const auto softmax_of = [](const Tensor& from) {
      const Tensor e = exp(from);
      return e / sum(e, {1}, true);
    };
    const Tensor y = softmax_of(x);
    const auto plan = plan_for({y});
    return std::ranges::count_if(plan->values, [](const PlanValue& value) {
      return value.kind == PlanValue::Kind::temporary && value.type.shape.size() == 64 * 1000;
    });
  };
  EXPECT_EQ(kept({}), 1);
  EXPECT_EQ(kept(parse_device("offline")), 0);
}

}  // namespace
}  // namespace athanor
