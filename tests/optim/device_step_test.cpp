// Whole training steps on every device: a small CNN and a transformer block must give the same results as on
// the host. Also run under oclgrind (tools/run-oclgrind).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>

#include "athanor/compile/options.h"
#include "athanor/nn/nn.h"
#include "athanor/ops/loss.h"
#include "athanor/ops/ops.h"
#include "athanor/optim/optim.h"
#include "athanor/runtime/evaluate.h"

namespace athanor::optim {
namespace {

/// Attention and a gated sum, each with a norm before it and a residual connection, between an embedding and
/// a classifier.
class TransformerBlock : public nn::Module {
 public:
  Tensor forward(const Tensor& tokens) override {
    Tensor x = embedding_(tokens);  // [N, T, 8]
    x = x + attention_(norm1_(x));
    x = x + down_(gelu(up_(norm2_(x))));
    return head_(mean(x, {1}));
  }

 private:
  nn::Embedding& embedding_ = add("embedding", nn::Embedding(11, 8));
  nn::LayerNorm& norm1_ = add("norm1", nn::LayerNorm(Shape{8}));
  nn::MultiheadAttention& attention_ = add("attention", nn::MultiheadAttention(8, 2));
  nn::LayerNorm& norm2_ = add("norm2", nn::LayerNorm(Shape{8}));
  nn::Linear& up_ = add("up", nn::Linear(8, 12));
  nn::Linear& down_ = add("down", nn::Linear(12, 8));
  nn::Linear& head_ = add("head", nn::Linear(8, 3));
};

struct Losses {
  std::vector<double> of_steps;
  std::map<std::string, HostArray> model;
  int off_device = 0;
};

Losses train_on(Device device, const std::function<std::unique_ptr<nn::Module>()>& make,
                const HostArray& inputs, const HostArray& labels, int steps, Precision precision) {
  manual_seed(3);
  const auto model = make();
  model->to(device);
  // Some gradients are 0 except for rounding (those of a bias before a norm). Adam with a small eps would
  // make them large.
  AdamW optimizer(model->parameters(), {.lr = 0.01, .eps = 0.01, .weight_decay = 0.05});
  GradScaler scaler(device);
  Losses result;
  for (int step = 0; step < steps; ++step) {
    const Tensor loss = [&] {
      const Autocast scope(precision);
      return cross_entropy((*model)(Tensor::from(inputs, device)), Tensor::from(labels, device));
    }();
    if (precision == Precision::f16) {
      scaler.scale(loss).backward();
      scaler.step(optimizer);
      scaler.update();
    } else {
      loss.backward();
      optimizer.step();
    }
    result.of_steps.push_back(loss.item());
    result.off_device += last_plan()->kernels_off_device();
  }
  for (const auto& [name, array] : model->state_dict()) result.model.emplace(name, array);
  return result;
}

void expect_same_everywhere(const std::function<std::unique_ptr<nn::Module>()>& make, const HostArray& inputs,
                            const HostArray& labels, Precision precision = Precision::f32) {
  constexpr int steps = 2;
  // Sums in another order may be rounded to a neighbouring value.
  const double unit = precision == Precision::bf16 ? 0x1p-8 : precision == Precision::f16 ? 0x1p-11 : 0;
  const ScopedDisable untuned("tune");  // every candidate has its own tests
  if (list_devices().size() == 1) GTEST_SKIP() << "there is no device but the host here";
  const Losses host = train_on({}, make, inputs, labels, steps, precision);
  for (const DeviceInfo& info : list_devices()) {
    if (info.device == Device{}) continue;
    SCOPED_TRACE(to_string(info.device));
    const Losses there = train_on(info.device, make, inputs, labels, steps, precision);
    EXPECT_EQ(there.off_device, 0);
    for (int step = 0; step < steps; ++step)
      EXPECT_NEAR(there.of_steps[static_cast<size_t>(step)], host.of_steps[static_cast<size_t>(step)],
                  1e-4 + 4 * unit)
          << "step " << step;
    for (const auto& [name, array] : host.model) {
      const auto want = to_doubles(array), got = to_doubles(there.model.at(name));
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got[i], want[i], (2e-3 + 2 * unit) * (1 + std::abs(want[i]))) << name << " element " << i;
    }
  }
}

HostArray numbers(DType dtype, const Shape& shape, int modulus) {
  std::vector<double> values(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    const int at = static_cast<int>(i * i * 7 + i * 3) % modulus;
    values[i] = is_float(dtype) ? at * 2.0 / modulus - 1 : at;
  }
  return from_doubles(dtype, shape, values);
}

std::unique_ptr<nn::Module> cnn() {
  return std::make_unique<nn::Sequential>(nn::Conv2d(1, 4, 3, {.padding = {1, 1}}), nn::BatchNorm2d(4),
                                          nn::ReLU(), nn::MaxPool2d(2), nn::Conv2d(4, 6, 3), nn::ReLU(),
                                          nn::AvgPool2d(2), nn::Flatten(), nn::Linear(6, 3));
}

TEST(DeviceStep, Cnn) {
  expect_same_everywhere(cnn, numbers(DType::f32, {3, 1, 8, 8}, 97), numbers(DType::i64, {3}, 3));
}

TEST(DeviceStep, MixedPrecision) {
  const auto mlp = [] {
    return std::make_unique<nn::Sequential>(nn::Linear(11, 9), nn::ReLU(), nn::Linear(9, 3));
  };
  for (const Precision precision : {Precision::bf16, Precision::f16})
    expect_same_everywhere(mlp, numbers(DType::f32, {5, 11}, 97), numbers(DType::i64, {5}, 3), precision);
}

TEST(DeviceStep, MixedPrecisionOfCnn) {
  if (std::getenv("ATHANOR_TEST_EVERYTHING") == nullptr)
    GTEST_SKIP() << "PoCL compiles f16 convolutions for a minute; ATHANOR_TEST_EVERYTHING runs this";
  expect_same_everywhere(cnn, numbers(DType::f32, {3, 1, 8, 8}, 97), numbers(DType::i64, {3}, 3),
                         Precision::f16);
}

TEST(DeviceStep, TransformerBlock) {
  expect_same_everywhere([] { return std::make_unique<TransformerBlock>(); }, numbers(DType::i64, {2, 5}, 11),
                         numbers(DType::i64, {2}, 3));
}

/// Parameters of many sizes.
class Weights : public nn::Module {
 public:
  explicit Weights(DType dtype) {
    int number = 0;
    for (const Shape& shape : std::vector<Shape>{{}, {1}, {3}, {17}, {1000}, {33, 65}, {70001}, {2, 3, 5, 7}})
      weights_.push_back(
          add_parameter("w" + std::to_string(number++), Tensor::from(numbers(dtype, shape, 101))));
  }
  Tensor forward(const Tensor& x) override {
    Tensor loss = sum(x);
    for (const auto& w : weights_) loss = loss + cast(sum(w * w * w), DType::f32);
    return loss;
  }

 private:
  std::vector<nn::Parameter> weights_;
};

std::vector<HostArray> trained_weights(Device device, const std::string& optimizer_name, DType dtype,
                                       size_t& launches) {
  Weights model(dtype);
  model.to(device);
  const auto optimizer =
      make_optimizer(optimizer_name, model.parameters(), {.lr = 0.01, .weight_decay = 0.1});
  for (int step = 0; step < 3; ++step) {
    const Tensor loss = model(Tensor::from(HostArray(DType::f32, {1}), device));
    loss.backward();
    // Otherwise updates would fuse with the sums that read the same elements.
    for (const nn::Parameter& parameter : model.parameters()) parameter.grad().eval();
    optimizer->step();
    model.parameters().front().value().eval();
    launches = last_plan()->steps.size();
  }
  std::vector<HostArray> all;
  for (const auto& [name, array] : model.state_dict()) all.push_back(array);
  return all;
}

TEST(DeviceStep, ParametersUpdatedTogetherAreTheSameToTheBit) {
  for (const DeviceInfo& info : list_devices())
    for (const char* optimizer : {"sgd", "adam", "adamw"})
      for (const DType dtype : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(to_string(info.device) + " " + optimizer + " " + std::string(to_string(dtype)));
        size_t together = 0, alone = 0;
        const auto got = trained_weights(info.device, optimizer, dtype, together);
        const ScopedDisable off("join");
        const auto want = trained_weights(info.device, optimizer, dtype, alone);
        ASSERT_EQ(got.size(), 8U);
        for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].bytes, want[i].bytes) << i;
        if (info.device == Device{})
          EXPECT_EQ(together, alone);
        else
          EXPECT_LE(together + 5, alone);
      }
}

}  // namespace
}  // namespace athanor::optim
