#include "athanor/formats/tar.h"

#include <gtest/gtest.h>

#include "tests/formats/corpus.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using testing::corpus_file;
using testing::corpus_path;
using testing::expect_error;
using testing::with_byte;

/// Python's tarfile wrote the archives in its three formats.
TEST(Tar, ListsAndReadsMembers) {
  for (const char* name : {"tar/ustar", "tar/gnu", "tar/pax"}) {
    const auto members = read_tar_members(corpus_path(name));
    ASSERT_EQ(members.size(), 3U) << name;
    EXPECT_EQ(members[0].name, "a/1.cls");
    EXPECT_EQ(members[1].name, "a/1.jpg");
    EXPECT_EQ(members[1].size, 600U);
    EXPECT_EQ(members[2].name.size(), 155U) << name;
    EXPECT_TRUE(members[2].name.ends_with("long/2.cls")) << name;
    EXPECT_EQ(read_tar_member(corpus_path(name), members[0]), std::vector<std::byte>{std::byte{'7'}});
    const auto dog = read_tar_member(corpus_path(name), members[2]);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(dog.data()), dog.size()), "dog");
  }
}

TEST(Tar, DamageIsFound) {
  const testing::TempFolder folder;
  const auto read = [&](const std::vector<std::byte>& data) {
    write_file_atomically(folder / "a.tar", {Bytes(data)});
    return read_tar_members(folder / "a.tar");
  };
  const auto data = corpus_file("tar/ustar");
  expect_error(ErrorCode::format, {"not a tar header, or it is damaged", "a.tar, byte 0"},
               [&] { read(with_byte(data, 3, 'z')); });
  expect_error(ErrorCode::format, {"a.tar, byte 1024"}, [&] { read(with_byte(data, 1024 + 130, '9')); });
  expect_error(ErrorCode::format, {"member of 600 bytes is declared, and 88 are left"}, [&] {
    read({data.begin(), data.begin() + 1536 + 88});
  });
  expect_error(ErrorCode::format, {"ends too early"}, [&] {
    read({data.begin(), data.begin() + 700 + 512});
  });
  expect_error(ErrorCode::format, {"compressed", "gunzip"}, [&] {
    auto packed = data;
    packed[0] = std::byte{0x1f}, packed[1] = std::byte{0x8b};
    read(packed);
  });
  expect_error(ErrorCode::io, {"no.tar"}, [&] { read_tar_members(folder / "no.tar"); });
}

}  // namespace
}  // namespace athanor
