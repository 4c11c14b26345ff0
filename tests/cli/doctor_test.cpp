// athanor doctor for people and for programs: exit codes, JSON, languages, fixes.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "athanor/base/text.h"
#include "athanor/base/wrap.h"
#include "tests/cli/program_test.h"
#include "tests/doctor/fixture.h"
#include "tests/support/matches.h"

namespace athanor {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using ::testing::StartsWith;
using testing::UnpackedMachine;

class Doctor : public testing::ProgramTest {
 protected:
  Outcome run(const std::vector<std::string>& arguments) {
    Words words{"doctor"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return ProgramTest::run(words);
  }
  Outcome on(const std::string& machine, std::vector<std::string> arguments) {
    machines_.push_back(std::make_unique<UnpackedMachine>("doctor/" + machine));
    arguments.insert(arguments.end(), {"--root", machines_.back()->root().string()});
    return run(arguments);
  }
  std::vector<std::unique_ptr<UnpackedMachine>> machines_;
};

TEST_F(Doctor, ExitsByWhatItFound) {
  EXPECT_EQ(on("healthy-rx6800xt", {}).exit_code, 0);
  EXPECT_EQ(on("row10-miopen-kernels", {}).exit_code, 0);  // a warning
  EXPECT_EQ(on("row03-kfd-permission", {}).exit_code, 1);
  EXPECT_EQ(run({"--root", "/no/such/folder"}).exit_code, 2);
  EXPECT_EQ(run({"--only", "amd.kfd.permissions"}).exit_code, 2);
  EXPECT_EQ(run({"--lang", "fr"}).exit_code, 2);
  EXPECT_EQ(run({"--plan", "caffe"}).exit_code, 2);
  EXPECT_EQ(run({"--as", "script"}).exit_code, 2);
  EXPECT_EQ(run({"--tried", "join-group"}).exit_code, 2);
  EXPECT_THAT(run({"--self-test", "--root", "."}).err, HasSubstr("cannot compute here"));
  EXPECT_EQ(run({"--frobnicate"}).exit_code, 2);
  EXPECT_EQ(run({"export", "/no/such/folder/file"}).exit_code, 3);
}

TEST_F(Doctor, NamesTheNearestCheck) {
  EXPECT_THAT(run({"--only", "amd.kfd.permissions"}).err, HasSubstr("amd.kfd.permission"));
  EXPECT_THAT(run({"--only", "amd.kfd.permission", "--tried", "join"}).err,
              HasSubstr("It has: join-group, "));
}

TEST_F(Doctor, LeavesOneLineBlankBetweenParts) {
  for (const Words& words : {Words{}, Words{"--only", "system.clock"}})
    EXPECT_THAT(run(words).out, Not(HasSubstr("\n\n\n"))) << ::testing::PrintToString(words);
}

TEST_F(Doctor, RefusesADamagedRecord) {
  std::filesystem::create_directory(folder_.path() / "machine");
  write_file_atomically(folder_.path() / "machine" / "machine.toml", "[[[");
  const Outcome outcome = run({"--root", (folder_.path() / "machine").string()});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("machine.toml"));
}

TEST_F(Doctor, LeadsWithTheCause) {
  const std::string text = on("row03-kfd-permission", {"--lang", "en"}).out;
  EXPECT_THAT(text, AllOf(HasSubstr("1 problem."), HasSubstr("sudo usermod -aG render ada"),
                          HasSubstr("uid 0, gid 992 (render), mode 0660"),
                          HasSubstr("Will work after the above is fixed"), HasSubstr("(after 1)")));
  EXPECT_THAT(text, Not(HasSubstr("\x1b[")));  // not a terminal: no colours
}

TEST_F(Doctor, SpeaksTheLanguageOfTheLocale) {
  set_variable("LC_ALL", "zh_CN.UTF-8");
  const std::string chinese = on("row03-kfd-permission", {}).out;
  const std::string english = on("row03-kfd-permission", {"--lang", "en"}).out;
  EXPECT_THAT(chinese, HasSubstr("加入该组"));
  EXPECT_THAT(english, HasSubstr("Join the group"));
  EXPECT_THAT(on("row03-kfd-permission", {"--lang", "zh"}).out, HasSubstr("发现 1 个问题"));
}

TEST_F(Doctor, PrintsJsonOfASchema) {
  const json report = json::parse(on("row03-kfd-permission", {"--json"}).out);
  EXPECT_EQ(report.at("schema"), 1);
  EXPECT_EQ(report.at("well"), false);
  EXPECT_EQ(report.at("machine").at("kind"), "amd gfx1030, ubuntu 24.04");
  const json& problem = report.at("problems").at(0);
  for (const char* field :
       {"id", "layer", "title", "why", "evidence", "fixes", "verify", "consequences", "source", "date"})
    EXPECT_TRUE(problem.contains(field)) << field;
  for (const char* field :
       {"id", "text", "commands", "sudo", "relogin", "reboot", "automatic", "tried", "worked"})
    EXPECT_TRUE(problem.at("fixes").at(0).contains(field)) << field;
  EXPECT_EQ(problem.at("fixes").at(0).at("sudo"), true);
  for (const char* field : {"warnings", "consequences", "goals", "passed", "skipped", "seconds"})
    EXPECT_TRUE(report.contains(field)) << field;
  const json list = json::parse(run({"--list", "--json"}).out);
  EXPECT_GT(list.at("checks").size(), 60U);
}

TEST_F(Doctor, RunsOnlySomeChecks) {
  const json one = json::parse(on("trap-two-causes", {"--json", "--only", "python.torch.flavour"}).out);
  ASSERT_EQ(one.at("problems").size(), 1U);
  EXPECT_EQ(one.at("problems").at(0).at("id"), "python.torch.flavour");
  const json cause = json::parse(on("trap-two-causes", {"--json", "--only", "amd.driver.loaded"}).out);
  EXPECT_EQ(cause.at("problems").at(0).at("id"), "amd.driver.blacklisted");
}

TEST_F(Doctor, MendsWhatItMay) {
  const Outcome dry = on("row09-wrong-override", {"--fix", "--dry-run", "--lang", "en"});
  EXPECT_EQ(dry.exit_code, 1);
  EXPECT_THAT(dry.out, HasSubstr("unset HSA_OVERRIDE_GFX_VERSION"));
  EXPECT_FALSE(std::filesystem::exists(machines_.back()->root() / "home/ada/.config"));
  const Outcome unasked = on("row09-wrong-override", {"--fix", "--lang", "en"});
  EXPECT_EQ(unasked.exit_code, 1);
  EXPECT_THAT(unasked.out, HasSubstr("--yes"));
  const Outcome done = on("row09-wrong-override", {"--fix", "--yes", "--lang", "en"});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_THAT(done.out, HasSubstr("fixed"));
  EXPECT_TRUE(std::filesystem::exists(machines_.back()->root() / "home/ada/.config/athanor/env"));
}

TEST_F(Doctor, PrintsTheCommandsOfTheRest) {
  const Outcome outcome = on("row03-kfd-permission", {"--fix", "--yes"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("sudo usermod -aG render ada"));
}

// A port on which this test listens, and which it sets as MASTER_PORT.
class TakenPort {
 public:
  TakenPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const where = reinterpret_cast<sockaddr*>(&address);
    listening_ =
        bind(socket_, where, size) == 0 && listen(socket_, 1) == 0 && getsockname(socket_, where, &size) == 0;
    setenv("MASTER_PORT", std::to_string(ntohs(address.sin_port)).c_str(), 1);
  }
  ~TakenPort() {
    close(socket_);
    unsetenv("MASTER_PORT");
  }
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;
  bool listening() const { return listening_; }

 private:
  int socket_;
  bool listening_ = false;
};

TEST_F(Doctor, LearnsFromWhatWasTried) {
  const std::vector<std::string> tried = {"--only", "environment.port", "--tried", "who-listens"};
  const auto first_fix = [&] {
    const json report = json::parse(run({"--json", "--only", "environment.port"}).out);
    return report.at("problems").at(0).at("fixes").at(0);
  };
  {
    const TakenPort port;
    ASSERT_TRUE(port.listening());
    EXPECT_EQ(first_fix().at("id"), "who-listens");
    EXPECT_EQ(run(tried).exit_code, 1);
    EXPECT_EQ(first_fix().at("id"), "other-port");
  }
  EXPECT_EQ(run(tried).exit_code, 0);
  EXPECT_THAT(run(tried).err, HasSubstr("not recorded"));  // because nothing has failed since then
  const TakenPort port;
  EXPECT_EQ(first_fix().at("id"), "who-listens");  // (1 + 1) / (2 + 2) is as good as untried
  EXPECT_EQ(first_fix().at("tried"), 2);
  EXPECT_EQ(first_fix().at("worked"), 1);
  EXPECT_THAT(run({"history", "--lang", "en"}).out, HasSubstr("environment.port / who-listens"));
}

// Without the device nothing was fixed, and another machine's problems are not in this one's history.
TEST_F(Doctor, NotesNothingThatIsNotSo) {
  const std::vector<std::string> tried = {"--only", "amd.kfd.permission", "--tried", "join-group"};
  const Outcome without = run(tried);
  EXPECT_EQ(without.exit_code, 0);
  EXPECT_THAT(without.err, HasSubstr("not recorded"));
  EXPECT_EQ(on("row03-kfd-permission", {}).exit_code, 1);
  EXPECT_EQ(on("row09-wrong-override", {"--fix", "--yes"}).exit_code, 0);
  EXPECT_EQ(on("row03-kfd-permission", tried).exit_code, 2);
  EXPECT_EQ(json::parse(run({"history", "--json"}).out).at("events"), json::array());
}

TEST_F(Doctor, PlansWhatCanBeRun) {
  const Outcome script = on("healthy-rtx4090", {"--plan", "pytorch", "--as", "script"});
  EXPECT_EQ(script.exit_code, 0);
  EXPECT_THAT(script.out, StartsWith("#!/usr/bin/env bash\n"));
  const Outcome impossible = on("trap-polaris", {"--plan", "pytorch", "--as", "script"});
  EXPECT_EQ(impossible.exit_code, 1);
  EXPECT_THAT(impossible.err, HasSubstr("gfx803"));
  EXPECT_EQ(impossible.out, "");
  EXPECT_EQ(json::parse(on("trap-polaris", {"--plan", "pytorch", "--json"}).out).at("possible"), false);
}

TEST_F(Doctor, PlansForTheGpuThatIsAskedFor) {
  const auto plan =
      json::parse(on("trap-amd-and-nvidia", {"--plan", "pytorch", "--vendor", "amd", "--json"}).out);
  EXPECT_EQ(plan.at("gpus").at(0).at("use"), "apart");
  EXPECT_EQ(plan.at("gpus").at(1).at("use"), "used");
  const Outcome wrong = on("trap-amd-and-nvidia", {"--plan", "jax", "--device", "Voodoo"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("1 AMD Radeon RX 6800 XT (gfx1030) at 0000:03:00.0"));
  EXPECT_EQ(on("trap-amd-and-nvidia", {"--plan", "jax", "--vendor", "intel"}).exit_code, 2);
  EXPECT_EQ(on("trap-amd-and-nvidia", {"--device", "1"}).exit_code, 2);  // without --plan
}

// The program has every command that a plan runs.
TEST_F(Doctor, NamesOnlyCommandsThatThereAre) {
  const auto words_of_help = [&](const std::vector<std::string>& arguments) {
    return ProgramTest::run(arguments).out;
  };
  const std::string help = words_of_help({"--help"});
  int found = 0;
  const auto check = [&](const std::string& text) {
    for (const std::string& name : {std::string("athanor\", \""), std::string("build/release/athanor ")})
      for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
        const size_t start = at + name.size(),
                     end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz", start);
        const std::string command = text.substr(start, end - start);
        ++found;
        EXPECT_THAT(help, HasSubstr("\n  " + command + " ")) << text;
        EXPECT_THAT(words_of_help({command, "--help"}), HasSubstr(command));
      }
  };
  for (const char* machine : {"healthy-rtx4090", "healthy-rx6800xt", "healthy-arc", "healthy-no-gpu"})
    for (const char* form : {"script", "dockerfile"})
      check(on(machine, {"--plan", "athanor", "--as", form}).out);
  EXPECT_EQ(found, 8);
}

TEST_F(Doctor, GoesByNewerData) {
  std::string data = read_text_file(ATHANOR_SOURCE_DIR "/data/compatibility.toml");
  const std::string date = "\ndate = \"";
  data.replace(data.find(date) + date.size(), 10, "2031-02-03");
  write_file_atomically(folder_ / "newer.toml", data);
  EXPECT_THAT(on("row26-cpu-wheel", {"--data", "newer.toml"}).out,
              AllOf(HasSubstr("newer.toml"), HasSubstr("2031-02-03")));
  EXPECT_THAT(on("row26-cpu-wheel", {}).out, Not(HasSubstr("2031-02-03")));
}

// Everything is wrapped except commands, which people copy.
TEST_F(Doctor, WrapsTitlesToo) {
  set_variable("COLUMNS", "80");
  const auto widest_line = [&](const char* machine, const char* language) {
    int widest = 0;
    for (const std::string& line : split(on(machine, {"--lang", language}).out, '\n'))
      if (!line.starts_with("            ")) widest = std::max(widest, text_columns(line));
    return widest;
  };
  for (const char* machine : {"row01-invalid-device-function", "row21-driver-mismatch", "trap-kepler"})
    for (const char* language : {"en", "zh"}) EXPECT_LE(widest_line(machine, language), 80) << machine;
  // Without a terminal, it is as wide as other reports.
  unsetenv("COLUMNS");
  const int widest = widest_line("row21-driver-mismatch", "en");
  EXPECT_GT(widest, 100);
  EXPECT_LE(widest, 120);
}

TEST_F(Doctor, FitsTheTerminal) {
  set_variable("COLUMNS", "80");
  for (const Outcome& shown : {on("row22-nouveau", {"--plan", "pytorch"}),
                               on("row22-nouveau", {"--plan", "athanor"}), run({"--list"})})
    for (const std::string& line : split(shown.out, '\n')) EXPECT_LE(text_columns(line), 80) << line;
}

TEST_F(Doctor, SaysWhereNothingWasChecked) {
  const Outcome outcome = on("healthy-no-gpu", {"--only", "amd.kfd.permission"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Nothing was checked: "), Not(HasSubstr("All is well"))));
}

TEST_F(Doctor, TakesNoOptionsOfAnotherCommand) {
  for (const char* option : {"--yes", "--dry-run"}) {
    const Outcome outcome = run({option});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(option), HasSubstr("Add --fix")));
  }
}

TEST_F(Doctor, ExportsWithoutNames) {
  const auto file = folder_.path() / "bundle.machine";
  EXPECT_EQ(on("private", {"export", file.string()}).exit_code, 0);
  const std::string text = read_text_file(file);
  EXPECT_THAT(text,
              AllOf(Not(HasSubstr("margarete")), Not(HasSubstr("elderberry")), HasSubstr("== /report.json")));
}

TEST_F(Doctor, LooksAtThisMachine) {
  const Outcome outcome = run({"--json"});
  EXPECT_LE(outcome.exit_code, 1) << outcome.err;
  EXPECT_GT(json::parse(outcome.out).at("passed").size(), 3U);
}

TEST_F(Doctor, AsksTheDevicesToCompute) {
  set_variable("ATHANOR_OPENCL_LIBRARY", "/no/such/library.so");  // only the CPU: PoCL is slow to compile
  const json report = json::parse(run({"--self-test", "--json", "--only", "device.self_test"}).out);
  EXPECT_EQ(report.at("passed"), json::array({"device.self_test"})) << report.dump(1);
  // The complete examination: every op, not only some.
  const std::string said = run({"--self-test", "--only", "device.self_test", "--lang", "en"}).out;
  const testing::Match results = testing::first_match(said, "cpu .*: ([0-9]+) results of every op");
  ASSERT_FALSE(results.empty()) << said;
  EXPECT_GT(std::stoi(results[1]), 900);
}

}  // namespace
}  // namespace athanor
