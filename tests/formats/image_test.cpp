#include "athanor/formats/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/formats/corpus.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::corpus_file;
using testing::corpus_path;
using testing::expect_error;
using testing::with_byte;

void expect_picture(const std::string& name, const Shape& shape, const std::vector<double>& values) {
  const HostArray picture = read_image(corpus_path("image/" + name));
  EXPECT_EQ(picture.dtype, DType::u8) << name;
  EXPECT_EQ(picture.shape, shape) << name;
  EXPECT_EQ(to_doubles(picture), values) << name;
}

TEST(Image, ReadsEveryKindOfPng) {
  expect_picture("grey.png", {3, 4, 1}, {0, 50, 100, 150, 200, 250, 30, 60, 90, 120, 7, 255});
  expect_picture("grey1.png", {2, 8, 1}, {255, 0, 255, 0, 0, 255, 0, 255, 0, 0, 0, 0, 255, 255, 255, 255});
  expect_picture("grey16.png", {1, 4, 1}, {255, 0, 128, 1});
  expect_picture("rgb.png", {2, 2, 3}, {255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30});
  expect_picture("rgba.png", {1, 2, 3}, {255, 0, 0, 10, 20, 30});
  expect_picture("palette.png", {2, 2, 3}, {1, 2, 3, 200, 100, 50, 200, 100, 50, 1, 2, 3});
  expect_picture("interlaced.png", {1, 1, 1}, {77});
}

// cjpeg's input was a ramp: red grows to the right, green downwards, and blue is 128.
TEST(Image, ReadsJpeg) {
  for (const char* name : {"image/rgb.jpg", "image/progressive.jpg"}) {
    const HostArray picture = read_image(corpus_path(name));
    ASSERT_EQ(picture.shape, (Shape{16, 16, 3})) << name;
    const auto pixels = picture.as<uint8_t>();
    for (int y = 0; y < 16; ++y)
      for (int x = 0; x < 16; ++x) {
        const auto at = static_cast<size_t>(3 * (16 * y + x));
        EXPECT_NEAR(pixels[at], 16 * x, 12) << name << " " << x << " " << y;
        EXPECT_NEAR(pixels[at + 1], 16 * y, 12) << name << " " << x << " " << y;
        EXPECT_NEAR(pixels[at + 2], 128, 20) << name << " " << x << " " << y;
      }
  }
  const HostArray grey = read_image(corpus_path("image/grey.jpg"));
  ASSERT_EQ(grey.shape, (Shape{16, 16, 1}));
  EXPECT_NEAR(grey.as<uint8_t>()[255], 0.299 * 240 + 0.587 * 240 + 0.114 * 128, 5);
}

// cmyk.jpg is Pillow's, ycck.jpg libjpeg's; the PNGs are what Pillow 13 made of them: convert("RGB").
TEST(Image, ReadsTheColoursOfPrint) {
  for (const char* name : {"cmyk", "ycck"}) {
    const std::string jpeg = std::string("image/") + name + ".jpg";
    expect_picture(std::string(name) + ".jpg", {16, 16, 3},
                   to_doubles(read_image(corpus_path(std::string("image/") + name + "_rgb.png"))));
    EXPECT_EQ(read_image_extents(corpus_path(jpeg)), (ImageExtents{16, 16, 3}));
    EXPECT_EQ(read_image(corpus_path(jpeg), 8).shape, (Shape{8, 8, 3}));
  }
  // Pillow takes the inks as inverted even if no Adobe program wrote the file.
  auto jpeg = corpus_file("image/cmyk.jpg");
  const HostArray marked = parse_image(jpeg, "f.jpg");
  const auto adobe = std::ranges::adjacent_find(
      jpeg, [](std::byte a, std::byte b) { return a == std::byte{0xff} && b == std::byte{0xee}; });
  ASSERT_NE(adobe, jpeg.end());
  jpeg.erase(adobe, adobe + 2 + std::to_integer<int>(adobe[3]));
  EXPECT_EQ(to_doubles(parse_image(jpeg, "f.jpg")), to_doubles(marked));
}

// Pillow and torchvision's ImageFolder do not turn images either.
TEST(Image, IsNotTurned) {
  const HostArray plain = read_image(corpus_path("image/rgb.jpg"));
  auto turned = corpus_file("image/rgb.jpg");
  const std::string exif(
      "\xff\xe1\0\x22"
      "Exif\0\0"
      "II*\0\x08\0\0\0"
      "\1\0\x12\1\3\0\1\0\0\0\6\0\0\0"
      "\0\0\0\0",
      36);
  const Bytes segment = bytes_of(exif);
  turned.insert(turned.begin() + 2, segment.begin(), segment.end());
  EXPECT_EQ(to_doubles(parse_image(turned, "f.jpg")), to_doubles(plain));
}

TEST(Image, EveryTruncationIsAnError) {
  for (const char* name : {"image/grey.png", "image/palette.png", "image/interlaced.png", "image/rgb.jpg",
                           "image/grey.jpg", "image/progressive.jpg", "image/cmyk.jpg", "image/ycck.jpg"}) {
    const auto data = corpus_file(name);
    for (size_t length = 0; length < data.size(); ++length)
      expect_error(ErrorCode::format, {"cut.img"},
                   [&] { parse_image(Bytes(data).first(length), "cut.img"); });
  }
}

TEST(Image, ErrorsSayWhatAndWhere) {
  expect_error(ErrorCode::format, {"neither a PNG, a JPEG nor a WebP", "a.gif, byte 0"},
               [] { parse_image(bytes_of("GIF89a"), "a.gif"); });
  const auto png = corpus_file("image/grey.png");
  expect_error(ErrorCode::format, {"corrupt PNG", "CRC", "f, byte"},
               [&] { parse_image(with_byte(png, 19, 5), "f"); });
  const auto jpeg = corpus_file("image/rgb.jpg");
  const auto ends_early = with_byte(with_byte(jpeg, jpeg.size() - 40, 0xff), jpeg.size() - 39, 0xd9);
  expect_error(ErrorCode::format, {"corrupt JPEG: Corrupt JPEG data", "f, byte"},
               [&] { parse_image(ends_early, "f"); });
}

TEST(Image, HugeExtentsTakeNoMemory) {
  auto jpeg = corpus_file("image/rgb.jpg");
  for (size_t i = 0; i + 8 < jpeg.size(); ++i)
    if (jpeg[i] == std::byte{0xff} && jpeg[i + 1] == std::byte{0xc0})  // the frame header: height and width
      jpeg[i + 5] = jpeg[i + 7] = std::byte{0xff};
  expect_error(ErrorCode::format, {"65296 x 65296", "more than 701 bytes can hold"},
               [&] { parse_image(jpeg, "f"); });
}

/// A grey JPEG. Each block is two bits: the codes "no difference" and "end of block", both 0.
std::vector<std::byte> grey_jpeg(int width, int height, int start_of_frame = 0xC0) {
  std::string file = "\xFF\xD8";
  const auto segment = [&](int marker, const std::string& data) {
    const size_t length = data.size() + 2;
    file +=
        {'\xFF', static_cast<char>(marker), static_cast<char>(length >> 8), static_cast<char>(length & 255)};
    file += data;
  };
  const auto number = [](int value) {
    return std::string{static_cast<char>(value >> 8), static_cast<char>(value)};
  };
  segment(0xDB, std::string(1, '\0') + std::string(64, '\1'));
  segment(start_of_frame, '\x08' + number(height) + number(width) + std::string("\x01\x01\x11\x00", 4));
  const std::string one_code = '\1' + std::string(15, '\0') + '\0';  // one code, of one bit, for 0
  segment(0xC4, '\x00' + one_code);
  segment(0xC4, '\x10' + one_code);
  segment(0xDA, std::string("\x01\x01\x00\x00\x3F\x00", 6));
  file +=
      std::string(static_cast<size_t>((width + 7) / 8) * static_cast<size_t>((height + 7) / 8) / 4 + 1, '\0');
  file += "\xFF\xD9";
  const Bytes bytes = bytes_of(file);
  return {bytes.begin(), bytes.end()};
}

TEST(Image, LargeJpegsAreReadSmaller) {
  const HostArray whole = parse_image(grey_jpeg(40, 24), "f.jpg");
  EXPECT_EQ(whole.shape, (Shape{24, 40, 1}));
  EXPECT_EQ(whole.as<uint8_t>()[500], 128);
  const HostArray half = parse_image(grey_jpeg(12000, 12000), "f.jpg");  // 144 million pixels
  EXPECT_EQ(half.shape, (Shape{6000, 6000, 1}));
  EXPECT_EQ(half.as<uint8_t>()[12'345'678], 128);
}

TEST(Image, LargerThanMemoryShouldHoldIsAnError) {
  constexpr int progressive = 0xC2;  // its scans are combined at full size
  expect_error(ErrorCode::value, {"12000 x 12000 pixels", "more than 134 million", "f.jpg", "smaller"},
               [&] { parse_image(grey_jpeg(12000, 12000, progressive), "f.jpg"); });
}

}  // namespace
}  // namespace athanor
