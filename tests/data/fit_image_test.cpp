#include "athanor/data/fit_image.h"

#include <gtest/gtest.h>

#include <functional>

namespace athanor {
namespace {

HostArray picture(int64_t height, int64_t width, int64_t channels,
                  const std::function<int(int64_t, int64_t, int64_t)>& value) {
  HostArray result(DType::u8, {height, width, channels});
  auto out = result.as<uint8_t>().begin();
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < channels; ++c) *out++ = static_cast<uint8_t>(value(y, x, c));
  return result;
}

ExampleSpec spec(const Shape& input) {
  ExampleSpec result;
  result.input = input;
  result.classes = 10;
  result.normalization = {.mean = {0.5F}, .stddev = {0.25F}};
  return result;
}

TEST(FitImage, OfTheRightSizeIsNormalised) {
  const HostArray made =
      fit_image(picture(2, 2, 1, [](int64_t y, int64_t x, int64_t) { return int(255 * (y == x)); }),
                spec({1, 2, 2}), false);
  const auto values = made.as<float>();
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), (std::vector<float>{2, -2, -2, 2}));
}

TEST(FitImage, InvertsAndGreys) {
  const auto red = picture(4, 4, 3, [](int64_t, int64_t, int64_t c) { return c == 0 ? 255 : 0; });
  EXPECT_NEAR(fit_image(red, spec({1, 4, 4}), false).as<float>()[5], (0.299 - 0.5) / 0.25, 1e-5);
  EXPECT_NEAR(fit_image(red, spec({1, 4, 4}), true).as<float>()[5], (0.701 - 0.5) / 0.25, 1e-5);
}

TEST(FitImage, GreyBecomesThreeChannels) {
  const auto made =
      fit_image(picture(3, 3, 1, [](int64_t y, int64_t, int64_t) { return static_cast<int>(80 * y); }),
                spec({3, 3, 3}), false);
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(made.as<float>()[i], made.as<float>()[i + 9]);
    EXPECT_EQ(made.as<float>()[i], made.as<float>()[i + 18]);
  }
}

TEST(FitImage, CutsTheMiddleAndScales) {
  // The left and right quarters are white; the rest is black at the top and grey at the bottom.
  const auto wide = picture(40, 80, 1, [](int64_t y, int64_t x, int64_t) {
    return x < 20 || x >= 60 ? 255 : y < 20 ? 0 : 128;
  });
  const auto made = fit_image(wide, spec({1, 4, 4}), false);
  const auto values = made.as<float>();
  EXPECT_EQ(values[0], -2);
  EXPECT_EQ(values[3], -2);
  EXPECT_NEAR(values[12], (128.0 / 255 - 0.5) / 0.25, 1e-5);
  EXPECT_NEAR(values[15], (128.0 / 255 - 0.5) / 0.25, 1e-5);
}

TEST(FitImage, EnlargesASinglePixel) {
  const auto made =
      fit_image(picture(1, 1, 1, [](int64_t, int64_t, int64_t) { return 255; }), spec({1, 28, 28}), false);
  for (const float value : made.as<float>()) EXPECT_EQ(value, 2);
}

TEST(FitImage, SeesTheBackground) {
  EXPECT_EQ(border_brightness(picture(5, 7, 1,
                                      [](int64_t y, int64_t x, int64_t) {
                                        return y == 0 || x == 0 || y == 4 || x == 6 ? 200 : 3;
                                      })),
            200);
}

}  // namespace
}  // namespace athanor
