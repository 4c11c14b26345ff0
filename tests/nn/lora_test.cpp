// Adapters added to the layers of transformers.
#include "athanor/nn/lora.h"

#include <gtest/gtest.h>

#include <cmath>

#include "../support/expect_error.h"
#include "athanor/nn/gpt2.h"
#include "athanor/nn/linear.h"
#include "athanor/nn/models.h"
#include "athanor/ops/random.h"

namespace athanor::nn {
namespace {

using testing::expect_error;

Tensor an_input(const std::string& model) {
  if (!is_language_model(model)) return uniform({2, 3, 8, 8});
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < 16; ++i) tokens.push_back(i * 7 % 50);
  return Tensor::from(tokens, {2, 8});
}

void expect_close(const std::vector<float>& got, const std::vector<float>& wanted, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], 5e-6 * (1 + std::abs(wanted[i]))) << what << " " << i;
}

TEST(Lora, BeginsAsTheModelAndMergesIntoIt) {
  for (const char* name : {"gpt2-nano", "bert-tiny", "vit-tiny"}) {
    manual_seed(4);
    const auto model = is_language_model(name) ? make_model(name, {8}, 50) : make_model(name, {3, 8, 8}, 5);
    for (const auto& [path, parameter] : model->named_parameters())
      if (is_of_classes(path)) parameter.assign(uniform(parameter.shape()));  // ViT's starts at zero
    const Tensor x = an_input(name);
    const size_t before = model->state_dict().size();
    const auto base = (*model)(x).to_vector<float>();
    EXPECT_GT(add_lora(*model, {.rank = 2, .alpha = 6}), 5) << name;
    expect_close((*model)(x).to_vector<float>(), base, name);  // kernels round at other places
    size_t adapters = 0;
    for (const auto& [path, parameter] : model->named_parameters())
      if (is_lora(path)) {
        ++adapters;
        parameter.assign(uniform(parameter.shape(), -0.2, 0.2));
      }
    const auto adapted = (*model)(x).to_vector<float>();
    EXPECT_NE(adapted, base);
    EXPECT_EQ(model->state_dict().size(), before + adapters);
    merge_lora(*model);
    EXPECT_EQ(model->state_dict().size(), before) << "the adapters are gone";
    expect_close((*model)(x).to_vector<float>(), adapted, name);
  }
}

TEST(Lora, ComputesAsWritten) {
  Linear layer(3, 2, false);
  layer.weight.assign(Tensor::from(std::vector<float>(6, 0), {2, 3}));
  layer.add_adapter({.rank = 1, .alpha = 4});
  const auto state = layer.state_dict();
  for (const auto& [name, parameter] : layer.named_parameters()) EXPECT_EQ(is_lora(name), name != "weight");
  EXPECT_EQ(to_string(state.at("lora_A").shape), "[1, 3]");
  EXPECT_EQ(to_string(state.at("lora_B").shape), "[2, 1]");
  layer.load_state_dict({{"weight", state.at("weight")},
                         {"lora_A", HostArray::of<float>({1, 3}, std::vector<float>{1, 2, 3})},
                         {"lora_B", HostArray::of<float>({2, 1}, std::vector<float>{1, -1})}});
  const Tensor x = Tensor::from(std::vector<float>{1, 10, 100}, {1, 3});
  EXPECT_EQ(layer(x).to_vector<float>(), (std::vector<float>{4 * 321, -4 * 321}));
  layer.merge_adapter();
  EXPECT_EQ(layer.weight.value().to_vector<float>(), (std::vector<float>{4, 8, 12, -4, -8, -12}));
}

TEST(Lora, WhatMakesNoSenseIsRefused) {
  Linear layer(3, 2);
  expect_error(ErrorCode::value, {"rank 3", "1 to 2"}, [&] { layer.add_adapter({.rank = 3}); });
  layer.add_adapter({.rank = 2});
  expect_error(ErrorCode::usage, {"already"}, [&] { layer.add_adapter({.rank = 1}); });
  EXPECT_EQ(add_lora(*make_model("resnet18", {3, 8, 8}, 2)), 0) << "only the last layer is dense";
}

}  // namespace
}  // namespace athanor::nn
