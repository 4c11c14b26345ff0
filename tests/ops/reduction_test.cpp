// Reductions, scans and order: dtypes, axes, edge values and errors.
#include "athanor/ops/reduction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "athanor/ops/ops.h"
#include "tests/ops/values.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::count;
using testing::Doubles;
using testing::expect_error;
using testing::f64;
using testing::infinity;
using testing::values;

TEST(Reduction, AxesAndKeptDims) {
  const Tensor x = count({2, 3});
  EXPECT_EQ(values(sum(x)), Doubles{15});
  EXPECT_EQ(sum(x).shape(), Shape{});
  EXPECT_EQ(values(sum(x, 0)), (Doubles{3, 5, 7}));
  EXPECT_EQ(values(sum(x, -1)), (Doubles{3, 12}));
  EXPECT_EQ(sum(x, {0, 1}, true).shape(), (Shape{1, 1}));
  EXPECT_EQ(sum(x, 1, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(values(sum(x, Axes(Ints{}))), values(x));
  expect_error(ErrorCode::shape, {"sum(f64[2, 3])", "axis 2 is out of range", "reduction_test.cpp"},
               [&] { sum(x, 2); });
  expect_error(ErrorCode::shape, {"appears twice"}, [&] { sum(x, {0, -2}); });
}

TEST(Reduction, NarrowIntegersSumAsI64) {
  const Tensor bytes = full({1000}, 255, DType::u8);
  EXPECT_EQ(sum(bytes).dtype(), DType::i64);
  EXPECT_EQ(sum(bytes).item(), 255000);
  EXPECT_EQ(sum(bytes > 3).item(), 1000);
  EXPECT_EQ(mean(bytes).dtype(), DType::f32);
  EXPECT_EQ(mean(bytes).item(), 255);
  EXPECT_EQ(prod(full({10}, 2, DType::i8)).item(), 1024);
  EXPECT_EQ(cumsum(full({3}, 200, DType::u8), 0).to_vector<int64_t>(), (std::vector<int64_t>{200, 400, 600}));
}

TEST(Reduction, OfNothing) {
  EXPECT_EQ(values(sum(zeros({2, 0}), 1)), (Doubles{0, 0}));
  EXPECT_EQ(values(prod(zeros({2, 0}), 1)), (Doubles{1, 1}));
  EXPECT_TRUE(std::isnan(mean(zeros({0})).item()));
  EXPECT_EQ(all(zeros({0})).item(), 1);
  EXPECT_EQ(any(zeros({0})).item(), 0);
  EXPECT_EQ(max(zeros({0, 3}), 1).shape(), (Shape{0}));
  expect_error(ErrorCode::shape, {"max(f32[2, 0])", "axis 1 has no elements"}, [] { max(zeros({2, 0}), 1); });
  expect_error(ErrorCode::shape, {"argmax", "axis 1 has no elements"}, [] { argmax(zeros({2, 0})); });
}

TEST(Reduction, ExtremaAndTheirPlaces) {
  EXPECT_EQ(argmax(f64({1, 3, 3, 2})).item(), 1);
  EXPECT_EQ(argmin(f64({1, 0, 0, 2})).item(), 1);
  EXPECT_EQ(argmax(f64({1, NAN, 3, NAN})).item(), 1);
  EXPECT_EQ(argmin(f64({1, 0, NAN})).item(), 2);
  EXPECT_EQ(argmin(cast(f64({200, 0, 3}), DType::u8)).item(), 1);
  EXPECT_EQ(argmin(Tensor::from<int64_t>({5, std::numeric_limits<int64_t>::min(), 0}, {3})).item(), 1);
  EXPECT_EQ(argmax(count({2, 3}), 0, true).shape(), (Shape{1, 3}));
  EXPECT_TRUE(std::isnan(max(f64({1, NAN})).item()));
  EXPECT_EQ(max(f64({-infinity, -infinity})).item(), -infinity);
  EXPECT_EQ(min(cast(f64({3, -5}), DType::i8)).item(), -5);
  EXPECT_EQ(max(f64({0, 1}) > 0).dtype(), DType::b8);
}

TEST(Reduction, Statistics) {
  const Tensor x = f64({1, 2, 4, 9});
  EXPECT_EQ(mean(x).item(), 4);
  EXPECT_NEAR(var(x).item(), 38.0 / 3, 1e-12);
  EXPECT_EQ(var(x, {}, false, 0).item(), 9.5);
  EXPECT_NEAR(stddev(x).item(), std::sqrt(38.0 / 3), 1e-12);
  const Moments m = moments(count({2, 3}), 1);
  EXPECT_EQ(values(m.mean), (Doubles{1, 4}));
  EXPECT_EQ(m.var.shape(), (Shape{2, 1}));
  // A single pass in f32 would lose all digits.
  EXPECT_NEAR(var(Tensor::from<float>({10000.F, 10001.F, 10002.F}, {3})).item(), 1, 1e-6);
  // The largest f16 is 65504.
  EXPECT_EQ(mean(full({1000}, 100, DType::f16)).item(), 100);
}

TEST(Reduction, NormsAndLogarithms) {
  const Tensor x = f64({3, -4});
  EXPECT_EQ(norm(x).item(), 5);
  EXPECT_EQ(norm(x, {}, false, 1).item(), 7);
  EXPECT_EQ(norm(x, {}, false, infinity).item(), 4);
  EXPECT_EQ(norm(f64({3, 0}), {}, false, 0).item(), 1);
  expect_error(ErrorCode::shape, {"axis 1 has no elements", "reduction_test.cpp"}, [] {
    norm(zeros({2, 0}), 1, false, infinity);
  });
  Tensor origin = zeros({2}, DType::f64);
  origin.requires_grad();
  norm(origin).backward();
  EXPECT_EQ(values(origin.grad()), (Doubles{0, 0}));
  EXPECT_EQ(logsumexp(zeros({0}, DType::f64)).item(), -infinity);
  EXPECT_NEAR(logsumexp(f64({1000, 1000})).item(), 1000 + std::log(2), 1e-9);
  EXPECT_EQ(logsumexp(f64({-infinity, -infinity})).item(), -infinity);
  EXPECT_EQ(logsumexp(f64({infinity, 1})).item(), infinity);
}

TEST(Reduction, TruthOfAllAndAny) {
  const Tensor x = reshape(f64({1, 0, 2, 3}), {2, 2});
  EXPECT_EQ(values(all(x, 1)), (Doubles{0, 1}));
  EXPECT_EQ(values(any(x, 0)), (Doubles{1, 1}));
  EXPECT_EQ(all(x, 1, true).type(), (TensorType{DType::b8, {2, 1}, {}}));
}

TEST(Order, SortingIsStableWithNanLast) {
  const Tensor x = f64({3, NAN, 1, 3, 2});
  EXPECT_EQ(values(argsort(x)), (Doubles{2, 4, 0, 3, 1}));
  EXPECT_EQ(values(argsort(x, 0, true)), (Doubles{1, 0, 3, 4, 2}));
  EXPECT_EQ(values(sort(reshape(f64({3, 1, 2, 9, 7, 8}), {2, 3}))), (Doubles{1, 2, 3, 7, 8, 9}));
  EXPECT_EQ(values(sort(reshape(f64({3, 1, 2, 9, 7, 8}), {2, 3}), 0, true)), (Doubles{9, 7, 8, 3, 1, 2}));
  EXPECT_EQ(values(sort(f64({1, 0, 1}) > 0)), (Doubles{0, 1, 1}));
}

TEST(Order, TopK) {
  Tensor x = reshape(f64({3, 1, 2, 9, 7, 8}), {2, 3});
  x.requires_grad();
  const auto [best, places] = topk(x, 2);
  EXPECT_EQ(values(best), (Doubles{3, 2, 9, 8}));
  EXPECT_EQ(values(places), (Doubles{0, 2, 0, 2}));
  EXPECT_EQ(values(topk(x, 1, 0, false).values), (Doubles{3, 1, 2}));
  sum(best * f64({1, 2})).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{1, 0, 2, 1, 0, 2}));
  expect_error(ErrorCode::value, {"topk", "the 4 first of 3", "between 0 and 3"}, [&] { topk(x, 4); });
}

TEST(Order, RunningSums) {
  Tensor x = reshape(f64({1, 2, 3, 4}), {2, 2});
  x.requires_grad();
  const Tensor y = cumsum(x, 1);
  EXPECT_EQ(values(y), (Doubles{1, 3, 3, 7}));
  EXPECT_EQ(values(cumsum(x, 0)), (Doubles{1, 2, 4, 6}));
  sum(y * f64({1, 10})).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{11, 10, 11, 10}));
}

}  // namespace
}  // namespace athanor
