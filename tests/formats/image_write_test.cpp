// Pictures that libraries write, read back: our own PNG, WebP; headers only; JPEGs read at a smaller size.
#include <gtest/gtest.h>

#include "athanor/formats/image.h"
#include "tests/support/expect_error.h"
#include "tests/support/pictures.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using testing::expect_error;
using testing::gradient;
using testing::jpeg_of;
using testing::webp_of;

TEST(ImageWrite, PngComesBackAsItWas) {
  for (const int64_t channels : {1, 3}) {
    const HostArray picture = gradient(7, 12, channels);
    const HostArray back = parse_image(format_png(picture), "f");
    EXPECT_EQ(back.shape, picture.shape);
    EXPECT_EQ(back.bytes, picture.bytes);
  }
}

TEST(ImageWebp, ComesBackAsItWas) {
  const HostArray picture = gradient(31, 40);
  const HostArray back = parse_image(webp_of(picture), "f");
  EXPECT_EQ(back.shape, (Shape{31, 40, 3}));
  EXPECT_EQ(back.bytes, picture.bytes);
}

TEST(ImageWebp, EveryTruncationIsAnError) {
  const auto file = webp_of(gradient(16, 16));
  for (size_t length = 0; length < file.size(); ++length)
    expect_error(ErrorCode::format, {"cut.webp"},
                 [&] { parse_image(Bytes(file).first(length), "cut.webp"); });
}

TEST(ImageWebp, MadeToFillTheMemoryIsRefused) {
  const auto bomb = webp_of(HostArray(DType::u8, {8192, 8192, 3}));
  ASSERT_LT(bomb.size(), 8192U);
  expect_error(ErrorCode::format, {"8192 x 8192", "bomb.webp"}, [&] { parse_image(bomb, "bomb.webp"); });
}

TEST(ImageExtents, OfEveryKindAndOfBeginnings) {
  const HostArray picture = gradient(21, 34);
  const ImageExtents expected{21, 34, 3};
  EXPECT_EQ(parse_image_extents(format_png(picture), "f"), expected);
  EXPECT_EQ(parse_image_extents(jpeg_of(picture), "f"), expected);
  EXPECT_EQ(parse_image_extents(webp_of(picture), "f"), expected);
  EXPECT_EQ(parse_image_extents(jpeg_of(gradient(21, 34, 1)), "f"), (ImageExtents{21, 34, 1}));
  // A JPEG whose header comes after 20 kB of other data, like those of cameras.
  auto file = jpeg_of(gradient(400, 600));
  std::vector<std::byte> comment(20002, std::byte{0});
  comment[0] = std::byte{20000 >> 8}, comment[1] = std::byte{20000 & 255};
  comment.resize(20000);
  comment.insert(comment.begin(), {std::byte{0xff}, std::byte{0xfe}});
  file.insert(file.begin() + 2, comment.begin(), comment.end());
  const testing::TempFolder folder;
  testing::put_file(folder / "a.jpg", file);
  EXPECT_EQ(read_image_extents(folder / "a.jpg"), (ImageExtents{400, 600, 3}));
  EXPECT_EQ(read_image(folder / "a.jpg").shape, (Shape{400, 600, 3}));
}

TEST(ImageJpeg, IsReadSmallerWhereThatIsEnough) {
  const auto file = jpeg_of(gradient(160, 256));
  const auto read = [&](int64_t least) { return parse_image(file, "f", least).shape; };
  EXPECT_EQ(read(0), (Shape{160, 256, 3}));
  EXPECT_EQ(read(81), (Shape{160, 256, 3}));
  EXPECT_EQ(read(80), (Shape{80, 128, 3}));
  EXPECT_EQ(read(30), (Shape{40, 64, 3}));
  EXPECT_EQ(read(1), (Shape{20, 32, 3}));
}

}  // namespace
}  // namespace athanor
