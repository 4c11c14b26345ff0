// Public functions compared with PyTorch: results and gradients in float64, written by data/make_torch.py.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "athanor/formats/safetensors.h"
#include "athanor/ops/ops.h"

namespace athanor {
namespace {

using Inputs = std::vector<Tensor>;
struct TorchCase {
  std::string name;
  std::function<Tensor(const Inputs&)> f;
};

const SafeTensors& dump() {
  static const SafeTensors file = read_safetensors(ATHANOR_SOURCE_DIR "/tests/ops/data/torch.safetensors");
  return file;
}

void expect_near(const HostArray& actual, const HostArray& expected, const std::string& what) {
  ASSERT_EQ(to_string(actual.shape), to_string(expected.shape)) << what;
  const auto a = to_doubles(actual), b = to_doubles(expected);
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], 1e-11 * (1 + std::abs(b[i]))) << what << ", element " << i;
}

class Torch : public ::testing::TestWithParam<TorchCase> {};

TEST_P(Torch, Agrees) {
  const auto& tensors = dump().tensors;
  const std::string& name = GetParam().name;
  Inputs inputs;
  for (int i = 0; tensors.contains(name + ".in" + std::to_string(i)); ++i) {
    inputs.push_back(Tensor::from(tensors.at(name + ".in" + std::to_string(i))));
    if (is_float(inputs.back().dtype())) inputs.back().requires_grad();
  }
  ASSERT_FALSE(inputs.empty()) << name << " is not in the dump: run data/make_torch.py";
  const Tensor out = GetParam().f(inputs);
  Tensor total = sum(out * Tensor::from(tensors.at(name + ".seed")));
  total.backward();
  expect_near(out.to_host(), tensors.at(name + ".out"), name);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const auto found = tensors.find(name + ".grad" + std::to_string(i)); found != tensors.end())
      expect_near(inputs[i].grad().to_host(), found->second,
                  name + ", the gradient of input " + std::to_string(i));
}

Tensor by_name(const char* spec, const Inputs& in) { return einsum(spec, in); }

const std::vector<TorchCase> cases = {
    {"conv_plain", [](const Inputs& in) { return conv2d(in[0], in[1], in[2]); }},
    {"conv_strided",
     [](const Inputs& in) {
       return conv2d(in[0], in[1], in[2], {.stride = {2, 3}, .padding = {1, 2}});
     }},
    {"conv_dilated",
     [](const Inputs& in) {
       return conv2d(in[0], in[1], {}, {.padding = 2, .dilation = {2, 3}});
     }},
    {"conv_grouped",
     [](const Inputs& in) { return conv2d(in[0], in[1], {}, {.stride = 2, .padding = 1, .groups = 3}); }},
    {"conv_depthwise",
     [](const Inputs& in) { return conv2d(in[0], in[1], in[2], {.padding = 1, .groups = 4}); }},
    {"transposed_plain", [](const Inputs& in) { return conv_transpose2d(in[0], in[1], in[2]); }},
    {"transposed_full",
     [](const Inputs& in) {
       return conv_transpose2d(
           in[0], in[1], {},
           {.stride = {2, 3}, .padding = 1, .dilation = {2, 1}, .groups = 2, .output_padding = {1, 2}});
     }},
    {"max_pool",
     [](const Inputs& in) {
       return max_pool2d(in[0], {3, 2}, {.stride = Pair(2, 1), .padding = {1, 0}});
     }},
    {"avg_pool", [](const Inputs& in) { return avg_pool2d(in[0], 3, {.stride = Pair(2), .padding = 1}); }},
    {"avg_pool_valid",
     [](const Inputs& in) {
       return avg_pool2d(in[0], 3, {.stride = Pair(2), .padding = 1, .count_include_pad = false});
     }},
    {"adaptive_avg",
     [](const Inputs& in) {
       return adaptive_avg_pool2d(in[0], {3, 2});
     }},
    {"adaptive_max",
     [](const Inputs& in) {
       return adaptive_max_pool2d(in[0], {3, 2});
     }},
    {"batch_norm", [](const Inputs& in) { return batch_norm(in[0], in[1], in[2], 1e-3); }},
    {"batch_norm_eval",
     [](const Inputs& in) { return batch_norm(in[0], in[1], in[2], in[3].detach(), in[4].detach()); }},
    {"layer_norm", [](const Inputs& in) { return layer_norm(in[0], 2, in[1], in[2]); }},
    {"group_norm", [](const Inputs& in) { return group_norm(in[0], 2, in[1], in[2]); }},
    {"cross_entropy", [](const Inputs& in) { return cross_entropy(in[0], in[1]); }},
    {"cross_entropy_smooth",
     [](const Inputs& in) {
       return cross_entropy(in[0], in[1], {.label_smoothing = 0.1, .ignore_index = 4});
     }},
    {"cross_entropy_pixels",
     [](const Inputs& in) { return cross_entropy(in[0], in[1], {.ignore_index = 0}); }},
    {"nll_loss",
     [](const Inputs& in) { return nll_loss(log_softmax(in[0], 1), in[1], {.ignore_index = 0}); }},
    {"mse_loss", [](const Inputs& in) { return mse_loss(in[0], in[1]); }},
    {"l1_loss", [](const Inputs& in) { return l1_loss(in[0], in[1]); }},
    {"bce", [](const Inputs& in) { return binary_cross_entropy_with_logits(in[0], in[1]); }},
    {"softmax", [](const Inputs& in) { return softmax(in[0], 1); }},
    {"log_softmax", [](const Inputs& in) { return log_softmax(in[0]); }},
    {"gelu", [](const Inputs& in) { return gelu(in[0]); }},
    {"gelu_tanh", [](const Inputs& in) { return gelu_tanh(in[0]); }},
    {"silu", [](const Inputs& in) { return silu(in[0]); }},
    {"softplus", [](const Inputs& in) { return softplus(in[0]); }},
    {"hard_swish", [](const Inputs& in) { return hard_swish(in[0]); }},
    {"elu", [](const Inputs& in) { return elu(in[0]); }},
    {"leaky_relu", [](const Inputs& in) { return leaky_relu(in[0]); }},
    {"log_sigmoid", [](const Inputs& in) { return log_sigmoid(in[0]); }},
    {"sigmoid", [](const Inputs& in) { return sigmoid(in[0]); }},
    {"relu", [](const Inputs& in) { return relu(in[0]); }},
    {"expm1", [](const Inputs& in) { return expm1(in[0]); }},
    {"einsum_chain", [](const Inputs& in) { return by_name("bij,jk,kl->bil", in); }},
    {"einsum_diagonal", [](const Inputs& in) { return by_name("iij,j->i", in); }},
    {"einsum_trace", [](const Inputs& in) { return by_name("ii->", in); }},
    {"einsum_outer", [](const Inputs& in) { return by_name("i, j -> ji", in); }},
    {"einsum_dots", [](const Inputs& in) { return by_name("...ij,...jk->...ik", in); }},
    {"einsum_implied", [](const Inputs& in) { return by_name("ba,cb", in); }},
    {"matmul_broadcast", [](const Inputs& in) { return matmul(in[0], in[1]); }},
    {"linear", [](const Inputs& in) { return linear(in[0], in[1], in[2]); }},
    {"attention",
     [](const Inputs& in) {
       return scaled_dot_product_attention(in[0], in[1], in[2], {}, {.causal = true});
     }},
    {"attention_masked",
     [](const Inputs& in) {
       return scaled_dot_product_attention(in[0], in[1], in[2], cast(in[3], DType::b8), {.scale = 0.3});
     }},
    {"prod_zero", [](const Inputs& in) { return prod(in[0], 1); }},
    {"logsumexp",
     [](const Inputs& in) {
       return logsumexp(in[0], {0, 2});
     }},
    {"var", [](const Inputs& in) { return var(in[0], 1); }},
    {"amax_ties", [](const Inputs& in) { return max(in[0], 1); }},
    {"nearest_up",
     [](const Inputs& in) {
       return interpolate(in[0], {6, 8});
     }},
    {"nearest_odd",
     [](const Inputs& in) {
       return interpolate(in[0], {7, 3});
     }},
    {"nearest_down",
     [](const Inputs& in) {
       return interpolate(in[0], {3, 2});
     }},
    {"nearest_exact",
     [](const Inputs& in) {
       return interpolate(in[0], {5, 3}, {.mode = Interpolation::nearest_exact});
     }},
    {"bilinear_up",
     [](const Inputs& in) {
       return interpolate(in[0], {6, 8}, {.mode = Interpolation::linear});
     }},
    {"bilinear_odd",
     [](const Inputs& in) {
       return interpolate(in[0], {7, 3}, {.mode = Interpolation::linear});
     }},
    {"bilinear_corners",
     [](const Inputs& in) {
       return interpolate(in[0], {7, 3}, {.mode = Interpolation::linear, .align_corners = true});
     }},
    {"bilinear_antialias",
     [](const Inputs& in) {
       return interpolate(in[0], {4, 9}, {.mode = Interpolation::linear, .antialias = true});
     }},
    {"bicubic",
     [](const Inputs& in) {
       return interpolate(in[0], {7, 3}, {.mode = Interpolation::cubic});
     }},
    {"bicubic_corners",
     [](const Inputs& in) {
       return interpolate(in[0], {7, 1}, {.mode = Interpolation::cubic, .align_corners = true});
     }},
    {"bicubic_antialias",
     [](const Inputs& in) {
       return interpolate(in[0], {4, 9}, {.mode = Interpolation::cubic, .antialias = true});
     }},
    {"linear_signal",
     [](const Inputs& in) { return interpolate(in[0], {9}, {.mode = Interpolation::linear}); }},
    {"trilinear",
     [](const Inputs& in) {
       return interpolate(in[0], {4, 2, 5}, {.mode = Interpolation::linear});
     }},
    {"rms_norm", [](const Inputs& in) { return rms_norm(in[0], in[1], 1e-6); }},
    {"swiglu", [](const Inputs& in) { return swiglu(in[0], in[1]); }},
    {"rotary", [](const Inputs& in) { return rotary_embedding(in[0]); }},
    {"rotary_interleaved",
     [](const Inputs& in) { return rotary_embedding(in[0], in[1], {.base = 500, .interleaved = true}); }},
    {"attention_grouped",
     [](const Inputs& in) {
       return scaled_dot_product_attention(in[0], in[1], in[2], {}, {.causal = true});
     }},
    {"attention_window",
     [](const Inputs& in) { return scaled_dot_product_attention(in[0], in[1], in[2], {}, {.window = 3}); }},
    {"attention_causal_window",
     [](const Inputs& in) {
       return scaled_dot_product_attention(in[0], in[1], in[2], {}, {.causal = true, .window = 3});
     }},
    {"attention_lengths",
     [](const Inputs& in) {
       return scaled_dot_product_attention(in[0], in[1], in[2], {}, {.lengths = in[3]});
     }},
    {"conv1d",
     [](const Inputs& in) {
       return conv1d(in[0], in[1], in[2], {.stride = 2, .padding = 3, .dilation = 2, .groups = 2});
     }},
    {"conv3d_plain", [](const Inputs& in) { return conv3d(in[0], in[1], in[2]); }},
    {"conv3d_full",
     [](const Inputs& in) {
       return conv3d(in[0], in[1], {},
                     {.stride = {2, 1, 2}, .padding = {1, 2, 0}, .dilation = {1, 2, 1}, .groups = 2});
     }},
    {"unfold",
     [](const Inputs& in) {
       return unfold2d(in[0], {3, 2}, {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}});
     }},
    {"fold",
     [](const Inputs& in) {
       return fold2d(in[0], {5, 6}, {3, 2}, {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}});
     }},
    {"grid_sample", [](const Inputs& in) { return grid_sample(in[0], in[1]); }},
    {"grid_sample_corners",
     [](const Inputs& in) {
       return grid_sample(in[0], in[1], {.border = Border::border, .align_corners = true});
     }},
    {"grid_sample_mirrored",
     [](const Inputs& in) { return grid_sample(in[0], in[1], {.border = Border::reflection}); }},
    {"grid_sample_nearest",
     [](const Inputs& in) {
       return grid_sample(
           in[0], in[1],
           {.mode = Interpolation::nearest, .border = Border::reflection, .align_corners = true});
     }},
    {"affine_grid",
     [](const Inputs& in) {
       return affine_grid(in[0], {4, 5});
     }},
    {"affine_grid_corners",
     [](const Inputs& in) {
       return affine_grid(in[0], {1, 5}, true);
     }},
    {"roi_align",
     [](const Inputs& in) {
       return roi_align(in[0], Tensor::from(dump().tensors.at("roi_align.boxes")), {2, 3});
     }},
    {"roi_align_aligned",
     [](const Inputs& in) {
       return roi_align(in[0], Tensor::from(dump().tensors.at("roi_align.boxes")), 2,
                        {.scale = 0.5, .samples = 3, .aligned = true});
     }},
    {"ctc", [](const Inputs& in) { return ctc_loss(log_softmax(in[0], 2), in[1], in[2], in[3]); }},
    {"ctc_empty",
     [](const Inputs& in) { return ctc_loss(log_softmax(in[0], 2), in[1], in[2], in[3], {.blank = 4}); }},
    {"csr",
     [](const Inputs& in) {
       return csr_matmul({in[0], in[1], in[2], 5}, in[3]);
     }},
    {"norm", [](const Inputs& in) { return norm(in[0], 1, false, 3); }},
};

INSTANTIATE_TEST_SUITE_P(Dump, Torch, ::testing::ValuesIn(cases),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace athanor
