// Arithmetic, comparison and logic: promotion, broadcasting, numbers, edge values and errors.
#include "athanor/ops/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "athanor/ops/ops.h"
#include "tests/ops/values.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::Doubles;
using testing::expect_error;
using testing::f64;
using testing::infinity;
using testing::values;

Tensor i64(const std::vector<int64_t>& x) {
  return Tensor::from<int64_t>(x, {static_cast<int64_t>(x.size())});
}
Tensor of(DType t, const Doubles& x) { return cast(f64(x), t); }

TEST(Elementwise, OperandsArePromoted) {
  for (const auto& [a, b, expected] : {std::tuple{DType::f32, DType::f64, DType::f64},
                                       {DType::f16, DType::bf16, DType::f32},
                                       {DType::i64, DType::f16, DType::f16},
                                       {DType::i8, DType::u8, DType::i32},
                                       {DType::b8, DType::u8, DType::u8}}) {
    const Tensor sum = of(a, {1}) + of(b, {2});
    EXPECT_EQ(sum.dtype(), expected);
    EXPECT_EQ(values(sum), Doubles{b == DType::b8 ? 2.0 : 3.0});
  }
}

TEST(Elementwise, NumbersTakeTheTensorsDtype) {
  EXPECT_EQ((of(DType::f16, {1}) * 2.5).dtype(), DType::f16);
  EXPECT_EQ((of(DType::u8, {1}) + 2).dtype(), DType::u8);
  EXPECT_EQ((i64({3}) * 0.5).dtype(), DType::f32);
  EXPECT_EQ(values(i64({3}) * 0.5), Doubles{1.5});
  EXPECT_EQ((of(DType::b8, {1}) + 1).dtype(), DType::i64);
  EXPECT_EQ(values(10 - f64({1, 2})), (Doubles{9, 8}));
  EXPECT_EQ(values(i64({1}) + (int64_t{1} << 40)), Doubles{static_cast<double>((int64_t{1} << 40) + 1)});
}

TEST(Elementwise, TheLargestIntegerIsANumberToo) {
  constexpr auto largest = std::numeric_limits<int64_t>::max();
  const Tensor x = i64({largest, 5, -largest - 1});
  EXPECT_EQ(values(equal(x, largest)), (Doubles{1, 0, 0}));
  EXPECT_EQ(maximum(x, largest).to_vector<int64_t>(), (std::vector<int64_t>{largest, largest, largest}));
  EXPECT_EQ(minimum(x, -largest - 1).to_vector<int64_t>(), std::vector<int64_t>(3, -largest - 1));
}

TEST(Elementwise, ShapesBroadcastAndGradientsSumBack) {
  Tensor a = reshape(f64({1, 2, 3}), {3, 1}), b = f64({10, 20});
  a.requires_grad(), b.requires_grad();
  const Tensor c = a * b;
  EXPECT_EQ(c.shape(), (Shape{3, 2}));
  EXPECT_EQ(values(c), (Doubles{10, 20, 20, 40, 30, 60}));
  sum(c).backward();
  EXPECT_EQ(values(a.grad()), (Doubles{30, 30, 30}));
  EXPECT_EQ(a.grad().shape(), (Shape{3, 1}));
  EXPECT_EQ(values(b.grad()), (Doubles{6, 6}));
  EXPECT_EQ((zeros({3, 0}) + zeros({1})).shape(), (Shape{3, 0}));
  EXPECT_EQ((zeros({0}) + zeros({1})).shape(), (Shape{0}));
}

TEST(Elementwise, DivisionOfIntegers) {
  EXPECT_EQ((i64({7}) / i64({2})).dtype(), DType::f32);
  EXPECT_EQ(values(i64({7}) / 2), Doubles{3.5});
  const Tensor a = i64({7, -7, 7, -7, 6, 5}), b = i64({2, 2, -2, -2, 3, 0});
  EXPECT_EQ(values(trunc_divide(a, b)), (Doubles{3, -3, -3, 3, 2, 0}));
  EXPECT_EQ(values(floor_divide(a, b)), (Doubles{3, -4, -4, 3, 2, 0}));
  EXPECT_EQ(values(mod(a, b)), (Doubles{1, -1, 1, -1, 0, 0}));
  EXPECT_EQ(values(remainder(slice(a, 0, 0, 5), slice(b, 0, 0, 5))), (Doubles{1, 1, -1, -1, 0}));
  EXPECT_EQ(values(floor_divide(f64({7.5, -7.5}), 2)), (Doubles{3, -4}));
  EXPECT_EQ(values(remainder(f64({7.5, -7.5}), 2)), (Doubles{1.5, 0.5}));
}

TEST(Elementwise, Powers) {
  EXPECT_EQ(values(pow(f64({2, -3}), 3)), (Doubles{8, -27}));
  EXPECT_EQ(values(pow(i64({2, -3}), 5)), (Doubles{32, -243}));
  EXPECT_EQ(pow(i64({2}), 5).dtype(), DType::i64);
  EXPECT_EQ(values(pow(f64({2, 5}), 0)), (Doubles{1, 1}));
  EXPECT_EQ(values(pow(f64({4}), 0.5)), Doubles{2});
  EXPECT_EQ(values(pow(f64({4}), -1)), Doubles{0.25});
  EXPECT_NEAR(pow(f64({2}), f64({0.3})).item(), std::pow(2, 0.3), 1e-15);
  EXPECT_NEAR(pow(2, f64({0.3})).item(), std::pow(2, 0.3), 1e-15);
  Tensor x = f64({0, 2});
  x.requires_grad();
  sum(pow(x, f64({2, 3}))).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{0, 12}));
}

TEST(Elementwise, ExtremaPropagateNanAndShareGradients) {
  const Tensor a = f64({1, NAN, 2}), b = f64({NAN, 1, 3});
  const auto high = values(maximum(a, b)), low = values(minimum(a, b));
  EXPECT_TRUE(std::isnan(high[0]) && std::isnan(high[1]) && std::isnan(low[0]) && std::isnan(low[1]));
  EXPECT_EQ(high[2], 3);
  EXPECT_EQ(low[2], 2);
  Tensor x = f64({1, 2, 3}), y = f64({2, 2, 2});
  x.requires_grad(), y.requires_grad();
  sum(maximum(x, y)).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{0, 0.5, 1}));
  EXPECT_EQ(values(y.grad()), (Doubles{1, 0.5, 0}));
}

TEST(Elementwise, ComparisonsWithNan) {
  const Tensor a = f64({1, 2, NAN}), b = f64({2, 2, 2});
  EXPECT_EQ(values(a < b), (Doubles{1, 0, 0}));
  EXPECT_EQ(values(a <= b), (Doubles{1, 1, 0}));
  EXPECT_EQ(values(a > b), (Doubles{0, 0, 0}));
  EXPECT_EQ(values(a >= b), (Doubles{0, 1, 0}));
  EXPECT_EQ(values(equal(a, b)), (Doubles{0, 1, 0}));
  EXPECT_EQ(values(not_equal(a, b)), (Doubles{1, 0, 1}));
  EXPECT_EQ(values(is_nan(a)), (Doubles{0, 0, 1}));
  EXPECT_EQ(values(is_finite(f64({1, infinity, -infinity, NAN}))), (Doubles{1, 0, 0, 0}));
  EXPECT_EQ((a < b).dtype(), DType::b8);
  EXPECT_EQ(values(of(DType::b8, {0, 1}) < of(DType::b8, {1, 1})), (Doubles{1, 0}));
}

TEST(Elementwise, Logic) {
  const Tensor a = f64({0, 0, 2, 3}), b = f64({0, 1, 0, -1});
  EXPECT_EQ(values(logical_and(a, b)), (Doubles{0, 0, 0, 1}));
  EXPECT_EQ(values(logical_or(a, b)), (Doubles{0, 1, 1, 1}));
  EXPECT_EQ(values(logical_xor(a, b)), (Doubles{0, 1, 1, 0}));
  EXPECT_EQ(values(!a), (Doubles{1, 1, 0, 0}));
  EXPECT_EQ(values(i64({12}) & i64({10})), Doubles{8});
  EXPECT_EQ(values(i64({12}) | 3), Doubles{15});
  EXPECT_EQ(values(bit_xor(i64({12}), 10)), Doubles{6});
  EXPECT_EQ(values((a > 1) & (b < 0)), (Doubles{0, 0, 0, 1}));
}

TEST(Elementwise, Where) {
  const Tensor choice = f64({1, -1}) > 0;
  EXPECT_EQ(values(where(choice, f64({5, 6}), 0)), (Doubles{5, 0}));
  EXPECT_EQ(values(where(choice, 1.5, i64({7, 8}))), (Doubles{1.5, 8}));
  EXPECT_EQ(where(choice, zeros({3, 1}), 1).shape(), (Shape{3, 2}));
}

TEST(Elementwise, Rounding) {
  const Tensor x = f64({-2.5, -1.5, -0.4, 0.5, 1.5, 2.6});
  EXPECT_EQ(values(floor(x)), (Doubles{-3, -2, -1, 0, 1, 2}));
  EXPECT_EQ(values(ceil(x)), (Doubles{-2, -1, 0, 1, 2, 3}));
  EXPECT_EQ(values(trunc(x)), (Doubles{-2, -1, 0, 0, 1, 2}));
  EXPECT_EQ(values(round(x)), (Doubles{-2, -2, 0, 0, 2, 3}));
  EXPECT_EQ(values(round(of(DType::f32, {8388609, -8388611}))), (Doubles{8388609, -8388611}));
  EXPECT_EQ(round(i64({3})).dtype(), DType::i64);
}

TEST(Elementwise, Clamp) {
  Tensor x = f64({-2, -0.5, 0.5, 2, NAN});
  x.requires_grad();
  const Tensor y = clamp(x, -1, 1);
  const auto clamped = values(y);
  EXPECT_EQ(Doubles(clamped.begin(), clamped.end() - 1), (Doubles{-1, -0.5, 0.5, 1}));
  EXPECT_TRUE(std::isnan(clamped.back()));
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{0, 1, 1, 0, 0}));
  EXPECT_EQ(values(clamp(of(DType::u8, {0, 5, 250}), 2.5, 1000)), (Doubles{3, 5, 250}));
  EXPECT_EQ(values(clamp(i64({-5, 5}), -infinity, 1)), (Doubles{-5, 1}));
  EXPECT_EQ(values(clamp(i64({-5, 5}), 1e19, infinity)), (Doubles{0x1p63, 0x1p63}));
}

TEST(Elementwise, SmallNumbersKeepTheirDigits) {
  for (const double x : {1e-12, -1e-12, 1e-5, 0.3}) {
    const auto f = static_cast<float>(x);
    EXPECT_NEAR(log1p(Tensor::from<float>({f}, {})).item(), std::log1p(f), 1e-7 * std::abs(f)) << x;
    EXPECT_NEAR(expm1(Tensor::from<float>({f}, {})).item(), std::expm1(f), 2e-7 * std::abs(f)) << x;
  }
  EXPECT_EQ(expm1(f64({-infinity})).item(), -1);
  EXPECT_EQ(expm1(f64({infinity})).item(), infinity);
  EXPECT_EQ(log1p(f64({infinity})).item(), infinity);
  EXPECT_NEAR(softplus(Tensor::from<float>({-20}, {})).item(), std::log1p(std::exp(-20.0)), 1e-15);
}

TEST(Elementwise, GeluOfLargeNumbersHasAGradient) {
  for (Tensor (*const f)(Operand) : {gelu, gelu_tanh})
    for (const float x : {1e6F, 1e15F}) {
      Tensor a = Tensor::from<float>({-x, x}, {2});
      a.requires_grad();
      sum(f(a)).backward();
      EXPECT_EQ(a.grad().to_vector<float>(), (std::vector<float>{0, 1})) << x;
    }
}

TEST(Elementwise, DetachStopsGradients) {
  Tensor x = f64({3});
  x.requires_grad();
  sum(x * detach(x)).backward();
  EXPECT_EQ(values(x.grad()), Doubles{3});
}

TEST(Elementwise, ErrorsNameTheCall) {
  expect_error(ErrorCode::shape, {"add(f32[2, 3], f32[4])", "do not broadcast", "elementwise_test.cpp:"}, [] {
    zeros({2, 3}) + zeros({4});
  });
  expect_error(ErrorCode::shape, {"greater(f32[2], f32[3])"}, [] { (void)(zeros({2}) > zeros({3})); });
  expect_error(ErrorCode::dtype, {"add", "takes numbers, not bool", "logical_and", "elementwise_test.cpp:"},
               [] { zeros({2}, DType::b8) + zeros({2}, DType::b8); });
  expect_error(ErrorCode::dtype, {"bit_and", "integers or bool", "cast"}, [] { zeros({2}) & zeros({2}); });
  expect_error(ErrorCode::dtype, {"where", "bool as its condition"}, [] { where(zeros({2}), 1, 2); });
  expect_error(ErrorCode::value, {"clamp", "the range [2, 1] is empty"}, [] { clamp(zeros({2}), 2, 1); });
  expect_error(ErrorCode::dtype, {"neg"}, [] { -zeros({1}, DType::b8); });
}

}  // namespace
}  // namespace athanor
