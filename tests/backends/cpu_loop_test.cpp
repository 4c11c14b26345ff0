// The CPU's fused loops as a whole: simplification before they run, and random programs.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/backends/cpu_loops.h"

namespace athanor {
namespace {

using namespace testing;  // NOLINT: Builder, Memory, ...

// ---- simplification ----

TEST(LoopSimplify, MergesAndOrders) {
  Builder b({4, 1, 5, 6});
  b.store(b.load(0, DType::f32, {30, 9, 6, 1}), 1, DType::f32, {30, 0, 6, 1});
  EXPECT_EQ(simplify_loop(b.p).space, (Ints{120}));
  EXPECT_EQ(b.p.iterations(), 120);

  Builder t({6, 5});  // written column by column
  t.store(t.load(0, DType::f32, {1, 6}), 1, DType::f32, {1, 6});
  EXPECT_EQ(simplify_loop(t.p).space, (Ints{30}));

  Builder bias({4, 5, 6});
  bias.store(bias.op(Prim::add, DType::f32, bias.load(0, DType::f32, {30, 6, 1}),
                     bias.load(1, DType::f32, {0, 0, 1})),
             2, DType::f32, {30, 6, 1});
  EXPECT_EQ(simplify_loop(bias.p).space, (Ints{20, 6}));
  EXPECT_EQ(bias.p.flops(), 120);

  Builder sum({4, 5, 6}, {true, false, true});
  sum.store(sum.reduce(Prim::sum, sum.load(0, DType::f32, {30, 6, 1}), DType::f32), 1, DType::f32, {0, 1, 0});
  EXPECT_EQ(simplify_loop(sum.p).space, (Ints{4, 5, 6}));
  EXPECT_EQ(sum.p.flops(), 120);
}

TEST(LoopSimplify, KeepsTheOrderOfArgmax) {
  Builder b({3, 4}, {true, true});
  b.store(b.reduce(Prim::argmax, b.load(0, DType::f32, {1, 3}), DType::i64), 1, DType::i64, {0, 0});
  EXPECT_EQ(simplify_loop(b.p).operands[0].strides, (Ints{1, 3}));
}

TEST(LoopSimplify, ListsTheProgram) {
  Builder b({2, 3}, {false, true});
  const int x = b.load(0, DType::f32, {3, 1});
  const int m = b.op(Prim::mul, DType::f32, x, x);
  b.store(b.reduce(Prim::sum, m, DType::f32), 1, DType::f32, {1, 0});
  const std::string text = to_string(b.p);
  for (const char* part : {"for [2, 3 reduced]", "r0 = f32 load f32 buffer0[0 + (3, 1)]",
                           "r1 = f32 mul r0 r0", "r2 = f32 sum r1", "store r2"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_EQ(to_string(Prim::random_uniform), "random_uniform");
  EXPECT_EQ(to_string(Prim::none), "none");
}

// ---- random programs ----

class LoopRandomPrograms : public LoopOnIsa {};
TEST_P(LoopRandomPrograms, MeanTheSame) {
  std::mt19937 rng(2024);
  for (int k = 0; k < 400; ++k) {
    const LoopProgram p = random_program(rng);
    Memory m = memory_for(p, rng, -2, 2);
    check(p, m, 2e-4, 1 + k % 3);
    if (HasFatalFailure()) {
      FAIL() << "program " << k;
    }
  }
}
// Sums, differences and products, of which many are pairs, with results over their operands.
TEST_P(LoopRandomPrograms, OfArithmeticInPlace) {
  std::mt19937 rng(7);
  const auto below = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  for (int k = 0; k < 400; ++k) {
    constexpr int64_t sizes[] = {0, 1, 7, 8, 15, 17, 33, 1003, 2500};
    constexpr Prim prims[] = {Prim::add, Prim::sub, Prim::mul};
    const DType t = below(6) == 0 ? DType::f64 : DType::f32;
    Builder b({sizes[below(9)]});
    const int loads = 2 + below(4), steps = 2 + below(9);
    std::vector<int> values, full;
    for (int i = 0; i < loads; ++i) {
      const bool uniform = i > 0 && below(3) == 0;
      if (!uniform) full.push_back(i);
      values.push_back(b.load(i, t, {uniform ? 0 : 1}));
    }
    for (int i = 0; i < steps; ++i) {
      const int recent = static_cast<int>(values.size()) - 1 - below(2);
      const int other = values[static_cast<size_t>(below(static_cast<int>(values.size())))];
      values.push_back(b.op(prims[below(3)], t, values[static_cast<size_t>(recent)], other));
    }
    int fresh = loads;
    for (int i = 0; i <= below(4); ++i) {
      const int source = i == 0 ? values.back() : values[static_cast<size_t>(loads + below(steps))];
      const bool over = !full.empty() && below(2) == 0;
      b.store(source, over ? full.back() : fresh++, t, {1});
      if (over) full.pop_back();
    }
    check(b.p, memory_for(b.p, rng, -1, 1), 1e-3);
    if (HasFatalFailure()) {
      FAIL() << "program " << k;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Isa, LoopRandomPrograms, ::testing::ValuesIn(isas), isa_name);

}  // namespace
}  // namespace athanor
