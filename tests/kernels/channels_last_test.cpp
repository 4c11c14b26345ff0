// Plans of networks whose images keep their channels last.
#include <functional>

#include "athanor/compile/options.h"
#include "athanor/kernels/gpu/templates.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "gpu_kernels.h"

namespace athanor::testing {
namespace {

/// Between convolutions by tiles, images keep their channels last.
class ChannelsLast : public ::testing::Test {
 protected:
  ChannelsLast() { compile_options().deterministic = true; }  // the best guesses: no others are compiled
  ~ChannelsLast() override { compile_options().deterministic = before_; }

  using Network = std::function<Tensor(const Tensor& x, const std::vector<Tensor>& w, DType dtype)>;

  static Tensor parameter(const Shape& shape, Device device) {
    Tensor value = (normal(shape) * 0.2).to(device);
    eval({value});
    return value;
  }

  /// Computes the loss and the norms of its gradients with and without the pass. (Gradients themselves, which
  /// the test would keep, are row-major.) `expected`: whether images
  /// have their channels last with it.
  static void compare(const Network& network, const std::vector<Shape>& shapes, bool expected) {
    const Device device = gpu_devices().front().device;
    const GpuTraits& traits = traits_of(device);
    std::vector<DType> dtypes;
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
      if (gpu::layout_of_images(TensorType{dtype, {1, 8, 1, 1}, device}, traits).is_channels_last())
        dtypes.push_back(dtype);
    if (dtypes.empty()) GTEST_SKIP() << to_string(device) << " has no tiles that are fast";
    for (const DType dtype : dtypes) compare(network, shapes, expected, device, dtype);
  }

 private:
  static void compare(const Network& network, const std::vector<Shape>& shapes, bool expected, Device device,
                      DType dtype) {
    SCOPED_TRACE(to_string(dtype));
    manual_seed(5);
    const Tensor x = parameter({2, 3, 12, 11}, device);
    std::vector<Tensor> first;
    for (const Shape& shape : shapes) first.push_back(parameter(shape, device));
    bool last = false;
    const auto trained = [&] {
      std::vector<Tensor> w;
      for (const Tensor& value : first) w.push_back((value + 0.0).requires_grad());
      const Tensor loss = network(x, w, dtype);
      loss.backward();
      std::vector<Tensor> asked{loss};
      for (const Tensor& value : w) asked.push_back(norm(value.grad()));
      const auto plan = plan_for(asked);
      last = std::ranges::any_of(plan->values,
                                 [](const auto& value) { return value.layout.is_channels_last(); });
      std::vector<double> numbers;
      for (const Tensor& value : asked) numbers.push_back(value.item());
      return numbers;
    };
    const std::vector<double> got = trained();
    EXPECT_EQ(last, expected);
    const ScopedDisable channels_first("layout");
    const std::vector<double> want = trained();
    EXPECT_FALSE(last);
    const double tolerance = dtype == DType::f32 ? 1e-4 : 0.02;
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance * std::abs(want[i])) << i;
  }

  bool before_ = compile_options().deterministic;
};

TEST_F(ChannelsLast, ATrainedNetworkIsTheSameAsWithChannelsFirst) {
  ATHANOR_NEEDS_GPU();
  const auto network = [](const Tensor& x, const std::vector<Tensor>& w, DType dtype) {
    const auto in_half = [&](const Tensor& value) { return cast(value, dtype); };
    Tensor h = relu(batch_norm(conv2d(in_half(x), in_half(w[0]), {}, {.padding = 1}), w[1], w[2]));
    h = max_pool2d(in_half(h), 3, {.stride = 2, .padding = 1});
    h = relu(conv2d(h, in_half(w[3]), {}, {.stride = 2}));
    h = h + conv2d(h, in_half(w[4]), {}, {.padding = 1});
    h = matmul(mean(cast(h, DType::f32), {2, 3}), transpose(w[5]));
    return mean(h * h);
  };
  compare(network, {{16, 3, 3, 3}, {16}, {16}, {32, 16, 1, 1}, {32, 32, 3, 3}, {5, 32}}, true);
}

// As in a U-Net: the gradient of what is put together is a part of the channels.
TEST_F(ChannelsLast, PartsArePutTogetherAndCutOut) {
  ATHANOR_NEEDS_GPU();
  const auto network = [](const Tensor& x, const std::vector<Tensor>& w, DType dtype) {
    const auto in_half = [&](const Tensor& value) { return cast(value, dtype); };
    const Tensor skip = relu(conv2d(in_half(x), in_half(w[0]), {}, {.padding = 1}));
    Tensor h = relu(conv2d(skip, in_half(w[1]), {}, {.stride = 2, .padding = 1}));
    h = slice(conv_transpose2d(h, in_half(w[2]), {}, {.stride = 2}), 3, 0, 11);
    h = concat({h, skip, slice(skip, 1, 3, 11)}, 1);
    h = relu(conv2d(h, in_half(w[3]), {}, {.padding = 1}));
    h = conv2d(concat({h, slice(h, 2, 1, 12)}, 2), in_half(w[4]));
    h = matmul(mean(cast(h, DType::f32), {2, 3}), transpose(w[5]));
    return mean(h * h);
  };
  compare(network, {{16, 3, 3, 3}, {32, 16, 3, 3}, {32, 8, 2, 2}, {24, 32, 3, 3}, {8, 24, 1, 1}, {5, 8}},
          true);
}

TEST_F(ChannelsLast, StayFirstIfImagesWouldBeCopied) {
  ATHANOR_NEEDS_GPU();
  const auto network = [](const Tensor& x, const std::vector<Tensor>& w, DType dtype) {
    const auto in_half = [&](const Tensor& value) { return cast(value, dtype); };
    Tensor h = x;
    for (const Tensor& weight : w)
      h = interpolate(conv2d(in_half(h), in_half(weight), {}, {.padding = 1}), {13, 12},
                      {.mode = Interpolation::linear});
    const Tensor sums = cast(h, DType::f32);
    return mean(sums * sums);
  };
  compare(network, {{16, 3, 3, 3}, {16, 16, 3, 3}, {16, 16, 3, 3}}, false);
}

}  // namespace
}  // namespace athanor::testing
