#include "athanor/nn/models.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../support/expect_error.h"
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
