#include "athanor/kernels/alike.h"

#include <gtest/gtest.h>

#include "tests/support/epilogues.h"

namespace athanor {
namespace {

OperandDesc dense(const Shape& shape) { return {DType::f32, shape, {}, contiguous_strides(shape)}; }

KernelRequest product(int64_t m, int64_t n, int64_t k) {
  return {.op = &find_op("batch_matmul"),
          .attrs = {},
          .inputs = {dense({1, m, k}), dense({1, k, n})},
          .outputs = {dense({1, m, n})},
          .epilogue = {}};
}

TEST(Alike, AreExtentsWithinAFactorOfTwo) {
  EXPECT_EQ(bucket_of(product(33, 128, 256)), bucket_of(product(64, 128, 256)));
  EXPECT_NE(bucket_of(product(32, 128, 256)), bucket_of(product(33, 128, 256)));
  EXPECT_NE(bucket_of(product(33, 128, 256)), bucket_of(product(33, 256, 128)));
  EXPECT_NE(bucket_of(product(7, 128, 256)), bucket_of(product(8, 128, 256))) << "small ones differ";
}

TEST(Alike, AreNotOtherLayoutsTypesOrEpilogues) {
  const KernelRequest plain = product(64, 64, 64);
  KernelRequest other = plain;
  other.inputs[1].strides = {4096, 1, 64};
  EXPECT_NE(bucket_of(plain), bucket_of(other)) << "transposed";
  other = plain;
  other.inputs[0].strides = {4096, 0, 1};
  EXPECT_NE(bucket_of(plain), bucket_of(other)) << "one row, repeated";
  other = plain;
  other.inputs[0].dtype = DType::bf16;
  EXPECT_NE(bucket_of(plain), bucket_of(other));
  other = plain;
  other.epilogue = testing::program_of({.activation = "relu"}, other);
  EXPECT_NE(bucket_of(plain), bucket_of(other));
  other = plain;
  other.inputs[0].strides = {0, 64, 1};
  EXPECT_EQ(bucket_of(plain), bucket_of(other)) << "the stride of one matrix means nothing";
}

TEST(Alike, LeavesAttributesThatAreExtentsToTheOperands) {
  KernelRequest a = product(40, 40, 40), b = product(48, 48, 48);
  a.attrs.set("input_shape", Ints{40, 40}), b.attrs.set("input_shape", Ints{48, 48});
  EXPECT_EQ(bucket_of(a), bucket_of(b));
  a.attrs.set("stride", Ints{1, 1}), b.attrs.set("stride", Ints{2, 2});
  EXPECT_NE(bucket_of(a), bucket_of(b));
}

TEST(WorthTiming, IsAllThatNothingIsKnownOfUnlessItIsTiny) {
  EXPECT_TRUE(worth_timing({.candidates = 4}));
  EXPECT_TRUE(worth_timing({.least_seconds = 1e-4, .candidates = 4}));
  EXPECT_FALSE(worth_timing({.least_seconds = 1e-7, .candidates = 4}));
}

TEST(WorthTiming, IsALongKernelButNotEachOfManyShapes) {
  EXPECT_FALSE(worth_timing({.seconds = 24e-6, .candidates = 4, .alike = 1}));
  EXPECT_TRUE(worth_timing({.seconds = 10e-3, .candidates = 4, .alike = 1}));
  EXPECT_FALSE(worth_timing({.seconds = 10e-3, .candidates = 4, .alike = 20}));
  EXPECT_FALSE(worth_timing({.seconds = 10e-3, .candidates = 20, .alike = 1, .compiles = true}));
}

// One kernel computes q k^T once for both ops: 3 + 2 products, of which they share one. All gradients are 3
// + 3 + 2 products, of which one for q and k shares two.
TEST(WorkOf, OpsThatAreComputedTogetherHasTheSharedProductOnce) {
  const OperandDesc q = dense({2, 5, 4}), k = dense({2, 7, 4}), rows = dense({2, 5});
  const double product = 2 * 2 * 5 * 7 * 4;
  KernelRequest gradients{.op = &find_op("attention_grad_k"),
                          .attrs = {{"causal", false}, {"scale", 1.0}},
                          .inputs = {q, k, k, q, rows, rows},
                          .outputs = {k},
                          .epilogue = {}};
  EXPECT_EQ(work_of(gradients).flops, 3 * product);
  gradients.with = {&find_op("attention_grad_v")};
  gradients.outputs.push_back(k);
  EXPECT_EQ(work_of(gradients).flops, 4 * product);
  KernelRequest all = gradients;
  all.op = &find_op("attention_grad_q");
  all.with = {&find_op("attention_grad_k"), &find_op("attention_grad_v")};
  all.outputs = {q, k, k};
  EXPECT_EQ(work_of(all).flops, 5 * product);
  KernelRequest forward = gradients;
  forward.op = &find_op("scaled_dot_product_attention");
  forward.inputs = {q, k, k};
  forward.outputs = {q, rows};
  forward.with = {&find_op("attention_lse")};
  EXPECT_EQ(work_of(forward).flops, 2 * product);
}

}  // namespace
}  // namespace athanor
