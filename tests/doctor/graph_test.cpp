// The graph of checks (root causes, consequences, order, fixes), with checks made up for these tests.
#include <gmock/gmock.h>

#include "athanor/base/error.h"
#include "athanor/doctor/diagnosis.h"

namespace athanor::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string check_text(const std::string& id, const std::string& layer, const std::string& needs,
                       const std::string& more = "") {
  return "[[check]]\nid = \"" + id + "\"\nlayer = \"" + layer + "\"\nneeds = [" + needs +
         "]\nsource = \"test\"\ndate = 2026-11-21\n" + more +
         "\n[check.en]\ntitle = \"t\"\nwhy = \"w\"\n[check.zh]\ntitle = \"t\"\nwhy = \"w\"\n";
}

std::vector<Check> parse(const std::string& text) { return parse_checks({{"test.toml", text}}); }

std::vector<std::string> names(const std::vector<const Result*>& results) {
  std::vector<std::string> all;
  for (const Result* result : results) all.push_back(result->check->id);
  return all;
}

Look failing(const std::map<std::string, Status>& statuses) {
  return [statuses](const Check& check) {
    const auto found = statuses.find(check.id);
    return Finding{found == statuses.end() ? Status::pass : found->second, {}, {}};
  };
}

// python needs driver, which needs kernel; other depends on nothing.
const std::string chain = check_text("python", "python", "\"driver\"") +
                          check_text("driver", "driver", "\"kernel\"") + check_text("other", "access", "") +
                          check_text("kernel", "kernel", "") +
                          check_text("works", "goal", "\"python\"", "severity = \"goal\"");

TEST(Finding, SaysTheSameOnce) {
  Finding finding = skip();
  finding.seen("version.py", "2.15").seen("version.py", "2.15").seen("other/version.py", "2.15");
  EXPECT_EQ(finding.evidence.size(), 2U);
}

TEST(Graph, OrdersByLayerWhateverTheFileSays) {
  std::vector<std::string> order;
  for (const Check& check : parse(chain)) order.push_back(check.id);
  EXPECT_THAT(order, ElementsAre("kernel", "driver", "other", "python", "works"));
}

TEST(Graph, TellsCausesFromConsequences) {
  const auto checks = parse(chain);
  const auto diagnosis = diagnose(
      checks, failing({{"kernel", Status::fail}, {"driver", Status::fail}, {"python", Status::fail}}));
  EXPECT_THAT(names(diagnosis.with(Verdict::problem)), ElementsAre("kernel"));
  EXPECT_THAT(names(diagnosis.with(Verdict::consequence)), ElementsAre("driver", "python", "works"));
  EXPECT_EQ(diagnosis.find("python")->causes.front()->id, "kernel");
}

TEST(Graph, ReachesThroughChecksThatCannotBeSeen) {
  const auto checks = parse(chain);
  const auto diagnosis = diagnose(
      checks, failing({{"kernel", Status::fail}, {"driver", Status::skip}, {"python", Status::fail}}));
  EXPECT_THAT(names(diagnosis.with(Verdict::problem)), ElementsAre("kernel"));
  EXPECT_THAT(names(diagnosis.with(Verdict::consequence)), ElementsAre("python", "works"));
}

TEST(Graph, KeepsIndependentProblemsApart) {
  const auto checks = parse(chain);
  const auto diagnosis = diagnose(checks, failing({{"other", Status::fail}, {"driver", Status::fail}}));
  EXPECT_THAT(names(diagnosis.with(Verdict::problem)), ElementsAre("driver", "other"));
  EXPECT_THAT(names(diagnosis.consequences_of(*diagnosis.find("driver")->check)), ElementsAre("works"));
  EXPECT_THAT(diagnosis.consequences_of(*diagnosis.find("other")->check), IsEmpty());
}

TEST(Graph, WarningsBlockNothing) {
  const auto checks = parse(chain);
  const auto diagnosis = diagnose(checks, failing({{"driver", Status::warn}}));
  EXPECT_THAT(names(diagnosis.with(Verdict::warning)), ElementsAre("driver"));
  EXPECT_EQ(diagnosis.find("works")->verdict, Verdict::ok);
  EXPECT_TRUE(diagnosis.well());
}

TEST(Graph, RunsWhatIsNeededAndReportsOnlyWhatMatters) {
  const auto checks = parse(chain);
  const auto well = diagnose(checks, failing({{"other", Status::fail}}), {"python"});
  EXPECT_TRUE(well.well());
  EXPECT_EQ(well.results.size(), 1U);
  const auto ill =
      diagnose(checks, failing({{"kernel", Status::fail}, {"python", Status::fail}}), {"python"});
  EXPECT_THAT(names(ill.with(Verdict::problem)), ElementsAre("kernel"));
  EXPECT_EQ(ill.find("python")->verdict, Verdict::consequence);
}

std::string message_of(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::format);
    return error.what();
  }
  return "no error";
}

TEST(CheckData, IsRefusedWhereItIsWrong) {
  EXPECT_THAT(message_of(check_text("a", "kernel", "\"b\"") + check_text("b", "kernel", "\"a\"")),
              HasSubstr("circle"));
  EXPECT_THAT(message_of(check_text("a", "kernel", "\"b\"")), HasSubstr("not a check"));
  EXPECT_THAT(message_of(check_text("a", "kernel", "") + check_text("a", "kernel", "")),
              HasSubstr("two checks"));
  EXPECT_THAT(message_of(check_text("a", "cellar", "")), HasSubstr("layer"));
  EXPECT_THAT(message_of(check_text("a", "kernel", "", "colour = 1")), HasSubstr("unknown field 'colour'"));
  EXPECT_THAT(message_of("[[check]]\nid = \"a\"\nlayer = \"kernel\"\nsource = \"s\"\ndate = "
                         "2026-11-21\n[check.en]\ntitle = \"t\"\nwhy = \"w\"\n"),
              HasSubstr("'zh'"));
  EXPECT_THAT(message_of("check = 3"), HasSubstr("[[check]]"));
  EXPECT_THAT(message_of("[[check]\n"), HasSubstr("test.toml:"));
}

const std::string with_fixes =
    check_text("a", "kernel", "") +
    "[[check.fix]]\nid = \"one\"\nen = \"e\"\nzh = \"z\"\nrun = [\"apt-get install {package}\"]\n"
    "[[check.fix]]\nid = \"two\"\nen = \"e\"\nzh = \"z\"\n"
    "[[check.fix]]\nid = \"elsewhere\"\nen = \"e\"\nzh = \"z\"\nwhen = { distro = \"arch\" }\n";

std::vector<std::string> order_with(int tried_one, int worked_one, int tried_two, int worked_two) {
  const auto checks = parse(with_fixes);
  Result result{checks.data(), fail(), Verdict::problem, {}};
  std::vector<std::string> order;
  for (const Offer& offer : offers(result, [&](const Check&, Offer& one) {
         one.tried = one.fix->id == "one" ? tried_one : tried_two;
         one.worked = one.fix->id == "one" ? worked_one : worked_two;
       }))
    order.push_back(offer.fix->id);
  return order;
}

TEST(Fixes, ThatWorkedStandFirst) {
  EXPECT_THAT(order_with(0, 0, 0, 0), ElementsAre("one", "two"));   // as in the data; none for another system
  EXPECT_THAT(order_with(1, 0, 0, 0), ElementsAre("two", "one"));   // 1/3 < 1/2
  EXPECT_THAT(order_with(0, 0, 1, 1), ElementsAre("two", "one"));   // 1/2 < 2/3
  EXPECT_THAT(order_with(9, 9, 1, 1), ElementsAre("one", "two"));   // 10/11 > 2/3
  EXPECT_THAT(order_with(10, 6, 2, 2), ElementsAre("two", "one"));  // 7/12 < 3/4
}

TEST(Fixes, WithholdCommandsThatAValueMayNotStandIn) {
  const auto checks = parse(with_fixes);
  Result result{checks.data(), fail().with("package", "-rf"), Verdict::problem, {}};
  EXPECT_TRUE(offers(result).front().commands.empty());
  EXPECT_EQ(offers(result).front().withheld, "package");
  result.finding.words["package"] = "hello";
  EXPECT_THAT(offers(result).front().commands, ElementsAre("apt-get install hello"));
  EXPECT_EQ(offers(result).front().withheld, "");
}

TEST(Fixes, HaveNoPlaceholderInCommandsWithoutARule) {
  EXPECT_THAT(message_of(check_text("a", "kernel", "") +
                         "[[check.fix]]\nid = \"one\"\nen = \"e\"\nzh = \"z\"\nrun = [\"rm -r {path}\"]\n"),
              HasSubstr("{path}"));
}

}  // namespace
}  // namespace athanor::doctor
