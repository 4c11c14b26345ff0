#include "athanor/nn/models.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../support/expect_error.h"
#include "athanor/nn/auxiliary.h"
#include "athanor/nn/bert.h"
#include "athanor/nn/gpt2.h"
#include "athanor/ops/creation.h"

namespace athanor::nn {
namespace {

using testing::expect_error;

std::map<std::string, std::string> shapes_of(const Module& model) {
  std::map<std::string, std::string> shapes;
  for (const auto& [name, p] : model.named_parameters()) shapes[name] = to_string(p.shape());
  for (const auto& [name, b] : model.named_buffers()) shapes[name] = to_string(b.shape());
  return shapes;
}

TEST(Models, Mlp) {
  const auto model = make_model("mlp", {1, 28, 28}, 10);
  const auto shapes = shapes_of(*model);
  EXPECT_EQ(shapes.at("fc1.weight"), "[512, 784]");
  EXPECT_EQ(shapes.at("fc3.bias"), "[10]");
  EXPECT_EQ(model->parameter_count(), 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10);
  EXPECT_EQ(to_string((*model)(zeros({3, 1, 28, 28})).shape()), "[3, 10]");
}

TEST(Models, Cnn) {
  const auto model = make_model("cnn", {1, 28, 28}, 10);
  EXPECT_EQ(shapes_of(*model).at("fc.weight"), "[10, 3136]");
  EXPECT_EQ(to_string((*model)(zeros({3, 1, 28, 28})).shape()), "[3, 10]");
  EXPECT_EQ(to_string((*make_model("cnn", {3, 33, 30}, 7))(zeros({2, 3, 33, 30})).shape()), "[2, 7]");
}

// torchvision's resnet18 has these names and shapes, except for the 7x7 stem.
TEST(Models, ResNet18) {
  const auto model = make_model("resnet18", {3, 32, 32}, 10);
  const auto shapes = shapes_of(*model);
  EXPECT_EQ(shapes.size(), 122U);
  EXPECT_EQ(model->parameter_count(), 11173962);
  EXPECT_EQ(shapes.at("conv1.weight"), "[64, 3, 3, 3]");
  EXPECT_EQ(shapes.at("layer1.0.conv1.weight"), "[64, 64, 3, 3]");
  EXPECT_EQ(shapes.at("layer2.0.downsample.0.weight"), "[128, 64, 1, 1]");
  EXPECT_EQ(shapes.at("layer2.0.downsample.1.running_var"), "[128]");
  EXPECT_EQ(shapes.at("layer4.1.bn2.num_batches_tracked"), "[]");
  EXPECT_EQ(shapes.at("fc.weight"), "[10, 512]");
  EXPECT_FALSE(shapes.contains("layer1.0.downsample.0.weight"));
  EXPECT_EQ(to_string((*model)(zeros({2, 3, 32, 32})).shape()), "[2, 10]");
}

// The counts of torchvision for ImageNet. The 3x3 stem has fewer weights.
TEST(Models, ResNetsHaveThePublishedCounts) {
  EXPECT_EQ(make_model("resnet18", {3, 224, 224}, 1000)->parameter_count(), 11689512);
  EXPECT_EQ(make_model("resnet34", {3, 224, 224}, 1000)->parameter_count(), 21797672);
  const auto model = make_model("resnet50", {3, 224, 224}, 1000);
  EXPECT_EQ(model->parameter_count(), 25557032);
  const auto shapes = shapes_of(*model);
  EXPECT_EQ(shapes.size(), 320U);
  EXPECT_EQ(shapes.at("conv1.weight"), "[64, 3, 7, 7]");
  EXPECT_EQ(shapes.at("layer1.0.downsample.0.weight"), "[256, 64, 1, 1]");
  EXPECT_EQ(shapes.at("layer4.2.conv3.weight"), "[2048, 512, 1, 1]");
  EXPECT_EQ(shapes.at("fc.weight"), "[1000, 2048]");
  EXPECT_EQ(make_model("resnet50", {3, 32, 32}, 1000)->parameter_count(), 25557032 - 3 * 64 * (49 - 9));
}

TEST(Models, ResNetsOfLargeImagesHalveThemFiveTimes) {
  const auto model = make_model("resnet50", {1, 64, 70}, 5);
  EXPECT_EQ(to_string((*model)(zeros({2, 1, 64, 70})).shape()), "[2, 5]");
}

// The counts of the published checkpoints.
TEST(Models, Gpt2) {
  Gpt2 small;
  EXPECT_EQ(small.parameter_count(), 124439808);
  const auto shapes = shapes_of(small);
  EXPECT_EQ(shapes.size(), 148U);
  EXPECT_EQ(shapes.at("wte.weight"), "[50257, 768]");
  EXPECT_EQ(shapes.at("wpe.weight"), "[1024, 768]");
  EXPECT_EQ(shapes.at("h.11.attn.c_attn.weight"), "[768, 2304]");
  EXPECT_EQ(shapes.at("h.0.mlp.c_proj.bias"), "[768]");
  EXPECT_EQ(Gpt2({.layers = 24, .dimensions = 1024, .heads = 16}).parameter_count(), 354823168);
  expect_error(ErrorCode::value, {"7 heads", "divide"}, [] { Gpt2({.heads = 7}); });
  Gpt2 tiny({.vocabulary = 5, .positions = 4, .layers = 1, .dimensions = 2, .heads = 1});
  expect_error(ErrorCode::shape, {"4 tokens"}, [&] { tiny(zeros({1, 5}, DType::i64)); });
}

// The count of timm's vit_tiny_patch16_224. Small pictures have smaller patches, with fewer weights.
TEST(Models, ViTTiny) {
  EXPECT_EQ(make_model("vit-tiny", {3, 224, 224}, 1000)->parameter_count(), 5717416);
  const auto small = make_model("vit-tiny", {1, 30, 28}, 10);
  EXPECT_EQ(shapes_of(*small).at("conv_proj.weight"), "[192, 1, 4, 4]");
  EXPECT_EQ(shapes_of(*small).at("encoder.pos_embedding"), "[1, 50, 192]");
  EXPECT_EQ(to_string((*small)(zeros({2, 1, 30, 28})).shape()), "[2, 10]");
  expect_error(ErrorCode::shape, {"28, 28", "30, 28"}, [&] { (*small)(zeros({2, 1, 28, 28})); });
}

// The count of PyTorch Hub's mateuszbuda/brain-segmentation-pytorch.
TEST(Models, UNet) {
  EXPECT_EQ(make_model("unet-small", {3, 256, 256}, 1)->parameter_count(), 7763041);
  const auto model = make_model("unet-small", {3, 20, 37}, 5);
  EXPECT_EQ(shapes_of(*model).at("upconv4.weight"), "[512, 256, 2, 2]");
  EXPECT_EQ(shapes_of(*model).at("decoder1.dec1conv1.weight"), "[32, 64, 3, 3]");
  EXPECT_EQ(to_string((*model)(zeros({2, 3, 20, 37})).shape()), "[2, 5, 20, 37]");
}

// The count of torchvision's, with the auxiliary head.
TEST(Models, InceptionV3) {
  const auto model = make_model("inception_v3", {3, 299, 299}, 1000);
  EXPECT_EQ(model->parameter_count(), 27161264);
  EXPECT_EQ(shapes_of(*model).at("AuxLogits.fc.weight"), "[1000, 768]");
  auto* second = dynamic_cast<AuxiliaryLogits*>(model.get());
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(to_string((*model)(zeros({2, 3, 75, 75})).shape()), "[2, 1000]");
  EXPECT_EQ(to_string(second->take_auxiliary().shape()), "[2, 1000]");
  EXPECT_FALSE(second->take_auxiliary().defined()) << "it is taken";
  model->eval();
  (*model)(zeros({2, 3, 75, 75}));
  EXPECT_FALSE(second->take_auxiliary().defined()) << "in evaluation";
  expect_error(ErrorCode::shape, {"75 x 75"}, [] { make_model("inception_v3", {3, 74, 75}, 10); });
}

// The counts of the published encoders with poolers, and of Hugging Face's BertForMaskedLM without one.
TEST(Models, Bert) {
  Bert base;
  EXPECT_EQ(base.parameter_count(), 109482240);
  EXPECT_EQ(shapes_of(base).size(), 199U);
  EXPECT_EQ(shapes_of(base).at("encoder.layer.11.attention.output.LayerNorm.weight"), "[768]");
  EXPECT_EQ(Bert({.layers = 4, .dimensions = 512, .heads = 8}).parameter_count(), 28763648);
  const std::map<std::string, int64_t> counts{{"bert-tiny", 4416698},
                                              {"bert-mini", 11201594},
                                              {"bert-small", 28795194},
                                              {"bert-medium", 41404730},
                                              {"bert-base", 109514298}};
  for (const auto& [name, count] : counts)
    EXPECT_EQ(make_model(name, {512}, 30522)->parameter_count(), count) << name;
  Bert tiny({.vocabulary = 7, .positions = 4, .layers = 1, .dimensions = 2, .heads = 1});
  EXPECT_EQ(to_string(tiny.pooled(tiny(zeros({3, 4}, DType::i64))).shape()), "[3, 2]");
  expect_error(ErrorCode::value, {"7 heads", "divide"}, [] { Bert({.heads = 7}); });
  expect_error(ErrorCode::shape, {"4 tokens"}, [&] { tiny(zeros({1, 5}, DType::i64)); });
}

TEST(Models, BadInput) {
  expect_error(ErrorCode::name, {"'resnet81'", "'resnet18'"}, [] {
    make_model("resnet81", {3, 32, 32}, 10);
  });
  expect_error(ErrorCode::shape, {"[28, 28]", "[C, H, W]"}, [] { make_model("mlp", {28, 28}, 10); });
  expect_error(ErrorCode::shape, {"4 x 4"}, [] { make_model("cnn", {1, 3, 3}, 10); });
  expect_error(ErrorCode::value, {"0 classes"}, [] { make_model("cnn", {1, 28, 28}, 0); });
}

}  // namespace
}  // namespace athanor::nn
