// Requirements between packages: versions, specifiers and markers against the answers of the library
// `packaging`, and environments with contradictions.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/doctor/contradictions.h"
#include "athanor/doctor/facts.h"
#include "tests/doctor/fixture.h"

namespace athanor::doctor {
namespace {

using ::athanor::testing::UnpackedMachine;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::vector<std::string>> table(const char* name) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : split(read_text_file(std::filesystem::path(ATHANOR_SOURCE_DIR) / "tests" /
                                                      "doctor" / "packaging" / name),
                                       '\n'))
    if (!line.empty() && line[0] != '#') rows.push_back(split(line, '\t'));
  return rows;
}

const char* word(std::strong_ordering order) {
  return std::is_lt(order) ? "<" : std::is_gt(order) ? ">" : "=";
}
const char* word(Truth truth) { return truth == Truth::yes ? "yes" : truth == Truth::no ? "no" : "unknown"; }

TEST(PackageVersions, CompareAsPackagingDoes) {
  const auto rows = table("versions.tsv");
  EXPECT_GT(rows.size(), 500U);
  for (const auto& row : rows) {
    const auto a = PackageVersion::parse(row.at(0)), b = PackageVersion::parse(row.at(1));
    if (row.at(2) == "invalid") {
      EXPECT_FALSE(a && b) << row[0] << " " << row[1];
      continue;
    }
    ASSERT_TRUE(a && b) << row[0] << " " << row[1];
    EXPECT_STREQ(word(*a <=> *b), row[2].c_str()) << row[0] << " " << row[1];
  }
}

TEST(PackageSpecifiers, AllowWhatPackagingAllows) {
  const auto rows = table("specifiers.tsv");
  EXPECT_GT(rows.size(), 1000U);
  for (const auto& row : rows)
    EXPECT_STREQ(word(satisfies(row.at(0), row.at(1))), row.at(2).c_str()) << row[0] << " " << row[1];
}

TEST(PackageMarkers, HoldWherePackagingSaysSo) {
  const MarkerValues values = {{"os_name", "posix"},
                               {"sys_platform", "linux"},
                               {"platform_system", "Linux"},
                               {"platform_machine", "x86_64"},
                               {"python_version", "3.12"},
                               {"python_full_version", "3.12.3"},
                               {"extra", "cuda"},
                               {"implementation_name", "cpython"},
                               {"platform_python_implementation", "CPython"}};
  const auto rows = table("markers.tsv");
  EXPECT_GT(rows.size(), 30U);
  for (const auto& row : rows) EXPECT_STREQ(word(holds(row.at(0), values)), row.at(1).c_str()) << row[0];
}

TEST(PackageMarkers, AreUnknownWhereAValueIs) {
  const MarkerValues values = {{"python_version", "3.12"}};
  EXPECT_EQ(holds("platform_machine == 'x86_64'", values), Truth::unknown);
  EXPECT_EQ(holds("platform_machine == 'x86_64' and python_version < '3.9'", values), Truth::no);
  EXPECT_EQ(holds("platform_machine == 'x86_64' or python_version >= '3.9'", values), Truth::yes);
  for (const char* malformed :
       {"python_version", "python_version >", "'a' == 'b'", "(python_version > '3'", "x == y",
        "python_version > '3' and", "platform_version > '5'", "python_version > 'three'"})
    EXPECT_EQ(holds(malformed, values), Truth::unknown) << malformed;
  EXPECT_EQ(holds(std::string(100000, '(') + "python_version > '3'", values), Truth::unknown);
}

TEST(Requirements, AreRead) {
  const auto one = Requirement::parse("Foo.Bar [Baz, quux_2] (>=1.0,<2) ; python_version < '3.12'");
  ASSERT_TRUE(one);
  EXPECT_EQ(one->name, "foo-bar");
  EXPECT_THAT(one->extras, ElementsAre("baz", "quux-2"));
  EXPECT_EQ(one->specifiers, ">=1.0,<2");
  EXPECT_EQ(one->marker, "python_version < '3.12'");
  const auto url = Requirement::parse("pip @ https://e.org/a;b.whl ; extra == 'x'");
  ASSERT_TRUE(url);
  EXPECT_TRUE(url->url);
  EXPECT_EQ(url->marker, "extra == 'x'");
  EXPECT_TRUE(Requirement::parse("a"));
  for (const char* malformed : {"", ">=1", "a b", "a[", "-a", "a-"})
    EXPECT_FALSE(Requirement::parse(malformed)) << malformed;
}

// A venv with these packages: "NAME VERSION", and what each requires.
Contradictions of(const std::map<std::string, std::vector<std::string>>& packages,
                  const std::string& python = "3.12") {
  std::map<std::string, std::string> files = {
      {"/v/pyvenv.cfg", "home = /usr/bin\nversion = " + python + ".1\n"},
      {"/v/bin/python3", ""},
      {"/proc/self/environ", "PATH=/v/bin\n"}};
  for (const auto& [package, requires_list] : packages) {
    const auto words = split(package, ' ');
    std::string text = "Metadata-Version: 2.1\nName: " + words[0] + "\nVersion: " + words[1] + "\n";
    for (const std::string& one : requires_list) text += "Requires-Dist: " + one + "\n";
    std::string folder = words[0];
    std::replace(folder.begin(), folder.end(), '-', '_');
    files[fmt::format("/v/lib/python{}/site-packages/{}-{}.dist-info/METADATA", python, folder, words[1])] =
        text + "\nRequires-Dist: not-this\n";
  }
  const UnpackedMachine machine(files);
  const Facts facts(*machine);
  Contradictions all = contradictions(*machine, facts.pythons().at(0));
  for (Contradiction& one : all.found) one.by = nullptr, one.there = nullptr;  // the facts end here
  return all;
}

std::vector<std::string> told(const Contradictions& all) {
  std::vector<std::string> texts;
  for (const Contradiction& one : all.found) texts.push_back(one.requirement);
  return texts;
}

TEST(Contradictions, AreSeen) {
  EXPECT_THAT(told(of({{"a 1", {"b>=2", "c"}}, {"b 2.1", {}}, {"c 0", {}}})), IsEmpty());
  EXPECT_THAT(told(of({{"a 1", {"b>=2"}}, {"b 1.9", {}}})), ElementsAre("b>=2"));
  EXPECT_THAT(told(of({{"a 1", {"b"}}})), ElementsAre("b"));
  EXPECT_THAT(told(of({{"a 1", {"B_x.Y>=1"}}, {"b-x-y 1", {}}})), IsEmpty());
  // A local version counts as the same release, and an installed pre-release counts too.
  EXPECT_THAT(told(of({{"torchvision 0.24.0+cu128", {"torch==2.9.0"}}, {"torch 2.9.0+cu128", {}}})),
              IsEmpty());
  EXPECT_THAT(told(of({{"a 1", {"b>=2"}}, {"b 3.0rc1", {}}})), IsEmpty());
}

TEST(Contradictions, HangOnMarkersAndExtras) {
  EXPECT_THAT(told(of({{"a 1", {"b; python_version < '3.12'", "c; sys_platform == 'win32'"}}})), IsEmpty());
  EXPECT_THAT(told(of({{"a 1", {"b; python_version < '3.12'"}}}, "3.11")), ElementsAre("b"));
  // An extra counts if another package asks for it, and then the extras that it asks for count too.
  const std::vector<std::string> jax = {"jaxlib", "plugin==1; extra == 'cuda12'", "other; extra == 'tpu'"};
  EXPECT_THAT(told(of({{"jax 1", jax}, {"jaxlib 1", {}}})), IsEmpty());
  EXPECT_THAT(told(of({{"jax 1", jax}, {"jaxlib 1", {}}, {"app 1", {"jax[cuda12]"}}})),
              ElementsAre("plugin==1"));
  EXPECT_THAT(told(of({{"a 1", {"b[x]"}}, {"b 1", {"c[y]; extra == 'x'"}}, {"c 1", {"d; extra == 'y'"}}})),
              ElementsAre("d"));
  EXPECT_THAT(told(of({{"a 1", {"a[x]", "b; extra == 'x'"}}})), ElementsAre("b"));  // its own extra: a cycle
}

TEST(Contradictions, AreNotKnownWhereNobodyCanTell) {
  const Contradictions odd =
      of({{"a 1", {"b>=one", "c @ https://e.org/c.whl", "d; platform_version > '5'", "e ~=? 1"}},
          {"b 1", {}},
          {"c 1", {}},
          {"e 1", {}}});
  EXPECT_THAT(told(odd), IsEmpty());
  EXPECT_EQ(odd.unknown.size(), 3U);
  EXPECT_THAT(told(of({{"a 1", {"b>=2"}}, {"b unknown", {}}})), IsEmpty());
}

TEST(Contradictions, SayWhatNoVersionSuits) {
  const Contradictions both_ways =
      of({{"tensorflow 2.15.0", {"numpy<2"}}, {"opencv 5.0", {"numpy>=2"}}, {"numpy 2.1.0", {}}});
  ASSERT_EQ(both_ways.found.size(), 1U);
  EXPECT_TRUE(both_ways.found[0].severe);
  EXPECT_THAT(both_ways.found[0].others, ElementsAre("opencv (numpy>=2)"));
  const Contradictions one_way =
      of({{"a 1.0", {"numpy<2"}}, {"opencv 5.0", {"numpy>=1.21"}}, {"numpy 2.1.0", {}}});
  ASSERT_EQ(one_way.found.size(), 1U);
  EXPECT_FALSE(one_way.found[0].severe);
  EXPECT_THAT(one_way.found[0].others, IsEmpty());
}

}  // namespace
}  // namespace athanor::doctor
