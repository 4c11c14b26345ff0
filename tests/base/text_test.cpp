#include "athanor/base/text.h"

#include <gtest/gtest.h>

namespace athanor {
namespace {

TEST(Paths, AreJoinedByOneSlash) {
  EXPECT_EQ(path_in("/home/ada", ".config/athanor"), "/home/ada/.config/athanor");
  EXPECT_EQ(path_in("/home/ada/", "*"), "/home/ada/*");
  EXPECT_EQ(path_in("/", ".cache"), "/.cache");
}

TEST(Bytes, AreReadInTheUnitsThatPeopleWrite) {
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("4096B"), 4096);
  EXPECT_EQ(parse_bytes("2GiB"), int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("2 gib"), int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("1.5G"), int64_t{3} << 29);
  EXPECT_EQ(parse_bytes("800M"), int64_t{800} << 20);
  EXPECT_EQ(parse_bytes("800MB"), 800'000'000);
  EXPECT_EQ(parse_bytes("0"), 0);
  for (const char* wrong : {"", "GiB", "-1", "2XiB", "2GiBs", "two", "nan", "inf", "1e30", "0x10"})
    EXPECT_EQ(parse_bytes(wrong), std::nullopt) << wrong;
}

TEST(Bytes, AreReadAsTheyAreShown) {
  for (const uint64_t bytes : {uint64_t{640}, uint64_t{12} << 20, uint64_t{3} << 29})
    EXPECT_EQ(parse_bytes(format_bytes(bytes)), static_cast<int64_t>(bytes));
}

}  // namespace
}  // namespace athanor
