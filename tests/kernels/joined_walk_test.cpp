// Two loops joined into one.
#include "athanor/kernels/joined_walk.h"

#include <gtest/gtest.h>

namespace athanor {
namespace {

LoopStep load(int operand) {
  LoopStep step;
  step.kind = LoopStep::Kind::load;
  step.operand = operand;
  return step;
}

LoopStep apply(Prim prim, int a, int b = -1) {
  LoopStep step;
  step.prim = prim;
  step.a = a;
  step.b = b;
  return step;
}

/// Buffer 1 = exp(buffer 0).
LoopProgram exponents(const Ints& space, const Ints& strides) {
  LoopProgram p;
  p.space = space;
  p.reduced.assign(space.size(), false);
  p.operands = {{0, DType::f32, 0, strides}, {1, DType::f32, 0, strides}};
  p.body = {load(0), apply(Prim::exp, 0)};
  p.stores = {{1, 1}};
  p.buffers = 2;
  return p;
}

/// Buffer 2 = the sums of buffer 0 * buffer 1 over the last dimension, times 2.
LoopProgram sums(const Ints& space, const Ints& strides, const Ints& results) {
  LoopProgram p;
  p.space = space;
  p.reduced.assign(space.size(), false);
  p.reduced.back() = true;
  p.operands = {{0, DType::f32, 0, strides}, {1, DType::f32, 0, strides}, {2, DType::f32, 0, results}};
  p.body = {load(0), load(1), apply(Prim::mul, 0, 1)};
  p.reductions = {{Prim::sum, 2, DType::f32}};
  p.epilogue = {apply(Prim::add, 3, 3)};
  p.epilogue_stores = {{4, 2}};
  p.buffers = 3;
  return p;
}

// The sums' first input is the first loop's result. It stays buffer 2 of the joined loop, between another
// input and the sums' result.
TEST(JoinedWalk, ReadsWhatIsStoredFromItsRegister) {
  LoopProgram first = exponents({6, 4}, {4, 1});
  first.operands[1].buffer = 2;
  const auto joined = joined_walk(first, sums({3, 2, 4}, {8, 4, 1}, {2, 1, 0}), {2, 1, 3}, 4);
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ(joined->space, (Ints{3, 2, 4}));
  EXPECT_EQ(joined->reduced, (std::vector<bool>{false, false, true}));
  ASSERT_EQ(joined->body.size(), 4U) << to_string(*joined);  // load, exp, load, mul
  EXPECT_EQ(joined->operands[static_cast<size_t>(joined->body[2].operand)].buffer, 1);
  EXPECT_EQ(joined->body[3].a, 1);
  EXPECT_EQ(joined->body[3].b, 2);
  EXPECT_EQ(joined->operands[0].strides, (Ints{8, 4, 1}));
  EXPECT_EQ(joined->reductions.front().source, 3);
  EXPECT_EQ(joined->epilogue.front().a, 4);
  EXPECT_EQ(joined->epilogue_stores.front().source, 5);
  EXPECT_EQ(joined->buffers, 4);
}

TEST(JoinedWalk, ComputesTheSameStepOnce) {
  LoopProgram second = exponents({24}, {1});
  second.operands[1].buffer = 2;
  const auto joined = joined_walk(exponents({6, 4}, {4, 1}), second, {0, 9, 2}, 3);
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ(joined->body.size(), 2U) << to_string(*joined);
  EXPECT_EQ(joined->stores.size(), 2U);
}

TEST(JoinedWalk, TwoReductionsMustBeAlongTheSameDimensions) {
  LoopProgram rows = sums({6, 4}, {4, 1}, {1, 0}), columns = rows;
  columns.reduced = {true, false};
  columns.operands[2].strides = {0, 1};
  EXPECT_TRUE(joined_walk(rows, rows, {0, 1, 3}, 4).has_value());
  EXPECT_FALSE(joined_walk(rows, columns, {0, 1, 3}, 4).has_value());
}

// The sums of a transposed product are sums of its columns.
TEST(JoinedWalk, TurnsDimensions) {
  const auto joined = joined_walk(exponents({4, 6}, {6, 1}), sums({6, 4}, {1, 6}, {1, 0}), {1, 0, 2}, 3);
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ(joined->space, (Ints{4, 6}));
  EXPECT_EQ(joined->reduced, (std::vector<bool>{true, false}));
}

TEST(JoinedWalk, NeedsTheSameElementsAtTheSameTime) {
  EXPECT_FALSE(
      joined_walk(exponents({6, 4}, {4, 1}), sums({6, 4}, {1, 6}, {1, 0}), {1, 0, 2}, 3).has_value());
  EXPECT_FALSE(
      joined_walk(exponents({6, 4}, {4, 1}), sums({8, 3}, {3, 1}, {1, 0}), {1, 0, 2}, 3).has_value());
  // A reduction's results are not known yet when the second loop needs them.
  EXPECT_FALSE(joined_walk(sums({6, 4}, {4, 1}, {1, 0}), exponents({6}, {1}), {2, 3}, 4).has_value());
  EXPECT_FALSE(joined_walk(sums({6, 4}, {4, 1}, {1, 0}), exponents({6, 4}, {1, 0}), {2, 3}, 4).has_value());
}

}  // namespace
}  // namespace athanor
