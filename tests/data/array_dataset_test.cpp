#include "athanor/data/array_dataset.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::expect_error;

HostArray bytes(const Shape& shape, const std::vector<double>& values) {
  return from_doubles(DType::u8, shape, values);
}

HostArray integers(const std::vector<double>& values) {
  return from_doubles(DType::i64, {static_cast<int64_t>(values.size())}, values);
}

std::vector<float> read(const Dataset& dataset, int64_t index) {
  std::vector<float> image(static_cast<size_t>(dataset.spec().input.size()));
  int64_t label = -1;
  dataset.read(index, image.data(), label);
  return image;
}

TEST(ArrayDataset, NormalisesGreyPictures) {
  const ArrayDataset dataset(bytes({2, 1, 2}, {0, 51, 102, 255}), integers({1, 0}));
  EXPECT_EQ(dataset.size(), 2);
  EXPECT_EQ(dataset.spec().input, (Shape{1, 1, 2}));
  EXPECT_EQ(dataset.spec().classes, 2);
  // Over 255 the pixels are 0, 0.2, 0.4, 1: mean 0.4, variance (0.16 + 0.04 + 0 + 0.36) / 4.
  const float stddev = std::sqrt(0.14F);
  EXPECT_NEAR(dataset.spec().normalization.mean.at(0), 0.4, 1e-7);
  EXPECT_NEAR(dataset.spec().normalization.stddev.at(0), stddev, 1e-7);
  EXPECT_NEAR(read(dataset, 0)[1], -0.2F / stddev, 1e-6);
  EXPECT_NEAR(read(dataset, 1)[1], 0.6F / stddev, 1e-6);
  float image[2];
  int64_t label = -1;
  dataset.read(0, image, label);
  EXPECT_EQ(label, 1);
}

TEST(ArrayDataset, ChannelsFirstAndLastAreTheSamePictures) {
  const std::vector<double> planes = {1, 2, 3, 4, 50, 60, 70, 80, 9, 9, 9, 9};
  std::vector<double> interleaved;
  for (size_t pixel = 0; pixel < 4; ++pixel)
    for (size_t channel = 0; channel < 3; ++channel) interleaved.push_back(planes[channel * 4 + pixel]);
  const ArrayDataset first(bytes({1, 3, 2, 2}, planes), integers({0}));
  const ArrayDataset last(bytes({1, 2, 2, 3}, interleaved), integers({0}));
  EXPECT_EQ(last.spec().input, (Shape{3, 2, 2}));
  EXPECT_EQ(first.spec().normalization.mean, last.spec().normalization.mean);
  EXPECT_EQ(first.spec().normalization.stddev, last.spec().normalization.stddev);
  EXPECT_EQ(read(first, 0), read(last, 0));
  EXPECT_EQ(last.spec().normalization.stddev[2], 1) << "a constant channel";
  EXPECT_EQ(read(last, 0)[8], 0);
}

TEST(ArrayDataset, TakesAGivenNormalization) {
  const ArrayDataset dataset(bytes({1, 1, 2}, {0, 255}), integers({3}),
                             {.classes = 10, .normalization = Normalization{{0.5F}, {0.25F}}});
  EXPECT_EQ(read(dataset, 0), (std::vector<float>{-2, 2}));
  EXPECT_EQ(dataset.spec().classes, 10);
}

TEST(ArrayDataset, RefusesWhatDoesNotFit) {
  const HostArray images = bytes({2, 1, 1}, {0, 1});
  const auto make = [](const HostArray& i, const HostArray& l, const ArrayDatasetOptions& o = {}) {
    return [=] { ArrayDataset(i, l, o); };
  };
  expect_error(ErrorCode::shape, {"2 images but 3 labels"}, make(images, integers({0, 1, 2})));
  expect_error(ErrorCode::value, {"label 7 of example 1", "3 classes, from 0 to 2"},
               make(images, integers({0, 7}), {.classes = 3}));
  expect_error(ErrorCode::value, {"label -1 of example 0"}, make(images, integers({-1, 0})));
  expect_error(ErrorCode::dtype, {"must be u8", "f32"},
               make(HostArray(DType::f32, {2, 1, 1}), integers({0, 0})));
  expect_error(ErrorCode::dtype, {"must be integers"}, make(images, HostArray(DType::f32, {2})));
  expect_error(ErrorCode::shape, {"labels of shape [2, 1]"}, make(images, HostArray(DType::u8, {2, 1})));
  expect_error(ErrorCode::shape, {"[2, 5, 5, 5]", "C 1 or 3"},
               make(HostArray(DType::u8, {2, 5, 5, 5}), integers({0, 0})));
  expect_error(ErrorCode::value, {"2 class names for 3"},
               make(images, integers({0, 0}), {{"a", "b"}, 3, {}}));
  expect_error(
      ErrorCode::shape, {"images of 1 channels", "3 means", "that it was trained on"},
      make(images, integers({0, 0}), {.classes = 2, .normalization = Normalization{{0, 0, 0}, {1, 1, 1}}}));
}

TEST(ArrayDataset, WithoutPicturesIsRefused) {
  for (const Shape& shape : {Shape{0, 8, 8}, Shape{2, 0, 8}})
    expect_error(ErrorCode::value, {"no images", to_string(shape)},
                 [&] { ArrayDataset(HostArray(DType::u8, shape), HostArray(DType::i64, {shape[0]})); });
}

}  // namespace
}  // namespace athanor
