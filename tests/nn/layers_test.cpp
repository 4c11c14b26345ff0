// Every layer against PyTorch: outputs, gradients, running statistics, evaluation.
#include <gtest/gtest.h>

#include "../support/expect_error.h"
#include "athanor/nn/nn.h"
#include "athanor/ops/creation.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/random.h"
#include "athanor/ops/reduction.h"
#include "reference.h"

namespace athanor::nn {
namespace {

using testing::expect_error;
using testing::expect_near;
using testing::read_reference;
using testing::under;

constexpr double tolerance = 2e-5;

// Runs a module like layers() in make_reference.py, and compares all results.
void check(const std::string& name, Module& module) {
  SCOPED_TRACE(name);
  static const auto all = read_reference("layers");
  const auto expected = under(all, name + "/"), gradients = under(expected, "grad/"),
             statistics = under(expected, "buffer/");
  StateDict state = under(expected, "param/");
  for (const auto& [key, buffer] : module.named_buffers()) state.emplace(key, buffer.value().to_host());
  module.load_state_dict(state);

  Tensor x = Tensor::from(expected.at("x"));
  const bool wants_grad = is_float(x.dtype());
  if (wants_grad) x.requires_grad();
  const Tensor y = module(x);
  sum(y * Tensor::from(expected.at("weights"))).backward();
  expect_near(y, expected.at("y"), tolerance, "output");
  if (wants_grad) expect_near(x.grad(), expected.at("grad_x"), tolerance, "input gradient");
  for (const auto& [key, parameter] : module.named_parameters())
    expect_near(parameter.grad(), gradients.at(key), tolerance, key);

  const auto buffers = module.named_buffers();
  if (buffers.empty()) return;
  (void)module(x.detach() + 1);
  for (const auto& [key, buffer] : buffers) expect_near(buffer, statistics.at(key), tolerance, key);
  module.eval();
  expect_near(module(x), expected.at("eval"), tolerance, "evaluation");
}

template <class M>
void check_layer(const std::string& name, M module) {
  check(name, module);
}

TEST(Layers, Linear) { check_layer("linear", Linear(5, 4)); }
TEST(Layers, Embedding) { check_layer("embedding", Embedding(7, 3)); }
TEST(Layers, Conv2d) {
  check_layer("conv", Conv2d(4, 6, 3, {.stride = 2, .padding = 1, .groups = 2}));
  check_layer("conv_dilated", Conv2d(2, 3, {2, 3}, {.padding = {1, 2}, .dilation = 2}));
}
TEST(Layers, ConvTranspose2d) {
  check_layer("conv_transpose",
              ConvTranspose2d(4, 6, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}));
}
TEST(Layers, BatchNorm) {
  check_layer("batch_norm1d", BatchNorm1d(4));
  check_layer("batch_norm2d", BatchNorm2d(3, {.eps = 1e-3, .momentum = 0.3}));
  check_layer("batch_norm_average", BatchNorm2d(3, {.momentum = {}}));
}
TEST(Layers, BatchNormCountsInItsPlaceAsPartOfTheStep) {
  const NoGrad off;  // values that a gradient may still need are not updated in place
  for (const std::optional<double> momentum : {std::optional<double>(0.1), std::optional<double>()}) {
    BatchNorm1d norm(2, {.momentum = momentum});
    const Buffer& count = norm.num_batches_tracked;
    const auto address = [&] { return count.value().node()->value->address(); };
    eval({norm(Tensor::from<float>({1, 2, 3, 4}, {2, 2}))});
    const void* const before = address();
    for (int batch = 2; batch <= 4; ++batch) {
      const Tensor y = norm(Tensor::from<float>({1, 2, 3, 4}, {2, 2}) * batch);
      EXPECT_FALSE(count.value().ready()) << "it is counted when the step runs, not by the host";
      eval({y});
      EXPECT_EQ(address(), before);
      EXPECT_EQ(count.value().item(), batch);
    }
    norm.eval();
    eval({norm(Tensor::from<float>({1, 2, 3, 4}, {2, 2}))});
    EXPECT_EQ(count.value().item(), 4) << "evaluation counts nothing";
    if (!momentum) {
      expect_near(norm.running_mean.value(), HostArray::of<float>({2}, std::vector<float>{5, 7.5F}), 1e-5,
                  "mean");
    }
  }
}
TEST(Layers, LayerNorm) { check_layer("layer_norm", LayerNorm(Shape{3, 4})); }
TEST(Layers, GroupNorm) { check_layer("group_norm", GroupNorm(2, 6)); }
TEST(Layers, MultiheadAttention) {
  check_layer("attention", MultiheadAttention(6, 2));
  check_layer("attention_causal", MultiheadAttention(6, 3, {.causal = true}));
}
TEST(Layers, GroupedAttentionInAWindow) {
  check_layer("attention_grouped",
              MultiheadAttention(8, 4, {.causal = true, .kv_heads = 2, .window = 3, .rotary = true}));
}
TEST(Layers, RMSNorm) { check_layer("rms_norm", RMSNorm(5)); }
TEST(Layers, SwiGLU) { check_layer("swiglu", SwiGLU(4, 6)); }
TEST(Layers, Conv1d) {
  check_layer("conv1d", Conv1d(4, 6, 3, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2}));
}
TEST(Layers, Conv3d) {
  check_layer("conv3d", Conv3d(2, 3, {2, 3, 1}, {.stride = {1, 2, 1}, .padding = {1, 0, 1}}));
}
TEST(Layers, Upsample) { check_layer("upsample", Upsample({2, 3}, {.mode = Interpolation::linear})); }
TEST(Layers, LSTM) {
  check_layer("lstm", LSTM(3, 4));
  check_layer("lstm_deep", LSTM(3, 4, {.layers = 2, .bias = false, .bidirectional = true}));
}
TEST(Layers, GRU) {
  check_layer("gru", GRU(3, 4));
  check_layer("gru_deep", GRU(3, 4, {.layers = 2, .bidirectional = true}));
}

TEST(Layers, RecurrenceGoesOnFromAState) {
  manual_seed(1);
  const Tensor x = normal({2, 7, 3});
  const auto parts = split(x, {3, 4}, 1);
  LSTM lstm(3, 4, {.layers = 2});
  LstmState state;
  const Tensor first = lstm.forward(parts[0], state);
  EXPECT_EQ(state.c.shape(), (Shape{2, 2, 4}));
  const Tensor second = lstm.forward(parts[1], state);
  expect_near(concat({first, second}, 1), lstm(x).to_host(), 1e-6, "LSTM in two parts");
  expect_near(slice(state.h, {1}), slice(second, {Slice(), -1}).to_host(), 0, "LSTM's last state");
  GRU gru(3, 4);
  Tensor h;
  const Tensor begun = gru.forward(parts[0], h);
  expect_near(concat({begun, gru.forward(parts[1], h)}, 1), gru(x).to_host(), 1e-6, "GRU in two parts");
}

TEST(Layers, BasicBlock) {
  check_layer("block", BasicBlock(4, 6, 2));
  check_layer("block_straight", BasicBlock(3, 3));
}
TEST(Layers, Bottleneck) {
  check_layer("bottleneck", Bottleneck(4, 2, 2));
  check_layer("bottleneck_straight", Bottleneck(8, 2));
}
TEST(Layers, Gpt2) {
  check_layer("gpt2", Gpt2({.vocabulary = 11, .positions = 8, .layers = 2, .dimensions = 6, .heads = 2}));
}
TEST(Layers, SmallCnn) {
  check_layer("cnn",
              Sequential(Conv2d(2, 4, 3, {.padding = 1}), ReLU(), MaxPool2d(2),
                         Conv2d(4, 6, 3, {.padding = 1}), GELU(), AvgPool2d(2), Flatten(), Linear(24, 5)));
}

TEST(Layers, DropoutOnlyInTraining) {
  manual_seed(1);
  Dropout layer(0.25);
  const Tensor x = Tensor::from(std::vector<float>(4000, 1), {4000});
  const auto values = layer(x).to_vector<float>();
  int dropped = 0;
  for (float v : values) {
    EXPECT_TRUE(v == 0 || std::abs(v - 1 / 0.75F) < 1e-6F) << v;
    dropped += v == 0;
  }
  EXPECT_NEAR(dropped / 4000.0, 0.25, 0.03);
  layer.eval();
  EXPECT_EQ(layer(x).to_vector<float>(), x.to_vector<float>());
  expect_error(ErrorCode::value, {"probability", "[0, 1)"}, [] { Dropout(1.5); });
}

TEST(Layers, ActivationsAndPooling) {
  const Tensor x = Tensor::from<float>({-2, -1, 0, 1, 2, 3, 4, 5}, {1, 2, 2, 2});
  Sequential all(LeakyReLU(0.1), ELU(), GELU(true), SiLU(), Sigmoid(), Tanh(), Softplus(), HardSigmoid(),
                 HardSwish(), LogSoftmax(1), Softmax(1), Identity(), AdaptiveAvgPool2d(1), Flatten());
  EXPECT_EQ(to_string(all(x).shape()), "[1, 2]");
  EXPECT_EQ(AdaptiveMaxPool2d(1)(x).to_vector<float>(), (std::vector<float>{1, 5}));
  EXPECT_EQ(AdaptiveAvgPool2d(1)(x).to_vector<float>(), (std::vector<float>{-0.5F, 3.5F}));
}

TEST(Layers, ErrorsNameTheModuleAndTheUsersLine) {
  Sequential net(Linear(3, 4), ReLU(), Linear(5, 2));
  const Tensor x = Tensor::from(std::vector<float>(6, 1), {2, 3});
  expect_error(ErrorCode::shape, {"in 2 (Linear(5 -> 2))", "layers_test.cpp"}, [&] { net(x); });
  expect_error(ErrorCode::shape, {"BatchNorm2d(3) was given f32[2, 3]", "[N, 3, H, W]"},
               [&] { BatchNorm2d(3)(x); });
  expect_error(ErrorCode::usage, {"ReLU was given an undefined tensor", "layers_test.cpp"},
               [] { ReLU()(Tensor()); });
  expect_error(ErrorCode::value, {"larger batch"}, [] {
    BatchNorm1d(3)(Tensor::from(std::vector<float>(3, 1), {1, 3}));
  });
  expect_error(ErrorCode::shape, {"LayerNorm([4])"}, [&] { LayerNorm(4)(x); });
  expect_error(ErrorCode::value, {"groups"}, [] { Conv2d(3, 4, 3, {.groups = 2}); });
  expect_error(ErrorCode::value, {"heads"}, [] { MultiheadAttention(6, 4); });
  expect_error(ErrorCode::value, {"4 heads of queries and 3 of keys", "must divide"},
               [] { MultiheadAttention(8, 4, {.kv_heads = 3}); });
  expect_error(ErrorCode::value, {"heads of 3 elements", "even size"},
               [] { MultiheadAttention(6, 2, {.rotary = true}); });
  expect_error(ErrorCode::shape, {"LSTM(3 -> 4) was given f32[2, 3]", "[N, T, 3]"}, [&] { LSTM(3, 4)(x); });
  expect_error(ErrorCode::shape, {"GRU(3 -> 4) was given a state f32[2, 4]", "[1, 2, 4]"}, [] {
    Tensor h = zeros({2, 4});
    GRU(3, 4).forward(zeros({2, 5, 3}), h);
  });
  expect_error(ErrorCode::value, {"LSTM(3 -> 0)", "at least 1"}, [] { LSTM(3, 0); });
  expect_error(ErrorCode::value, {"dropout of 1", "[0, 1)"}, [] { GRU(3, 4, {.dropout = 1}); });
  expect_error(ErrorCode::shape, {"RMSNorm(4) was given", "[..., 4]"}, [&] { RMSNorm(4)(x); });
  expect_error(ErrorCode::shape, {"Upsample was given f32[2, 3]", "[N, C, H, W]"}, [&] { Upsample(2)(x); });
}

}  // namespace
}  // namespace athanor::nn
