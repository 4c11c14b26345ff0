#include "athanor/formats/npz.h"

#include <gtest/gtest.h>

#include "athanor/formats/zip.h"
#include "tests/formats/corpus.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::corpus_file;
using testing::corpus_path;
using testing::expect_error;
using testing::with_byte;

TEST(Npz, ReadsWhatNumpyWrote) {
  for (const char* name : {"npz/stored", "npz/deflated"}) {
    const auto arrays = read_npz(corpus_path(name));
    ASSERT_EQ(arrays.size(), 2U) << name;
    const HostArray& images = arrays.at("images");
    EXPECT_EQ(images.dtype, DType::u8);
    EXPECT_EQ(images.shape, (Shape{2, 3, 4}));
    EXPECT_EQ(images.as<uint8_t>()[23], 23);
    EXPECT_EQ(to_doubles(arrays.at("labels")), (std::vector<double>{1, 0}));
  }
  EXPECT_TRUE(read_npz(corpus_path("npz/empty")).empty());
  EXPECT_EQ(to_doubles(read_npz(corpus_path("npz/zip64")).at("one")), (std::vector<double>{1, 1, 1}));
}

TEST(Npz, EveryTruncationIsAnError) {
  for (const char* name : {"npz/stored", "npz/deflated", "npz/zip64"}) {
    const auto data = corpus_file(name);
    for (size_t length = 0; length < data.size(); ++length)
      expect_error(ErrorCode::format, {"cut.npz"}, [&] { parse_npz(Bytes(data).first(length), "cut.npz"); });
  }
}

TEST(Npz, DamageIsFoundByTheChecksum) {
  const auto data = corpus_file("npz/stored");
  const auto members = zip_members(data, "f");
  const size_t last = members[0].offset + 30 + members[0].packed_size;  // inside the first member's content
  expect_error(ErrorCode::format, {"checksum of 'images.npy' is wrong", "f, byte 0"},
               [&] { parse_npz(with_byte(data, last, 200), "f"); });
}

TEST(Npz, ASmallArchiveOfAHugeArrayIsRefused) {
  auto data = corpus_file("npz/deflated");
  // Makes the unpacked size in the directory's first entry a gigabyte.
  size_t at = 0;
  while (data[at] != std::byte{'P'} || data[at + 1] != std::byte{'K'} || data[at + 2] != std::byte{1}) ++at;
  data = with_byte(data, at + 27, 0x40);
  expect_error(ErrorCode::format, {"declares 1073741", "in "}, [&] { parse_npz(data, "f"); });
}

}  // namespace
}  // namespace athanor
