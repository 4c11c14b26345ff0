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

TEST(Toml, StringsOfEveryKindKeepTheirCharacters) {
  const auto found = parse_toml(
      "a = \"\\\\\u00A1\\u00e9\\t\"\nb = '\U0001F600\"\\t\\'\nc = '''\n\u00A1\"\"\"\\\n''''\n"
      "d = [\"\\n\u00A1\", '', \"\"] # \u00A1 \"\n'\u00A1 = \"x\"' = 1\n",
      "x.toml");
  EXPECT_EQ(found.at("a"), "\\\u00A1\u00e9\t");
  EXPECT_EQ(found.at("b"), "\U0001F600\"\\t\\");
  EXPECT_EQ(found.at("c"), "\u00A1\"\"\"\\\n'");
  EXPECT_EQ(found.at("d").at(0), "\n\u00A1");
  EXPECT_EQ(found.at("\u00A1 = \"x\""), 1);
}

// toml++ 3.3 reaches code marked unreachable for U+00A1 after an error; the sanitized build shows it.
TEST(Toml, RefusesBrokenStringsOfAnyLanguage) {
  for (const char* text :
       {"a = +NV:\".\":/\u048A", "a = 1x \"\u00A1", "a = \"\\\u00A1\"", "a = '\u00A1\nb = 1",
        "a = \"\u00A1\\", "a = '''\u00A1''", "a = \"\u00A1\"\"\"", "# \x80", "a = \"\xC3\""})
    expect_error(ErrorCode::format, {"x.toml"}, [&] { parse_toml(text, "x.toml"); });
  expect_error(ErrorCode::format, {"x.toml:2", "UTF-8"}, [] { parse_toml("a = 1\nb = '\xC3'", "x.toml"); });
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
