#include "athanor/base/toml.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::expect_error;

TEST(Toml, TextOfAnyLanguageStandsInStringsAndComments) {
  const auto found = parse_toml(
      "\xEF\xBB\xBF# \u3001\na = \"\u3001\\\"\u3001\" # \u3001\n'\u3001' = '\u3001\\'\n"
      "b = \"\"\"\n\u3001\"\u3001\"\"\"\"\" # two quotes belong to it\nc = '''\u3001'''\n",
      "x.toml");
  EXPECT_EQ(found.at("a"), "\u3001\"\u3001");
  EXPECT_EQ(found.at("\u3001"), "\u3001\\");
  EXPECT_EQ(found.at("b"), "\u3001\"\u3001\"\"");
  EXPECT_EQ(found.at("c"), "\u3001");
}

TEST(Toml, RefusesItElsewhere) {
  for (const char* text :
       {"\u3001", "a = 1\n\u3001 = 2", "a\u3001 = 1", "a = \u3001", "a = \"\"\"x\"\"\"\"\"\"\u3001",
        "a = 'b\n\u3001", "a = \"\"\u3001", "[\u3001]", "a = 1 \u3001"})
    expect_error(ErrorCode::format, {"x.toml"}, [&] { parse_toml(text, "x.toml"); });
  expect_error(ErrorCode::format, {"x.toml:2", "not ASCII", "quotes"},
               [] { parse_toml("a = 1\n\u3001 = 2", "x.toml"); });
}

}  // namespace
}  // namespace athanor
