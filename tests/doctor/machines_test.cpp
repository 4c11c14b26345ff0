// Whole machines: which root causes doctor finds, in which order, and which consequences they have.
//
// The first lines of a machine in tests/machines/doctor say what is expected:
//   # problems: ID...      root causes, in the order to fix them; none if the line is missing
//   # warnings: ID...      the same for warnings
//   # consequences: ID...  what fails because of these, including goals, in any order
//   # unknown: ID...       checks that apply but could not be decided; none if the line is missing
//   # works: ID...         goals that work
//   # fix: ID              the fix that is listed first for the first problem
// `consequences` and `works` are compared only if the line is there.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <optional>
#include <set>

#include "athanor/doctor/diagnosis.h"
#include "athanor/doctor/facts.h"
#include "athanor/doctor/report.h"
#include "athanor/doctor/tested_devices.h"
#include "tests/doctor/fixture.h"

namespace athanor::doctor {
namespace {

using ::athanor::testing::machines_folder;
using ::athanor::testing::UnpackedMachine;
using ::athanor::testing::write_text;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

using Ids = std::vector<std::string>;

struct Expected {
  Ids problems, warnings, unknown;
  std::optional<Ids> consequences, works;
  std::string fix;
};

Expected expected_of(const std::string& name) {
  Expected expected;
  for (const std::string& line : split(read_text_file(machines_folder() / (name + ".machine")), '\n')) {
    if (!line.starts_with("#")) break;
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(2, colon - 2);
    const Ids ids = split(trim(line.substr(colon + 2)), ' ');
    if (key == "problems") expected.problems = ids;
    if (key == "warnings") expected.warnings = ids;
    if (key == "unknown") expected.unknown = ids;
    if (key == "consequences") expected.consequences = ids;
    if (key == "works") expected.works = ids;
    if (key == "fix") expected.fix = ids.front();
  }
  return expected;
}

Ids ids(const std::vector<const Result*>& results, bool goals_only = false) {
  Ids all;
  for (const Result* result : results)
    if (!goals_only || result->check->severity == Severity::goal) all.push_back(result->check->id);
  return all;
}

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(machines_folder() / "doctor"))
    if (file.path().extension() == ".machine") names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Machines : public ::testing::TestWithParam<std::string> {};

TEST_P(Machines, AreDiagnosed) {
  const std::string name = "doctor/" + GetParam();
  const Expected expected = expected_of(name);
  const UnpackedMachine machine(name);
  const Facts facts(*machine);
  const Diagnosis diagnosis = diagnose(checks(), facts);
  if (facts.machine().recorded().find("\"opencl\":") != std::string::npos) ATHANOR_NEEDS_BACKENDS();
  if (GetParam() == "trap-no-room-on-the-gpu") ATHANOR_NEEDS_BACKENDS();  // NVIDIA's says how much there is
  // For these machines, the answers of CUDA's backend were not recorded.
  if (GetParam() == "healthy-wsl" || GetParam() == "trap-wsl-linux-driver") ATHANOR_NEEDS_BACKENDS();
  EXPECT_THAT(ids(diagnosis.with(Verdict::problem)), ElementsAreArray(expected.problems));
  EXPECT_THAT(ids(diagnosis.with(Verdict::warning)), ElementsAreArray(expected.warnings));
  EXPECT_THAT(ids(diagnosis.unknown()), ElementsAreArray(expected.unknown));
  if (expected.consequences) {
    EXPECT_THAT(ids(diagnosis.with(Verdict::consequence)), UnorderedElementsAreArray(*expected.consequences));
  }
  if (expected.works) {
    EXPECT_THAT(ids(diagnosis.with(Verdict::ok), true), UnorderedElementsAreArray(*expected.works));
  }
  for (const Result* result : diagnosis.with(Verdict::consequence))
    EXPECT_THAT(result->causes, ::testing::Not(IsEmpty()));
  const auto problems = diagnosis.with(Verdict::problem), warnings = diagnosis.with(Verdict::warning);
  const Result* first = !problems.empty() ? problems.front() : !warnings.empty() ? warnings.front() : nullptr;
  std::string commands;
  for (const Verdict verdict : {Verdict::problem, Verdict::warning})
    for (const Result* result : diagnosis.with(verdict)) {
      EXPECT_FALSE(result->finding.evidence.empty()) << result->check->id << " says nothing of what it saw";
      const auto all = offers(*result);
      ASSERT_FALSE(all.empty()) << "no fix of " << result->check->id << " applies here";
      if (!expected.fix.empty() && result == first) {
        EXPECT_EQ(all.front().fix->id, expected.fix);
      }
      for (const Language language : {Language::en, Language::zh}) {
        EXPECT_FALSE(has_placeholder(result->text(result->check->title, language)))
            << result->text(result->check->title, language);
        EXPECT_FALSE(has_placeholder(result->text(result->check->why, language)))
            << result->text(result->check->why, language);
        for (const Offer& offer : all) {
          EXPECT_FALSE(has_placeholder(result->text(offer.fix->text, language)))
              << result->text(offer.fix->text, language);
          for (const std::string& command : offer.commands) {
            EXPECT_FALSE(has_placeholder(command)) << command;
            commands += command + "\n";
          }
        }
      }
    }
  if (!commands.empty()) {  // they must be valid shell
    write_text(machine.root() / "commands.sh", commands);
    EXPECT_EQ(std::system(("bash -n " + (machine.root() / "commands.sh").string()).c_str()), 0) << commands;
  }
  for (const Result& result : diagnosis.results)  // titles of goals and consequences too
    if (result.verdict != Verdict::skipped && result.verdict != Verdict::ok) {
      EXPECT_FALSE(has_placeholder(result.text(result.check->title, Language::zh))) << result.check->id;
    }
}

INSTANTIATE_TEST_SUITE_P(Recorded, Machines, ::testing::ValuesIn(machine_names()), [](const auto& instance) {
  std::string name = instance.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Machines recorded for detect: there must be no false alarms on them either.
TEST(DetectsMachines, AreDiagnosedWithoutFalseAlarms) {
  ATHANOR_NEEDS_BACKENDS();
  const std::map<std::string, Ids> problems = {
      {"arc-a770", {}},   {"container-bare", {"container.amd"}},
      {"cpu-server", {}}, {"h100x8", {}},  // no OpenCL, but CUDA
      {"mi300x8", {}},    {"phoenix-7900xtx", {"amd.mixed"}},
      {"rtx4090", {}},    {"rx6600x2", {"amd.rocblas"}},  // gfx1032, and no override
      {"rx6800xt", {}},   {"rx7900xtx", {}},
      {"steamdeck", {}},  {"wsl-rtx4090", {}},
  };
  for (const auto& [name, expected] : problems) {
    if (!std::filesystem::exists(machines_folder() / (name + ".machine"))) continue;
    const UnpackedMachine machine(name);
    EXPECT_THAT(ids(diagnose(checks(), Facts(*machine)).with(Verdict::problem)), ElementsAreArray(expected))
        << name;
  }
}

TEST(Wsl, ShowsTheGpuOfWindows) {
  ATHANOR_NEEDS_BACKENDS();
  const UnpackedMachine machine("wsl-rtx4090");
  const Facts facts(*machine);
  const Diagnosis diagnosis = diagnose(checks(), facts);
  // CUDA lists the GPU, so it does not matter that Windows' driver has no OpenCL.
  EXPECT_THAT(ids(diagnosis.with(Verdict::warning)), IsEmpty());
  EXPECT_EQ(facts.gpus().front().device, "cuda:0");
  const std::string text = report_text(diagnosis, facts, {});
  EXPECT_THAT(text, ::testing::HasSubstr("NVIDIA GeForce RTX 4090 (sm_89)"));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("no GPU found")));
}

// Trees of /sys from users' machines, in shared/ beside the checkout. Libraries and /dev are not known there.
TEST(RecordedTrees, AreDiagnosedWithoutFalseAlarms) {
  const auto trees = std::filesystem::path(ATHANOR_SOURCE_DIR) / "../shared/data/sysfs";
  if (!std::filesystem::exists(trees))
    GTEST_SKIP() << "no recorded trees (shared/data/sysfs beside the checkout)";
  for (const char* name : {"amd/rx5700xt", "amd/rx580", "amd/rx6600", "amd/rx7900xtx", "amd/rx9070",
                           "amd/vega56", "amd/phoenix", "intel/a380-xe", "intel/b580", "nvidia/rtx4080"}) {
    const ::athanor::testing::TemporaryFolder folder;
    for (const auto& entry : std::filesystem::directory_iterator(trees / name)) {
      const std::string part = entry.path().filename();
      const auto to = folder.path() / "sys/class" / (part == "kfd" ? "kfd" : "drm");
      std::filesystem::create_directories(to);
      if (entry.is_directory())
        std::filesystem::copy(entry.path(), to / part, std::filesystem::copy_options::recursive);
    }
    const Machine machine(folder.path());
    const Facts facts(machine);
    const Diagnosis diagnosis = diagnose(checks(), facts);
    EXPECT_EQ(facts.gpus().size(), 1U) << name;
    EXPECT_THAT(ids(diagnosis.with(Verdict::problem)), IsEmpty()) << name;
    EXPECT_THAT(ids(diagnosis.with(Verdict::ok), true), ::testing::ElementsAre("works.athanor")) << name;
    EXPECT_THAT(ids(diagnosis.unknown()), ::testing::Contains("opencl.loader")) << name;
  }
}

// "All is well" is printed only if nothing else is reported.
TEST(Report, SaysAllIsWellOnlyWhereItIs) {
  for (const std::string& name : machine_names()) {
    const UnpackedMachine machine("doctor/" + name);
    const Facts facts(*machine);
    const Diagnosis diagnosis = diagnose(checks(), facts);
    const bool well = diagnosis.with(Verdict::problem).empty() && diagnosis.with(Verdict::warning).empty() &&
                      diagnosis.unknown().empty();
    EXPECT_EQ(report_text(diagnosis, facts, {}).find("All is well") != std::string::npos, well) << name;
  }
}

TEST(Report, CountsOneCheckAndMany) {
  const UnpackedMachine machine("doctor/healthy-no-gpu");
  const Facts facts(*machine);
  const Diagnosis one = diagnose(checks(), facts, {"environment.cache"}), all = diagnose(checks(), facts);
  ASSERT_EQ(one.results.size(), 1U);
  EXPECT_THAT(report_text(one, facts, {}), HasSubstr(": 1 check in "));
  EXPECT_THAT(report_text(all, facts, {}), HasSubstr(fmt::format(": {} checks in ", all.results.size())));
  Style chinese;
  chinese.language = Language::zh;
  EXPECT_THAT(report_text(one, facts, chinese), HasSubstr("：1 项检查，"));
}

TEST(Checks, HaveAMachineEach) {
  std::set<std::string> seen;
  for (const std::string& name : machine_names()) {
    const Expected expected = expected_of("doctor/" + name);
    seen.insert(expected.problems.begin(), expected.problems.end());
    seen.insert(expected.warnings.begin(), expected.warnings.end());
    if (expected.consequences)
      for (const std::string& id : *expected.consequences)
        if (id.starts_with("works.")) seen.insert(id);
  }
  for (const Check& check : checks()) {
    // No recorded folder can compute: see MayHaveADeviceThatComputesWrongly, and Examination in tests/cli.
    if (check.id.starts_with("device.")) continue;
    EXPECT_TRUE(seen.contains(check.id))
        << "no machine of tests/machines/doctor has the problem " << check.id;
  }
}

TEST(ThisMachine, MayHaveADeviceThatComputesWrongly) {
  const Machine machine;
  Facts facts(machine);
  facts.set_self_test([] {
    return fail().seen("opencl:0", "differs").with("device", "opencl:0").with("what", "f16 product");
  });
  const Diagnosis diagnosis = diagnose(checks(), facts);
  const Result* result = diagnosis.find("device.self_test");
  ASSERT_NE(result, nullptr);
  EXPECT_THAT(result->verdict, ::testing::AnyOf(Verdict::problem, Verdict::consequence));
  EXPECT_EQ(result->text(result->check->title, Language::en), "opencl:0 computes wrongly: f16 product");
}

TEST(SelfTest, SaysHowManyResultsAreWrongAndWhich) {
  const SelfTested cpu{"cpu", "a processor", 900, {}, false};
  SelfTested gpu{"opencl:0", "a card", 900, {}, false};
  EXPECT_EQ(finding_of({cpu, gpu}).status, Status::pass);
  for (int i = 1; i <= 7; ++i) gpu.wrong.push_back(fmt::format("op{}: is 1, not 2", i));
  const Finding wrong = finding_of({cpu, gpu, {"hip:0", "slow", 0, {"conv2d: no answer"}, true}});
  EXPECT_EQ(wrong.status, Status::fail);
  EXPECT_EQ(wrong.values.at("device"), "opencl:0, hip:0");
  EXPECT_EQ(wrong.values.at("what"), "op1: is 1, not 2");
  std::vector<std::string> said;
  for (const Evidence& one : wrong.evidence) said.push_back(one.source + ": " + one.said);
  EXPECT_THAT(said,
              ::testing::ElementsAre(
                  "cpu (a processor): 900 results of every op, and of a training step",
                  "opencl:0 (a card): 7 of 900 results are wrong", "opencl:0: op1: is 1, not 2",
                  "opencl:0: op2: is 1, not 2", "opencl:0: op3: is 1, not 2", "opencl:0: op4: is 1, not 2",
                  "opencl:0: op5: is 1, not 2", "opencl:0: and 2 more", "hip:0 (slow): conv2d: no answer"));
  EXPECT_EQ(finding_of({{"hip:0", "slow", 0, {"conv2d: no answer"}, true}}).status, Status::warn);
}

TEST(RowsOfFailures, AreAllThere) {
  for (int row = 1; row <= 29; ++row) {
    const std::string start = fmt::format("row{:02}-", row);
    const auto names = machine_names();
    EXPECT_TRUE(std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name.starts_with(start);
    })) << start;
  }
}

TEST(ThisMachine, IsDiagnosedInTwoSeconds) {
  const Machine machine;
  const Facts facts(machine);
  const Diagnosis diagnosis = diagnose(checks(), facts);
  EXPECT_EQ(diagnosis.results.size(), checks().size());
  EXPECT_LT(diagnosis.seconds, 2 * 10) << "the promise is 2 s; tests share the processor";
  EXPECT_FALSE(report_text(diagnosis, facts, {}).empty());
}

}  // namespace
}  // namespace athanor::doctor
