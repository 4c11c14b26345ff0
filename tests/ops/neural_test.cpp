// Convolution, pooling, norms and losses: what PyTorch's results (torch_test.cpp) do not cover. Errors, empty
// batches, low precision, gradients that need less memory.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "athanor/graph/op.h"
#include "athanor/ops/ops.h"
#include "tests/ops/values.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::Doubles;
using testing::expect_error;
using testing::infinity;
using testing::values;

TEST(Conv, Errors) {
  const Tensor x = zeros({2, 3, 8, 8});
  expect_error(ErrorCode::shape,
               {"conv2d(f32[2, 3, 8, 8], f32[4, 2, 3, 3])", "the input has 3 channels, the weight takes 2",
                "[O, 3, KH, KW]", "neural_test.cpp"},
               [&] {
                 conv2d(x, zeros({4, 2, 3, 3}));
               });
  expect_error(ErrorCode::shape, {"spans 9 does not fit an input of 8"}, [&] {
    conv2d(x, zeros({4, 3, 9, 1}));
  });
  expect_error(ErrorCode::value, {"2 groups for 3 channels"}, [&] {
    conv2d(x, zeros({4, 1, 3, 3}), {}, {.groups = 2});
  });
  expect_error(ErrorCode::value, {"stride 0"}, [&] { conv2d(x, zeros({4, 3, 3, 3}), {}, {.stride = 0}); });
  expect_error(ErrorCode::shape, {"[N, C, H, W]"}, [&] { conv2d(zeros({3, 8, 8}), zeros({4, 3, 3, 3})); });
  expect_error(ErrorCode::shape, {"the bias is [3], not [4]"}, [&] {
    conv2d(x, zeros({4, 3, 3, 3}), zeros({3}));
  });
  expect_error(ErrorCode::dtype, {"conv2d", "one dtype"}, [&] {
    conv2d(x, zeros({4, 3, 3, 3}, DType::f16));
  });
  expect_error(ErrorCode::dtype, {"conv2d", "takes floats, not i64"}, [] {
    conv2d(zeros({1, 1, 3, 3}, DType::i64), zeros({1, 1, 3, 3}, DType::i64));
  });
  expect_error(ErrorCode::value, {"conv_transpose2d", "output padding 2"}, [&] {
    conv_transpose2d(x, zeros({3, 4, 3, 3}), {}, {.stride = 2, .output_padding = 2});
  });
}

TEST(Conv, EmptyBatches) {
  Tensor w = ones({4, 3, 3, 3});
  w.requires_grad();
  const Tensor y = conv2d(zeros({0, 3, 5, 5}), w);
  EXPECT_EQ(y.shape(), (Shape{0, 4, 3, 3}));
  sum(y).backward();
  EXPECT_EQ(values(w.grad()), Doubles(108, 0));
}

TEST(Pool, FirstOfEqualsTakesTheGradient) {
  Tensor x = zeros({1, 1, 2, 4}, DType::f64);
  x.requires_grad();
  sum(max_pool2d(x, 2)).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{1, 0, 1, 0, 0, 0, 0, 0}));
}

TEST(Pool, PaddingNeverWinsAndNanDoes) {
  const Tensor low = full({1, 1, 2, 2}, -5);
  EXPECT_EQ(values(max_pool2d(low, 2, {.stride = Pair(1), .padding = 1})), Doubles(9, -5));
  const Tensor x = Tensor::from<float>({1, NAN, 2, 3}, {1, 1, 2, 2});
  EXPECT_TRUE(std::isnan(max_pool2d(x, 2).item()));
}

TEST(Pool, Errors) {
  expect_error(ErrorCode::value, {"max_pool2d", "padding [2, 2] is more than half the kernel [3, 3]"}, [] {
    max_pool2d(zeros({1, 1, 8, 8}), 3, {.padding = 2});
  });
  expect_error(ErrorCode::shape, {"avg_pool2d", "spans 3 does not fit an input of 2"}, [] {
    avg_pool2d(zeros({1, 1, 2, 2}), 3);
  });
  expect_error(ErrorCode::shape, {"adaptive_avg_pool2d", "at least 1"}, [] {
    adaptive_avg_pool2d(zeros({1, 1, 2, 2}), 0);
  });
}

TEST(Pool, AdaptiveToOneIsGlobal) {
  const Tensor x = reshape(arange(12, DType::f64), {1, 2, 2, 3});
  EXPECT_EQ(values(adaptive_avg_pool2d(x, 1)), (Doubles{2.5, 8.5}));
  EXPECT_EQ(values(adaptive_max_pool2d(x, 1)), (Doubles{5, 11}));
}

TEST(Norm, StatisticsOfLowPrecisionAreComputedInF32) {
  const Tensor x = cast(full({1, 1, 3000}, 40), DType::f16);  // squares and sums exceed f16's range
  EXPECT_EQ(values(group_norm(x, 1)), Doubles(3000, 0));
  const Tensor y = layer_norm(cast(reshape(arange(8), {2, 4}), DType::bf16), 1);
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_NEAR(values(y)[3], 3 / std::sqrt(5), 1e-2);
}

TEST(Norm, Errors) {
  expect_error(ErrorCode::shape,
               {"batch_norm(f32[2, 3, 4])", "[2] does not fit 3 channels", "neural_test.cpp"}, [] {
                 batch_norm(zeros({2, 3, 4}), ones({2}));
               });
  expect_error(ErrorCode::value, {"group_norm", "2 groups of 3 channels"}, [] {
    group_norm(zeros({2, 3, 4}), 2);
  });
  expect_error(ErrorCode::shape, {"layer_norm", "scale and shift are [4], not [3]"}, [] {
    layer_norm(zeros({2, 4}), 1, ones({3}));
  });
}

TEST(Softmax, LargeNumbers) {
  EXPECT_EQ(values(softmax(Tensor::from<float>({1000, 1000}, {2}))), (Doubles{0.5, 0.5}));
  EXPECT_EQ(values(log_softmax(Tensor::from<float>({-1000, 0}, {2}))), (Doubles{-1000, 0}));
  EXPECT_EQ(values(softmax(Tensor::from<double>({0, -infinity}, {2}))), (Doubles{1, 0}));
}

TEST(Loss, OfNoClasses) {
  const Tensor none = zeros({3, 0}), labels = zeros({3}, DType::i64);
  expect_error(ErrorCode::shape, {"logits [3, 0] have no classes"}, [&] { cross_entropy(none, labels); });
  expect_error(ErrorCode::shape, {"logits [3, 0] have no classes"}, [&] { nll_loss(none, labels); });
}

TEST(Loss, ALabelThatIsNoClassIsNotTakenForNothing) {
  Tensor x = zeros({2, 3});
  x.requires_grad();
  for (const int64_t label : {3, -1}) {
    const Tensor labels = Tensor::from<int64_t>({0, label}, {2});
    const Tensor computed = labels + 0;  // its values are not known before they are computed
    const std::vector<std::string> words{"index " + std::to_string(label), "extent 3"};
    expect_error(ErrorCode::value, words, [&] { cross_entropy(x, computed).item(); });
    expect_error(ErrorCode::value, words, [&] { nll_loss(log_softmax(x, 1), computed).item(); });
    expect_error(ErrorCode::value, words,
                 [&] { cross_entropy(x, cast(computed, DType::i32), {.label_smoothing = 0.1}).item(); });
    expect_error(ErrorCode::value, words, [&] { values(grad({cross_entropy(x, computed)}, {x})[0]); });
    EXPECT_FALSE(std::isnan(cross_entropy(x, computed, {.ignore_index = label}).item())) << label;
    EXPECT_FALSE(std::isnan(cross_entropy(x, labels, {.ignore_index = label}).item())) << label;
  }
}

TEST(Loss, AComputedLabelThatIsNoClassIsAnErrorOnEveryDevice) {
  for (const DeviceInfo& info : list_devices()) {
    const Tensor x = Tensor::from(HostArray(DType::f32, {2, 4, 1, 3}), info.device);
    const auto computed = [&](double label) {
      const std::vector<double> all{0, 1, 2, label, -100, 0};
      return Tensor::from(from_doubles(DType::i64, {2, 1, 3}, all), info.device) + 0;
    };
    expect_error(ErrorCode::value, {"index 4", "extent 4"}, [&] { cross_entropy(x, computed(4)).item(); });
    EXPECT_NEAR(cross_entropy(x, computed(3)).item(), std::log(4), 1e-6) << info.name;
  }
}

TEST(Loss, AKnownLabelThatIsNoClassIsNamedOnEveryDevice) {
  for (const DeviceInfo& info : list_devices()) {
    const Device device = info.device;
    const Tensor x = Tensor::from(HostArray(DType::f32, {3, 4}), device);
    const auto labels = [&](std::vector<double> values, DType dtype) {
      return Tensor::from(from_doubles(dtype, {3}, values), device);
    };
    const std::vector<std::string> words{"label 4 of example 1", "4 classes, from 0 to 3"};
    expect_error(ErrorCode::value, words, [&] { cross_entropy(x, labels({0, 4, 9}, DType::i64)); });
    expect_error(ErrorCode::value, words, [&] { cross_entropy(x, labels({0, 4, 9}, DType::u8)); });
    expect_error(ErrorCode::value, words, [&] { nll_loss(x, labels({0, 4, 9}, DType::i32)); });
    expect_error(ErrorCode::value, {"label -1 of example 2", "ignore_index"}, [&] {
      cross_entropy(x, labels({-100, 3, -1}, DType::i64));
    });
    EXPECT_FALSE(std::isnan(cross_entropy(x, labels({-100, 3, 0}, DType::i64)).item()));
    // If pixels have labels, the error names the picture.
    const Tensor pixels = Tensor::from(HostArray(DType::f32, {2, 4, 1, 3}), device);
    expect_error(ErrorCode::value, {"label 7 of example 1"}, [&] {
      cross_entropy(
          pixels,
          Tensor::from(from_doubles(DType::i64, {2, 1, 3}, std::vector<double>{0, 1, 2, 3, 7, 0}), device));
    });
  }
}

TEST(Loss, IgnoredLabelsAndMaskedClasses) {
  const Tensor labels = Tensor::from<int64_t>({0, -100}, {2});
  Tensor x = Tensor::from<double>({0, 0, 5, 7}, {2, 2});
  x.requires_grad();
  const Tensor loss = cross_entropy(x, labels);
  EXPECT_NEAR(loss.item(), std::log(2), 1e-15);
  loss.backward();
  EXPECT_EQ(values(x.grad()), (Doubles{-0.5, 0.5, 0, 0}));
  EXPECT_TRUE(std::isnan(cross_entropy(x, labels * 0 - 100).item() * 0 +
                         cross_entropy(x, full({2}, -100, DType::i64)).item()));
  // A class is masked out with a logit of -infinity.
  EXPECT_NEAR(cross_entropy(Tensor::from<double>({0, -infinity, 0}, {1, 3}), zeros({1}, DType::i64)).item(),
              std::log(2), 1e-15);
  EXPECT_NEAR(cross_entropy(x, cast(Tensor::from<int64_t>({0, 1}, {2}), DType::u8)).item(),
              (std::log(2) + std::log1p(std::exp(-2))) / 2, 1e-15);
}

TEST(Loss, Errors) {
  expect_error(ErrorCode::shape,
               {"cross_entropy(f32[4, 10], i64[5])", "logits [4, 10] and labels [5] do not fit",
                "[N, C] and [N]", "neural_test.cpp"},
               [] {
                 cross_entropy(zeros({4, 10}), zeros({5}, DType::i64));
               });
  expect_error(ErrorCode::dtype, {"labels of i64, not f32"}, [] {
    cross_entropy(zeros({4, 10}), zeros({4}));
  });
  expect_error(ErrorCode::value, {"a label smoothing of 2"}, [] {
    cross_entropy(zeros({4, 10}), zeros({4}, DType::i64), {.label_smoothing = 2});
  });
  expect_error(ErrorCode::shape, {"mse_loss(f32[4], f32[4, 1])", "the target's shape differs"}, [] {
    mse_loss(zeros({4}), zeros({4, 1}));
  });
}

TEST(Gradients, ReluTanhAndSigmoidNeedOnlyTheirOutputs) {
  for (const char* name : {"relu", "tanh", "sigmoid"}) {
    const Op& op = find_op(name);
    const Tensor x = Tensor::from<float>({1}, {1}), dy = Tensor::from<float>({1}, {1});
    const Tensor y = apply(op, {x});
    const Tensor dx = op.grad({{x}, y, dy, {}, {true}})[0];
    std::vector<const Node*> stack = {dx.node().get()};
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      EXPECT_NE(node, x.node().get()) << name;
      if (node == y.node().get()) continue;
      for (const auto& input : node->inputs) stack.push_back(input.get());
    }
  }
}

}  // namespace
}  // namespace athanor
