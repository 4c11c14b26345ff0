#include "athanor/base/wrap.h"

#include <gmock/gmock.h>

namespace athanor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Wrapping, CountsChineseTwice) {
  EXPECT_EQ(wrapped("one two three four five", 20, 2), "one two three four\n  five");
  EXPECT_EQ(wrapped("一二三四五六七八九十一二", 20, 0), "一二三四五六七八九十\n一二");
  EXPECT_THAT(wrapped("一二三四五六七八九十，一二", 20, 0), Not(HasSubstr("\n，")));
  EXPECT_EQ(text_columns("gfx1100 显卡"), 12);
}

TEST(Wrapping, DoesNotCountColours) {
  EXPECT_EQ(wrapped("one \x1b[32mtwo three\x1b[0m four five", 20, 2),
            "one \x1b[32mtwo three\x1b[0m four\n  five");
  EXPECT_EQ(text_columns("\x1b[1mbold\x1b[0m"), 4);
  EXPECT_EQ(text_columns("\x1b["), 0);  // incomplete
}

}  // namespace
}  // namespace athanor
