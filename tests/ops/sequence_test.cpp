// Norms, positions, attention, recurrent layers, and convolutions of signals and volumes: errors, and what
// PyTorch's results (torch_test.cpp) do not cover.
#include <gtest/gtest.h>

#include "athanor/compile/plan.h"
#include "athanor/runtime/evaluate.h"
#include "tests/ops/values.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::count;
using testing::Doubles;
using testing::expect_error;
using testing::values;

TEST(Rotary, ProductsDependOnDistance) {
  manual_seed(3);
  const Tensor q = normal({1, 6}, 0, 1, DType::f64), k = normal({1, 6}, 0, 1, DType::f64);
  const auto product = [&](int64_t m, int64_t n, bool interleaved) {
    const RotaryOptions options{.interleaved = interleaved};
    return sum(rotary_embedding(q, Tensor::from<int64_t>({m}, {1}), options) *
               rotary_embedding(k, Tensor::from<int64_t>({n}, {1}), options))
        .item();
  };
  for (const bool interleaved : {false, true}) {
    EXPECT_NEAR(product(3, 1, interleaved), product(102, 100, interleaved), 1e-10);
    EXPECT_NEAR(product(7, 7, interleaved), sum(q * k).item(), 1e-12);
  }
}

TEST(Rotary, StoresNoHalves) {
  const Tensor x = Tensor::placeholder({DType::f32, {4, 8, 64, 64}, {}});
  for (const bool interleaved : {false, true}) {
    const auto plan = plan_for({rotary_embedding(x, {}, {.interleaved = interleaved})});
    EXPECT_LT(plan->planned_memory_bytes(), 2.2 * 4 * static_cast<double>(x.size()));
  }
}

TEST(Rotary, Errors) {
  expect_error(ErrorCode::shape, {"rotary_embedding(f32[4, 5], i64[4])", "even D", "sequence_test.cpp"}, [] {
    rotary_embedding(zeros({4, 5}));
  });
  expect_error(ErrorCode::shape, {"the positions are i64[3]", "i64[4]"}, [] {
    rotary_embedding(zeros({4, 6}), zeros({3}, DType::i64));
  });
  expect_error(ErrorCode::shape, {"the positions are f32[4]", "i64[4]"}, [] {
    rotary_embedding(zeros({4, 6}), zeros({4}));
  });
  expect_error(ErrorCode::value, {"a base of 0"}, [] { rotary_embedding(zeros({4, 6}), {}, {.base = 0}); });
  expect_error(ErrorCode::shape, {"rotary_embedding", "[..., T, D]"}, [] { rotary_embedding(zeros({6})); });
}

TEST(RmsNorm, Errors) {
  expect_error(ErrorCode::shape, {"rms_norm(f32[2, 3])", "the scale is [2]", "It is [3]"}, [] {
    rms_norm(zeros({2, 3}), zeros({2}));
  });
  expect_error(ErrorCode::shape, {"no axes"}, [] { rms_norm(zeros({})); });
  expect_error(ErrorCode::shape, {"swiglu", "one shape"}, [] { swiglu(zeros({2, 3}), zeros({2, 4})); });
}

TEST(GroupedAttention, IsThatOfRepeatedHeads) {
  manual_seed(5);
  const Tensor q = normal({2, 6, 3, 4}, 0, 1, DType::f64), k = normal({2, 3, 5, 4}, 0, 1, DType::f64),
               v = normal({2, 3, 5, 2}, 0, 1, DType::f64), mask = normal({3, 5}, 0, 1, DType::f64);
  const Tensor lengths = Tensor::from<int64_t>({5, 4}, {2});
  const AttentionOptions options{.causal = true, .window = 4, .lengths = lengths};
  EXPECT_EQ(values(scaled_dot_product_attention(q, k, v, mask, options)),
            values(scaled_dot_product_attention(q, repeat_interleave(k, 2, 1), repeat_interleave(v, 2, 1),
                                                mask, options)));
}

TEST(GroupedAttention, Errors) {
  const Tensor q = zeros({2, 6, 3, 4}), k = zeros({2, 4, 5, 4});
  expect_error(ErrorCode::shape, {"q has 6 heads (axis -3), k has 4", "divide"},
               [&] { scaled_dot_product_attention(q, k, k); });
  expect_error(ErrorCode::value, {"a window of -1"},
               [&] { scaled_dot_product_attention(q, q, q, {}, {.window = -1}); });
  expect_error(ErrorCode::shape, {"the lengths are i64[3]", "integers [N]"},
               [&] { scaled_dot_product_attention(q, q, q, {}, {.lengths = zeros({3}, DType::i64)}); });
  expect_error(ErrorCode::shape, {"the lengths are f32[2]"},
               [&] { scaled_dot_product_attention(q, q, q, {}, {.lengths = zeros({2})}); });
}

TEST(Attention, OfNoKeysOrFeatures) {
  expect_error(ErrorCode::shape, {"there are 0 keys of 4 features", "sequence_test.cpp"}, [] {
    scaled_dot_product_attention(zeros({2, 3, 4}), zeros({2, 0, 4}), zeros({2, 0, 5}));
  });
  expect_error(ErrorCode::shape, {"there are 5 keys of 0 features"}, [] {
    scaled_dot_product_attention(zeros({2, 3, 0}), zeros({2, 5, 0}), zeros({2, 5, 4}));
  });
}

TEST(Recurrence, Errors) {
  const Tensor gates = zeros({2, 5, 12}), weight = zeros({12, 3});
  expect_error(ErrorCode::shape,
               {"lstm(f32[2, 5, 13], f32[12, 3]", "the gates are [2, 5, 13]", "[N, T, 4 H]"}, [&] {
                 lstm(zeros({2, 5, 13}), weight);
               });
  expect_error(ErrorCode::shape, {"the weight is [12, 4]", "it is [12, 3]"}, [&] {
    lstm(gates, zeros({12, 4}), zeros({2, 3}), zeros({2, 3}));
  });
  expect_error(ErrorCode::shape, {"the first cell state is [2, 4]", "It is [2, 3]"}, [&] {
    lstm(gates, weight, {}, zeros({2, 4}));
  });
  expect_error(ErrorCode::shape, {"gru", "the bias is [4], not [12]"}, [&] {
    gru(gates, zeros({12, 4}), zeros({4}));
  });
  expect_error(ErrorCode::shape, {"gru", "gates [12, 3]"}, [&] { gru(weight, weight); });
  const std::string most = "T and H at least 1";
  expect_error(ErrorCode::shape, {most}, [&] { lstm(zeros({2, 0, 12}), weight); });
  expect_error(ErrorCode::shape, {most}, [] { values(lstm(zeros({2, 3, 0}), zeros({0, 0})).hidden); });
  expect_error(ErrorCode::shape, {most}, [] { values(gru(zeros({2, 3, 0}), zeros({0, 0}))); });
}

TEST(ConvOtherRanks, Errors) {
  const Tensor x = zeros({2, 4, 9}), volume = zeros({2, 4, 3, 5, 5});
  expect_error(ErrorCode::shape,
               {"conv1d(f32[2, 4, 9], f32[6, 3, 3])", "the input has 4 channels, the weight takes 3",
                "[O, 4, kernel...]", "sequence_test.cpp"},
               [&] {
                 conv1d(x, zeros({6, 3, 3}));
               });
  expect_error(ErrorCode::shape, {"conv1d", "spans 10 does not fit an input of 9"}, [&] {
    conv1d(x, zeros({6, 4, 10}));
  });
  expect_error(ErrorCode::value, {"3 groups for 4 channels"}, [&] {
    conv1d(x, zeros({6, 1, 3}), {}, {.groups = 3});
  });
  expect_error(ErrorCode::shape, {"[N, C, L]", "each of 3 axes"}, [&] { conv1d(volume, zeros({6, 4, 3})); });
  expect_error(ErrorCode::shape, {"the bias is [4], not [6]"}, [&] {
    conv1d(x, zeros({6, 4, 3}), zeros({4}));
  });
  expect_error(ErrorCode::shape, {"conv3d", "[N, C, D, H, W]"}, [&] { conv3d(x, zeros({6, 4, 3})); });
  expect_error(ErrorCode::shape, {"conv3d", "spans 4 does not fit an input of 3"}, [&] {
    conv3d(volume, zeros({6, 4, 4, 1, 1}));
  });
  expect_error(ErrorCode::value, {"conv3d", "stride 0"}, [&] {
    conv3d(volume, zeros({6, 4, 1, 1, 1}), {}, {.stride = {1, 0, 1}});
  });
  expect_error(ErrorCode::shape, {"unfold2d", "x has 3 axes"}, [&] { unfold2d(x, 3); });
  expect_error(ErrorCode::shape, {"fold2d", "the columns are [2, 4, 9]", "they are [N, C 4, 16]"},
               [&] { fold2d(x, 5, 2); });
  EXPECT_EQ(conv3d(zeros({0, 4, 3, 5, 5}), zeros({6, 4, 3, 3, 3})).shape(), (Shape{0, 6, 1, 3, 3}));
}

TEST(Windows, FoldOfUnfoldCountsTheWindows) {
  EXPECT_EQ(values(fold2d(unfold2d(ones({1, 1, 3, 3}, DType::f64), 2), 3, 2)),
            (Doubles{1, 2, 1, 2, 4, 2, 1, 2, 1}));
  EXPECT_EQ(values(unfold2d(reshape(count({4}), {1, 1, 2, 2}), 2)), (Doubles{0, 1, 2, 3}));
}

TEST(Ctc, WhatCannotBeEmitted) {
  const Tensor x = log_softmax(zeros({2, 1, 3}), 2);
  const Tensor target = Tensor::from<int64_t>({1, 1}, {1, 2}), times = Tensor::from<int64_t>({2}, {1});
  Tensor free = x.detach();
  free.requires_grad();
  EXPECT_EQ(ctc_loss(x, target, times, times).item(), testing::infinity);  // equals need a blank between
  const Tensor loss = ctc_loss(free, target, times, times, {.zero_infinity = true});
  EXPECT_EQ(loss.item(), 0);
  loss.backward();
  EXPECT_EQ(values(free.grad()), Doubles(6, 0));
}

TEST(Ctc, Errors) {
  const Tensor x = zeros({4, 2, 3}), targets = zeros({2, 2}, DType::i64);
  const auto lengths = [](int64_t a, int64_t b) { return Tensor::from<int64_t>({a, b}, {2}); };
  expect_error(
      ErrorCode::value,
      {"ctc_loss(f32[4, 2, 3], i64[2, 2])", "input length 5 of example 1", "at most 4", "sequence_test.cpp"},
      [&] { ctc_loss(x, targets, lengths(4, 5), lengths(1, 1)); });
  expect_error(ErrorCode::value, {"target length 3 of example 0", "at most 2"},
               [&] { ctc_loss(x, targets, lengths(4, 4), lengths(3, 1)); });
  expect_error(ErrorCode::value, {"the target lengths are undefined"},
               [&] { ctc_loss(x, targets, lengths(4, 4), {}); });
  expect_error(ErrorCode::value, {"class 3 as the blank"},
               [&] { ctc_loss(x, targets, lengths(4, 4), lengths(1, 1), {.blank = 3}); });
  expect_error(ErrorCode::shape, {"[T, N, C] and [N, S]"},
               [&] { ctc_loss(x, zeros({2}, DType::i64), lengths(1, 1), lengths(1, 1)); });
  expect_error(ErrorCode::dtype, {"lengths of integers, not f32"},
               [&] { ctc_loss(x, targets, zeros({2}), lengths(1, 1)); });
}

TEST(Csr, Errors) {
  const auto indices = [](const std::vector<int64_t>& list) {
    return Tensor::from(list, {static_cast<int64_t>(list.size())});
  };
  const Tensor dense = ones({3, 2}), values_of_two = ones({2});
  EXPECT_EQ(values(csr_matmul({indices({0, 1, 2}), indices({2, 0}), values_of_two, 3}, dense)),
            Doubles(4, 1));
  expect_error(
      ErrorCode::value,
      {"csr_matmul(", "the row starts go from 0 to 3", "the number of elements, 2", "sequence_test.cpp"},
      [&] {
        csr_matmul({indices({0, 1, 3}), indices({2, 0}), values_of_two, 3}, dense);
      });
  expect_error(ErrorCode::value, {"row 2 starts at 1, before row 1 at 2", "Sort"}, [&] {
    csr_matmul({indices({0, 2, 1, 2}), indices({2, 0}), values_of_two, 3}, dense);
  });
  expect_error(ErrorCode::value, {"element 0 is in column 3, of 3"}, [&] {
    csr_matmul({indices({0, 1, 2}), indices({3, 0}), values_of_two, 3}, dense);
  });
  expect_error(ErrorCode::shape, {"the dense matrix is [3, 2]", "[4, N]"}, [&] {
    csr_matmul({indices({0, 1, 2}), indices({2, 0}), values_of_two, 4}, dense);
  });
  expect_error(ErrorCode::shape, {"values [3]"}, [&] {
    csr_matmul({indices({0, 1, 2}), indices({2, 0}), ones({3}), 3}, dense);
  });
}

TEST(Einsum, TakesThePathWithTheFewestMultiplications) {
  // (a b) c takes 2 * 50 * 40 + 2 * 40 * 3 multiplications; a c, whose result is the smallest, takes more.
  const Tensor a = ones({2, 50}), b = ones({50, 40}), c = ones({40, 3});
  const auto flops = [](const Tensor& x) { return plan_for({x})->flops(); };
  const int64_t least = flops(matmul(matmul(a, b), c));
  EXPECT_EQ(flops(einsum("ij,jk,kl->il", {a, b, c})), least);
  EXPECT_EQ(flops(einsum("kl,ij,jk->il", {c, a, b})), least);
  const Tensor d = ones({40, 1});
  EXPECT_EQ(flops(einsum("ij,jk,kl->il", {a, b, d})), flops(matmul(a, matmul(b, d))));
}

}  // namespace
}  // namespace athanor
