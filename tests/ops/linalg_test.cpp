// Products: ranks, broadcasting and errors. Values against PyTorch are in torch_test.cpp.
#include "athanor/ops/linalg.h"

#include <gtest/gtest.h>

#include <array>

#include "athanor/ops/ops.h"
#include "athanor/ops/product_op.h"
#include "tests/ops/values.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::count;
using testing::Doubles;
using testing::expect_error;
using testing::values;

TEST(Matmul, RanksAsNumPy) {
  EXPECT_EQ(values(matmul(count({2, 3}), count({3, 2}))), (Doubles{10, 13, 28, 40}));
  EXPECT_EQ(matmul(count({3}), count({3})).shape(), Shape{});
  EXPECT_EQ(matmul(count({3}), count({3})).item(), 5);
  EXPECT_EQ(values(matmul(count({3}), count({3, 2}))), (Doubles{10, 13}));
  EXPECT_EQ(values(matmul(count({2, 3}), count({3}))), (Doubles{5, 14}));
  EXPECT_EQ(matmul(zeros({5, 1, 2, 3}), zeros({4, 3, 7})).shape(), (Shape{5, 4, 2, 7}));
  EXPECT_EQ(matmul(zeros({5, 2, 3}), zeros({3})).shape(), (Shape{5, 2}));
  EXPECT_EQ(matmul(zeros({3}), zeros({5, 3, 2})).shape(), (Shape{5, 2}));
  EXPECT_EQ(values(matmul(zeros({2, 0}), zeros({0, 2}))), (Doubles{0, 0, 0, 0}));
  EXPECT_EQ(matmul(zeros({0, 3}), zeros({3, 2})).shape(), (Shape{0, 2}));
  EXPECT_EQ(matmul(count({2, 3}, DType::i64), count({3, 2}, DType::f32)).dtype(), DType::f32);
}

TEST(Matmul, Errors) {
  expect_error(ErrorCode::shape,
               {"matmul(f32[2, 3], f32[4, 5])", "3 columns on the left against 4 rows", "linalg_test.cpp"},
               [] {
                 matmul(zeros({2, 3}), zeros({4, 5}));
               });
  expect_error(ErrorCode::shape, {"matmul", "do not broadcast"}, [] {
    matmul(zeros({2, 1, 3}), zeros({3, 3, 1}));
  });
  expect_error(ErrorCode::shape, {"vectors and matrices", "with *"}, [] { matmul(zeros({}), zeros({3})); });
  expect_error(ErrorCode::shape, {"linear(f32[2, 3], f32[5, 4])", "x has 3 features, the weight takes 4"},
               [] {
                 linear(zeros({2, 3}), zeros({5, 4}));
               });
  expect_error(ErrorCode::shape, {"linear", "the bias is [4], not [5]"}, [] {
    linear(zeros({2, 3}), zeros({5, 3}), zeros({4}));
  });
  expect_error(ErrorCode::dtype, {"batch_matmul", "bool"}, [] {
    matmul(zeros({1, 1}, DType::b8), zeros({1, 1}, DType::b8));
  });
}

// Compares each with the product of the same numbers in i64 and f64.
TEST(Matmul, WideOneSumsSmallTypesInWideOnes) {
  const auto numbers = [](const Shape& shape, int64_t step, int64_t most) {
    std::vector<double> all(static_cast<size_t>(shape.size()));
    for (size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<double>((static_cast<int64_t>(i) * step) % (2 * most) - most);
    return all;
  };
  const auto tensor = [](DType dtype, const Shape& shape, const std::vector<double>& all) {
    return Tensor::from(from_doubles(dtype, shape, all));
  };
  const Shape a{3, 5, 200}, b{200, 7};
  const auto bytes_a = numbers(a, 37, 128), bytes_b = numbers(b, 53, 128);
  const Tensor bytes = wide_matmul(tensor(DType::i8, a, bytes_a), tensor(DType::i8, b, bytes_b));
  EXPECT_EQ(bytes.dtype(), DType::i32);
  EXPECT_EQ(bytes.shape(), (Shape{3, 5, 7}));
  EXPECT_EQ(values(bytes), values(matmul(tensor(DType::i64, a, bytes_a), tensor(DType::i64, b, bytes_b))));
  for (const DType dtype : {DType::f8e4m3, DType::f8e5m2}) {
    const auto small_a = numbers(a, 3, 8), small_b = numbers(b, 5, 8);
    const Tensor floats = wide_matmul(tensor(dtype, a, small_a), tensor(dtype, b, small_b));
    EXPECT_EQ(floats.dtype(), DType::f32);
    EXPECT_EQ(values(floats), values(matmul(tensor(DType::f64, a, small_a), tensor(DType::f64, b, small_b))));
  }
  expect_error(ErrorCode::dtype, {"wide_batch_matmul", "takes i8, f8e4m3 or f8e5m2, not f32"}, [] {
    wide_matmul(zeros({1, 1}), zeros({1, 1}));
  });
  expect_error(ErrorCode::dtype, {"takes inputs of one dtype"}, [] {
    wide_matmul(zeros({1, 1}, DType::i8), zeros({1, 1}, DType::f8e4m3));
  });
  expect_error(ErrorCode::shape, {"3 columns on the left against 4 rows"}, [] {
    wide_matmul(zeros({2, 3}, DType::i8), zeros({4, 5}, DType::i8));
  });
}

TEST(DotGeneral, SumsOverPairsOfAxes) {
  const Tensor a = count({2, 3, 4}), b = count({4, 2, 5});
  EXPECT_EQ(dot_general(a, b, {2}, {0}, {0}, {1}).shape(), (Shape{2, 3, 5}));
  EXPECT_EQ(values(dot_general(a, b, {2}, {0}, {0}, {1})), values(einsum("bik,kbj->bij", {a, b})));
  EXPECT_EQ(values(dot_general(a, a, {0, 1, 2}, {0, 1, 2})), Doubles{4324});
  EXPECT_EQ(dot_general(a, b, {}, {}).shape(), (Shape{2, 3, 4, 4, 2, 5}));
  expect_error(ErrorCode::shape,
               {"dot_general", "contracted axis 1 of the left has 3, axis 0 of the right 4"},
               [&] { dot_general(a, b, {1}, {0}); });
}

TEST(Einsum, Forms) {
  const Tensor a = count({2, 3}), b = count({3, 2});
  EXPECT_EQ(values(einsum("ij,jk", {a, b})), (Doubles{10, 13, 28, 40}));
  EXPECT_EQ(values(einsum("ij->ji", {a})), (Doubles{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(einsum("ij->", {a})), Doubles{15});
  EXPECT_EQ(values(einsum("ij->j", {a})), (Doubles{3, 5, 7}));
  EXPECT_EQ(values(einsum("ii->i", {count({3, 3})})), (Doubles{0, 4, 8}));
  EXPECT_EQ(values(einsum("iii", {count({2, 2, 2})})), Doubles{7});
  EXPECT_EQ(values(einsum(",i", {Tensor::from<double>({2}, {}), count({2})})), (Doubles{0, 2}));
  EXPECT_EQ(values(einsum("i,i,i->", {count({3}), count({3}), count({3})})), Doubles{9});
  EXPECT_EQ(einsum("...i,i...->...", {zeros({4, 3}), zeros({3, 4})}).shape(), (Shape{4}));
  EXPECT_EQ(einsum("ij,jk->ik", {count({2, 3}, DType::i32), count({3, 2}, DType::i32)}).dtype(), DType::i32);
  EXPECT_EQ(einsum("ij,jk->ik", {zeros({2, 0}), zeros({0, 2})}).shape(), (Shape{2, 2}));
}

TEST(Einsum, Errors) {
  const Tensor a = zeros({2, 3});
  expect_error(ErrorCode::shape,
               {"einsum(\"ij,jk->ik\")", "index 'j' has extents 3 and 2", "linalg_test.cpp"}, [&] {
                 einsum("ij,jk->ik", {a, a});
               });
  expect_error(ErrorCode::shape, {"2 terms for 1 tensors"}, [&] { einsum("ij,jk", {a}); });
  expect_error(ErrorCode::shape, {"'ijk' does not fit a tensor f32[2, 3]"}, [&] { einsum("ijk->i", {a}); });
  expect_error(ErrorCode::shape, {"index 'k' of the result is in no term"}, [&] { einsum("ij->k", {a}); });
  expect_error(ErrorCode::shape, {"index 'i' is twice in the result"}, [&] { einsum("ij->ii", {a}); });
  expect_error(ErrorCode::shape, {"'1' in 'i1' is not a letter"}, [&] { einsum("i1->i", {a}); });
}

TEST(Attention, MasksHideKeys) {
  const Tensor q = zeros({1, 1, 2}), k = zeros({1, 3, 2}), v = count({1, 3, 1}, DType::f32);
  EXPECT_EQ(scaled_dot_product_attention(q, k, v).item(), 1);
  const Tensor seen = Tensor::from<int64_t>({1, 0, 1}, {3}) > 0;
  EXPECT_EQ(scaled_dot_product_attention(q, k, v, slice(seen, {Slice(0, 3)})).item(), 1);
  EXPECT_EQ(scaled_dot_product_attention(q, k, v, Tensor::from<int64_t>({1, 1, 0}, {3}) > 0).item(), 0.5);
  expect_error(ErrorCode::shape, {"scaled_dot_product_attention", "queries have 2 features, keys 4"}, [&] {
    scaled_dot_product_attention(q, zeros({1, 3, 4}), v);
  });
}

TEST(Linalg, EachTypeHasAnOpForItsProducts) {
  for (const DType dtype :
       {DType::f32, DType::f16, DType::bf16, DType::i32, DType::i8, DType::f8e4m3, DType::f8e5m2}) {
    const Op& op = product_op(dtype);
    const std::array factors{TensorType{dtype, {1, 2, 3}, {}}, TensorType{dtype, {1, 3, 4}, {}}};
    const DType sums = dtype == DType::i8 ? DType::i32 : size_of(dtype) == 1 ? DType::f32 : dtype;
    EXPECT_EQ(op.infer(factors, {}), (TensorType{sums, {1, 2, 4}, {}})) << to_string(dtype);
  }
}

}  // namespace
}  // namespace athanor
