// Gradients of compositions, gradients of gradients, and the effects of backward().
#include <gtest/gtest.h>

#include <cmath>

#include "../support/expect_error.h"
#include "athanor/base/error.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"

namespace athanor {
namespace {

TEST(Autograd, ProductAndChainRule) {
  Tensor x = Tensor::from<double>({3}, {1}), y = Tensor::from<double>({5}, {1});
  x.requires_grad(), y.requires_grad();
  const Tensor z = sum(x * y * y + sin(x));
  z.backward();
  EXPECT_DOUBLE_EQ(x.grad().item(), 25 + std::cos(3.0));
  EXPECT_DOUBLE_EQ(y.grad().item(), 30);
}

TEST(Autograd, GradientsOfGradients) {
  Tensor x = Tensor::from<double>({2}, {});
  x.requires_grad();
  Tensor y = x * x * x * x;
  for (const double expected : {32.0, 48.0, 48.0, 24.0}) {  // 4x^3, 12x^2, 24x, 24 at 2
    y = grad({y}, {x})[0];
    EXPECT_DOUBLE_EQ(y.item(), expected);
  }
}

// Attention's gradients have no gradient rules, so they are differentiated through their decomposition.
TEST(Autograd, ATensorAtSeveralInputsIsCountedOnceForEach) {
  const HostArray values = uniform({3, 2}, -1, 1, DType::f64).to_host();
  const auto second = [&](const std::vector<Tensor>& qkv, const std::vector<Tensor>& leaves) {
    const Tensor y = scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]);
    Tensor total = zeros({}, DType::f64), all = zeros({3, 2}, DType::f64);
    for (const Tensor& g : grad({sum(y * y)}, leaves)) total = total + sum(g * g);
    for (const Tensor& g : grad({total}, leaves)) all = all + g;
    return all.to_vector<double>();
  };
  const auto leaf = [&] {
    Tensor x = Tensor::from(values);
    x.requires_grad();
    return x;
  };
  const Tensor x = leaf();
  // Separate tensors with the values of the shared one, so that nothing is shared.
  const std::vector<Tensor> joined{x * 1.0, x * 1.0, x * 1.0};
  const auto shared = second({x, x, x}, {x}), apart = second(joined, {x});
  for (size_t i = 0; i < apart.size(); ++i) EXPECT_NEAR(shared[i], apart[i], 1e-9) << i;
}

TEST(Autograd, LeavesGatherOverCalls) {
  Tensor x = Tensor::from<double>({2}, {});
  x.requires_grad();
  (x * x).backward();
  (x * 3.0).backward();
  EXPECT_DOUBLE_EQ(x.grad().item(), 7);
}

TEST(Autograd, BroadcastingSumsBack) {
  Tensor b = Tensor::from<float>({1, 2, 3}, {3});
  b.requires_grad();
  sum(b + zeros({4, 5, 3})).backward();
  EXPECT_EQ(b.grad().to_vector<float>(), (std::vector<float>{20, 20, 20}));
}

TEST(Autograd, LookingInTheMiddleChangesNothing) {
  Tensor x = Tensor::from<double>({2}, {});
  x.requires_grad();
  const Tensor y = exp(x);
  EXPECT_NEAR(y.item(), 7.38905609893065, 1e-12);
  const Tensor z = y * y;
  EXPECT_GT(z.item(), 0);
  z.backward();
  EXPECT_NEAR(x.grad().item(), 2 * std::exp(4.0), 1e-9);
}

TEST(Autograd, NothingIsRecordedUnderNoGrad) {
  Tensor x = Tensor::from<double>({2}, {});
  x.requires_grad();
  const NoGrad off;
  EXPECT_FALSE((x * x).needs_grad());
}

TEST(Autograd, MistakesAreExplained) {
  Tensor x = Tensor::from<float>({1, 2}, {2});
  EXPECT_THROW((x * 2.0).backward(), Error);  // not a scalar
  EXPECT_THROW(sum(x).backward(), Error);     // nothing requires a gradient
  EXPECT_THROW(Tensor::from<int64_t>({1}, {1}).requires_grad(), Error);
  EXPECT_THROW(x.item(), Error);
}

TEST(Autograd, ErrorsShowTheCallersLine) {
  const Tensor a = zeros({2, 3}), b = zeros({4, 5});
  const auto line = std::source_location::current().line() + 2;
  try {
    (void)matmul(a, b);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), "autograd_test.cpp:" + std::to_string(line)) << error.what();
    EXPECT_NE(error.problem().find("[2, 3]"), std::string::npos) << error.what();
  }
}

TEST(Autograd, AnAttributeOfAnotherTypeIsNamed) {
  const Tensor x = zeros({2, 3});
  testing::expect_error(
      ErrorCode::internal,
      {"softmax(", "'axis'", "number with a fraction", "integer is needed", "autograd_test.cpp:"}, [&] {
        (void)call("softmax", {x}, {{"axis", 1.0}});
      });
  testing::expect_error(ErrorCode::internal, {"'shape'", "a text", "a list of integers is needed"}, [] {
    (void)Attrs{{"shape", std::string("2,3")}}.ints("shape");
  });
}

}  // namespace
}  // namespace athanor
