#include "athanor/formats/idx.h"

#include <gtest/gtest.h>

#include "tests/formats/corpus.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::corpus_file;
using testing::corpus_path;
using testing::expect_error;
using testing::ramp;
using testing::with_byte;

void expect_idx(const std::string& name, DType dtype, const std::vector<double>& values) {
  const HostArray array = read_idx(corpus_path("idx/" + name));
  EXPECT_EQ(to_string(array.dtype), to_string(dtype)) << name;
  EXPECT_EQ(array.shape, (Shape{2, 2, 3})) << name;
  const std::vector<double> got = to_doubles(array);
  ASSERT_EQ(got.size(), values.size()) << name;
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], values[i], 1e-15) << name;
}

TEST(Idx, ReadsEveryElementType) {
  expect_idx("u8", DType::u8, ramp(1, 3));
  expect_idx("i8", DType::i8, ramp());
  expect_idx("i16", DType::i32, ramp(1000));
  expect_idx("i32", DType::i32, ramp(100000));
  expect_idx("f32", DType::f32, ramp(0.25));
  expect_idx("f64", DType::f64, ramp(1.0 / 3));
}

TEST(Idx, ReadsGzip) {
  expect_idx("u8.gz", DType::u8, ramp(1, 3));
  const HostArray zeros = read_idx(corpus_path("idx/zeros.gz"));
  EXPECT_EQ(zeros.shape, (Shape{64, 64}));
}

TEST(Idx, ReadsGzipInSeveralStreams) {
  auto data = corpus_file("idx/u8.gz");
  // An empty gzip stream is put in front.
  const unsigned char nothing[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  const Bytes front = std::as_bytes(std::span(nothing));
  data.insert(data.begin(), front.begin(), front.end());
  EXPECT_EQ(to_doubles(parse_idx(data, "two")), ramp(1, 3));
}

TEST(Idx, EveryTruncationIsAnError) {
  for (const char* name : {"idx/u8", "idx/i16", "idx/f64", "idx/u8.gz", "idx/zeros.gz"}) {
    const auto data = corpus_file(name);
    for (size_t length = 0; length < data.size(); ++length)
      expect_error(ErrorCode::format, {"cut.idx"}, [&] { parse_idx(Bytes(data).first(length), "cut.idx"); });
  }
}

TEST(Idx, ErrorsSayWhere) {
  const auto data = corpus_file("idx/u8");
  const auto parse = [](const std::vector<std::byte>& bytes) { return [&bytes] { parse_idx(bytes, "f"); }; };
  expect_error(ErrorCode::format, {"two zero bytes", "f, byte 0"}, parse(with_byte(data, 0, 'G')));
  expect_error(ErrorCode::format, {"element type 0x0a", "byte 2"}, parse(with_byte(data, 2, 0x0a)));
  expect_error(ErrorCode::format, {"rank 9", "highest rank is 8"}, [&] {
    parse_idx(
        [&] {
          auto longer = with_byte(data, 3, 9);
          longer.resize(100);
          return longer;
        }(),
        "f");
  });
  auto longer = data;
  longer.push_back(std::byte{0});
  expect_error(ErrorCode::format, {"more data than the shape [2, 2, 3]", "byte 28"}, parse(longer));
  const auto checksum = corpus_file("idx/u8.gz");
  expect_error(ErrorCode::format, {"corrupt", "incorrect data check", "compressed byte"},
               parse(with_byte(checksum, checksum.size() - 8, 0)));
}

TEST(Idx, HugeExtentsTakeNoMemory) {
  auto data = corpus_file("idx/u8");
  for (size_t i = 4; i < 16; ++i) data[i] = std::byte{0x0f};  // about 2^84 elements: no Shape can hold that
  expect_error(ErrorCode::format, {"too many elements"}, [&] { parse_idx(data, "f"); });
  data[4] = data[8] = data[5] = data[9] = std::byte{0};  // 2^56 elements
  expect_error(ErrorCode::format, {"more than the file can hold", "byte 4"}, [&] { parse_idx(data, "f"); });
}

TEST(Idx, RealFashionMnist) {
  const std::filesystem::path folder = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const HostArray images = read_idx(folder / "t10k-images-idx3-ubyte.gz");
  const HostArray labels = read_idx(folder / "t10k-labels-idx1-ubyte.gz");
  EXPECT_EQ(images.shape, (Shape{10000, 28, 28}));
  EXPECT_EQ(labels.shape, (Shape{10000}));
  std::vector<int> counts(10);
  for (const uint8_t label : labels.as<uint8_t>()) ++counts.at(label);
  EXPECT_EQ(counts, std::vector<int>(10, 1000));
}

}  // namespace
}  // namespace athanor
