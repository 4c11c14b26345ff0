#include "athanor/data/masks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "athanor/data/augmentation.h"
#include "athanor/formats/image.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::expect_error;

/// A picture whose brightness is 51 times the class of each pixel.
PictureAndMask pair_of(int64_t side, int64_t block) {
  PictureAndMask pair{HostArray(DType::u8, {side, side, 1}), HostArray(DType::u8, {side, side, 1})};
  for (int64_t y = 0; y < side; ++y)
    for (int64_t x = 0; x < side; ++x) {
      const auto at = static_cast<size_t>(y * side + x);
      const int64_t label = 1 + (3 * (y / block) + x / block) % 4;
      pair.mask.as<uint8_t>()[at] = static_cast<uint8_t>(label);
      pair.picture.as<uint8_t>()[at] = static_cast<uint8_t>(51 * label);
    }
  return pair;
}

ExampleSpec spec_of(int64_t side) {
  ExampleSpec spec;
  spec.input = {1, side, side};
  spec.classes = 5;
  spec.pixels = true;
  return spec;
}

TEST(Masks, MoveAsTheirPicturesDo) {
  const PictureAndMask pair = pair_of(12, 1);
  const Augmentation moves = Augmentation::parse("crop=3,flip,vflip,jitter=0:0:0:0,erase=0");
  bool moved = false;
  for (uint64_t index = 0; index < 20; ++index) {
    RandomStream random(1, 2, index);
    const auto [picture, mask] = moves.apply(pair, spec_of(12), random);
    std::vector<int64_t> labels(144);
    labels_of_mask(mask, labels.data());
    for (size_t i = 0; i < labels.size(); ++i) {
      const int64_t seen = std::lround(picture.pixels[i] * 5);
      EXPECT_EQ(labels[i], seen == 0 ? -100 : seen) << "outside nothing counts";
      moved |= labels[i] != pair.mask.as<uint8_t>()[i];
    }
  }
  EXPECT_TRUE(moved);
}

TEST(Masks, AreScaledAndTurnedToTheNearestPixel) {
  const PictureAndMask pair = pair_of(40, 10);
  for (const char* how : {"resized-crop=0.3", "rotate=30", "affine=20:0.1:0.2:10"}) {
    const Augmentation moves = Augmentation::parse(how);
    int64_t compared = 0, same = 0;
    for (uint64_t index = 0; index < 10; ++index) {
      RandomStream random(3, 0, index);
      const auto [picture, mask] = moves.apply(pair, spec_of(20), random);
      for (size_t i = 0; i < 400; ++i) {
        const float exact = picture.pixels[i] * 5;
        if (mask.pixels[i] == 0 || std::abs(exact - std::round(exact)) > 1e-3F || exact < 0.5F) continue;
        ++compared;
        same += mask.pixels[i] - 1 == std::round(exact) ? 1 : 0;
      }
    }
    EXPECT_GT(compared, 700) << how;
    // Not all pixels are the same, because a blend of two classes may look like a third class.
    EXPECT_GT(same, compared * 97 / 100) << how;
  }
  EXPECT_EQ(Augmentation::parse("flip,trivial").without_masks(), "trivial");
  EXPECT_EQ(Augmentation::parse("flip,blur").without_masks(), "");
}

TEST(Masks, AreStoredWithTheirPalette) {
  for (const int64_t classes : {2, 3, 17, 256}) {
    HostArray mask(DType::u8, {5, 7, 1});
    for (size_t i = 0; i < 35; ++i)
      mask.as<uint8_t>()[i] = static_cast<uint8_t>(i * 8 % static_cast<size_t>(classes));
    const auto file = format_mask(mask, mask_palette(classes));
    EXPECT_EQ(parse_mask(file, "a").bytes, mask.bytes) << classes;
    const HostArray colors = parse_image(file, "a");
    ASSERT_EQ(to_string(colors.shape), "[5, 7, 3]");
    const Color color = mask_palette(classes)[mask.as<uint8_t>()[3]];
    EXPECT_TRUE(std::ranges::equal(colors.as<uint8_t>().subspan(9, 3), color)) << classes;
  }
  // aeroplane, bicycle, person of PASCAL VOC
  const auto voc = mask_palette(21);
  EXPECT_EQ(voc[0], (Color{0, 0, 0}));
  EXPECT_EQ(voc[1], (Color{128, 0, 0}));
  EXPECT_EQ(voc[2], (Color{0, 128, 0}));
  EXPECT_EQ(voc[15], (Color{192, 128, 128}));
  HostArray grey(DType::u8, {3, 3, 1}), colors(DType::u8, {3, 3, 3});
  grey.as<uint8_t>()[4] = 200;
  EXPECT_EQ(parse_mask(format_png(grey), "a").bytes, grey.bytes);
  expect_error(ErrorCode::format, {"a.png", "colours", "number"},
               [&] { parse_mask(format_png(colors), "a.png"); });
  expect_error(ErrorCode::format, {"a.png", "PNG"}, [&] { parse_mask({}, "a.png"); });
}

}  // namespace
}  // namespace athanor
