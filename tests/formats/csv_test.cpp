#include "athanor/formats/csv.h"

#include <gtest/gtest.h>

#include "tests/formats/corpus.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::expect_error;
using Words = std::vector<std::string>;

TEST(Csv, ReadsTables) {
  const CsvTable plain = read_csv(testing::corpus_path("csv/plain"));
  EXPECT_EQ(plain.columns, (Words{"a", "b", "label"}));
  EXPECT_EQ(plain.rows, (std::vector<Words>{{"1", "x", "yes"}, {"2.5", "", "no"}}));
  const CsvTable quoted = read_csv(testing::corpus_path("csv/quoted"));
  EXPECT_EQ(quoted.columns, (Words{"a", "b \"c\"", "label"}));
  EXPECT_EQ(quoted.rows, (std::vector<Words>{{"1;2", "two\nlines", "x"}, {"3", "4", "5"}}));
  const CsvTable tabs = read_csv(testing::corpus_path("csv/tabs"));
  EXPECT_EQ(tabs.columns, (Words{"name", "label"}));
  EXPECT_EQ(tabs.rows.at(0).at(0), "na\xc3\xafve");
}

TEST(Csv, NamesOfColumnsMayBeNumbersThatCount) {
  EXPECT_EQ(parse_csv("2019,2020,label\n1,2,x\n", "f.csv").columns, (Words{"2019", "2020", "label"}));
  EXPECT_EQ(parse_csv("400.5,401,401.5,402\n1,2,3,4\n", "f.csv").rows.size(), 1U);
  EXPECT_EQ(parse_csv("a,1,b\n1,2,x\n", "f.csv").columns[1], "1");
}

TEST(Csv, ErrorsNameTheLine) {
  const auto refused = [](const std::string& text, const Words& words) {
    expect_error(ErrorCode::format, words, [&] { parse_csv(text, "f.csv"); });
  };
  refused("a,b\n1,2\n\n1,2,3\n", {"3 fields, where the first line has 2", "f.csv, line 4"});
  refused("a,b\n1,\"2\n", {"a quote is not closed", "line 2"});
  refused("a,b\n1,\"2\"3\n", {"something follows a quoted field", "line 2"});
  refused("a,b\n1,2\"3\n", {"a quote stands inside a field", "line 2"});
  refused("a,a\n1,2\n", {"two columns are called 'a'", "line 1"});
  refused("a,\n1,2\n", {"a column has no name"});
  refused("5.1,3.5,1.4,0.2,setosa\n4.9,3.0,1.4,0.2,setosa\n",
          {"the first line has numbers", "line 1", "names"});
  refused("0,0,1\n0,1,1\n", {"the first line has numbers"});
  refused("a,b\n", {"no rows"});
  refused("", {"no rows"});
  refused("a,b\n\"x\ny\",1\n\"x\ny\"\n", {"1 fields", "line 4"});
}

}  // namespace
}  // namespace athanor
