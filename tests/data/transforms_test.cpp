// Transforms against torchvision's results for the same pictures and parameters (make_transforms.py).
#include "athanor/data/transforms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "athanor/data/auto_augment.h"
#include "athanor/data/mixing.h"
#include "athanor/formats/safetensors.h"

namespace athanor {
namespace {

namespace tf = transforms;
using tf::Interpolation;

const SafeTensors& reference() {
  static const SafeTensors read = read_safetensors(std::filesystem::path(ATHANOR_SOURCE_DIR) /
                                                   "tests/data/reference/transforms.safetensors");
  return read;
}

Picture picture_of(const std::string& name) {
  const HostArray& array = reference().tensors.at(name);
  Picture picture(array.shape[0], array.shape[1], array.shape[2]);
  std::ranges::copy(array.as<float>(), picture.pixels.begin());
  return picture;
}

/// At most `apart` pixels may differ: those whose source is halfway between two pixels, so rounding decides.
void expect_same(const Picture& made, const std::string& name, int apart = 0) {
  const Picture expected = picture_of(name);
  ASSERT_EQ(made.channels, expected.channels) << name;
  ASSERT_EQ(made.height, expected.height) << name;
  ASSERT_EQ(made.width, expected.width) << name;
  int differ = 0;
  float worst = 0;
  for (size_t i = 0; i < made.pixels.size(); ++i) {
    const float error = std::abs(made.pixels[i] - expected.pixels[i]);
    worst = std::max(worst, error);
    if (error > 1e-5F) ++differ;
  }
  EXPECT_LE(differ, apart) << name << ", worst by " << worst;
}

TEST(Transforms, AreTorchvisions) {
  const std::map<std::string, std::function<Picture(const Picture&)>> made = {
      {"horizontal_flip", tf::horizontal_flip},
      {"vertical_flip", tf::vertical_flip},
      {"crop", [](const Picture& p) { return tf::crop(p, 1 - 4, 6 - 4, p.height, p.width); }},
      {"rotate", [](const Picture& p) { return tf::rotate(p, 25, Interpolation::bilinear); }},
      {"affine",
       [](const Picture& p) {
         const tf::Affine how{.angle = 12, .translate = {2, -1}, .scale = 1.2, .shear = {8, -5}};
         return tf::affine(p, how, Interpolation::bilinear);
       }},
      {"shear_corner",
       [](const Picture& p) {
         return tf::affine(p, {.shear = {11, 0}, .around_corner = true}, Interpolation::bilinear);
       }},
      {"blur3", [](const Picture& p) { return tf::gaussian_blur(p, 3, 0.7); }},
      {"blur7", [](const Picture& p) { return tf::gaussian_blur(p, 7, 1.9); }},
      {"erase",
       [](const Picture& p) {
         return tf::erase(p, {2, 3, 4, 5});
       }},
      {"brightness", [](const Picture& p) { return tf::adjust_brightness(p, 1.6); }},
      {"contrast", [](const Picture& p) { return tf::adjust_contrast(p, 1.7); }},
      {"contrast_low", [](const Picture& p) { return tf::adjust_contrast(p, 0.3); }},
      {"saturation", [](const Picture& p) { return tf::adjust_saturation(p, 1.8); }},
      {"sharpness", [](const Picture& p) { return tf::adjust_sharpness(p, 1.9); }},
      {"sharpness_low", [](const Picture& p) { return tf::adjust_sharpness(p, 0.2); }},
      {"hue", [](const Picture& p) { return tf::adjust_hue(p, 0.3); }},
      {"hue_back", [](const Picture& p) { return tf::adjust_hue(p, -0.45); }},
      {"grayscale", tf::grayscale},
      {"posterize", [](const Picture& p) { return tf::posterize(p, 3); }},
      {"solarize", [](const Picture& p) { return tf::solarize(p, 0.6); }},
      {"invert", tf::invert},
      {"autocontrast", tf::autocontrast},
      {"equalize", tf::equalize}};
  for (const auto& [name, transform] : made)
    for (const char* kind : {"colour", "grey"})
      expect_same(transform(picture_of(kind)), std::string(kind) + "." + name);
  for (const char* kind : {"colour", "grey"})
    expect_same(tf::rotate(picture_of(kind), -40, Interpolation::nearest),
                std::string(kind) + ".rotate_nearest", 3);
}

TEST(Transforms, CuttingAndScalingIsTorchvisions) {
  const HostArray& stored = reference().tensors.at("stored");
  expect_same(resample(stored, {1, 2, 7, 9}, 3, 4, 4), "resized.smaller");
  expect_same(resample(stored, {2, 1, 4, 5}, 3, 9, 11), "resized.larger");
  expect_same(resample(stored, {0, 0, 9, 12}, 3, 13, 5), "resized.mixed");
}

TEST(Transforms, OperationsOfRandAugmentAreTorchvisions) {
  const Picture colour = picture_of("colour");
  const auto& names = auto_operations();
  for (const bool wide : {false, true}) {
    const HostArray& strengths = reference().tensors.at(wide ? "strengths.trivial" : "strengths.rand");
    ASSERT_EQ(strengths.shape, (Shape{static_cast<int64_t>(names.size()), 31}));
    for (size_t i = 0; i < names.size(); ++i)
      for (int bin = 0; bin < 31; ++bin)
        EXPECT_NEAR(auto_magnitude(names[i], bin, wide, colour.height, colour.width),
                    strengths.as<float>()[i * 31 + static_cast<size_t>(bin)], 1e-4)
            << names[i] << " " << bin;
  }
  for (const std::string_view name : names) {
    double magnitude = auto_magnitude(name, 17, true, colour.height, colour.width);
    const bool turned = name.starts_with("Shear") || name == "Rotate" || name == "Brightness" ||
                        name == "Color" || name == "Contrast" || name == "Sharpness";
    if (turned) magnitude = -magnitude;
    expect_same(auto_operation(colour, name, magnitude), "auto." + std::string(name), 6);
  }
}

TEST(Transforms, MixingIsTorchvisions) {
  const auto& tensors = reference().tensors;
  const auto expect_near = [&](const HostArray& made, const std::string& name) {
    const std::vector<double> values = to_doubles(made), expected = to_doubles(tensors.at(name));
    ASSERT_EQ(made.shape, tensors.at(name).shape) << name;
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-6) << name;
  };
  HostArray batch = tensors.at("batch");
  mix_up(batch, 0.3);
  expect_near(batch, "mixup");
  expect_near(mixed_labels(tensors.at("labels"), 4, 0.3), "mixup_labels");
  batch = tensors.at("batch");
  cut_mix(batch, {0, 1, 3, 3});
  expect_near(batch, "cutmix");
  expect_near(mixed_labels(tensors.at("labels"), 4, 1 - 9.0 / 20), "cutmix_labels");
}

}  // namespace
}  // namespace athanor
