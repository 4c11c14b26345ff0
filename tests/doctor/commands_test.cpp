// No text from a machine becomes a command of its own, and commands name only folders that are Athanor's, the
// user's or written in the data. This checks every fix with hostile values in every placeholder, and on every
// recorded machine with hostile variables and users.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "athanor/base/error.h"
#include "athanor/doctor/command.h"
#include "athanor/doctor/diagnosis.h"
#include "athanor/doctor/fix.h"
#include "athanor/doctor/plan.h"
#include "athanor/doctor/report.h"
#include "tests/doctor/fixture.h"
#include "tests/support/matches.h"

namespace athanor::doctor {
namespace {

using ::athanor::testing::is_match;
using ::athanor::testing::machines_folder;
using ::athanor::testing::matches;
using ::athanor::testing::replaced;
using ::athanor::testing::TemporaryFolder;
using ::athanor::testing::UnpackedMachine;
using ::athanor::testing::write_text;
using ::testing::_;
using ::testing::FieldsAre;
using ::testing::HasSubstr;

// A shell's words and operators without their quotes; none if a quote is open. What a shell would expand
// (outside quotes or in double ones) is marked by a '\x01', so it equals no plain text.
std::optional<std::vector<std::string>> shell_tokens(const std::string& line) {
  std::vector<std::string> tokens;
  std::string word;
  bool in_word = false;
  char quote = 0;
  const auto end = [&] {
    if (in_word) tokens.push_back(word);
    word.clear(), in_word = false;
  };
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return std::nullopt;
    if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == '\'') {
      word += c;
    } else if (c == '\\' && i + 1 < line.size()) {
      word += line[++i], in_word = true;
    } else if (c == '$' || c == '`') {
      word += '\x01', word += c, in_word = true;
    } else if (quote != 0) {
      word += c;
    } else if (c == '\'' || c == '"') {
      quote = c, in_word = true;
    } else if (c == ' ') {
      end();
    } else if (std::string_view(";&|<>()").find(c) != std::string_view::npos) {
      end();
      tokens.push_back(std::string("\x02") + c);
    } else {
      word += std::string_view("*?[~").find(c) != std::string_view::npos ? std::string("\x01") + c
                                                                         : std::string(1, c);
      in_word = true;
    }
  }
  end();
  return quote == 0 ? std::optional(tokens) : std::nullopt;
}

// Whether a path may replace a placeholder on a machine of tests/machines, whose user is ada.
bool is_ours(const std::string& mold, const std::string& path) {
  constexpr const char* changed =
      "/home/ada/\\.cache/athanor(/athanor\\.db)?|/home/ada/[a-z0-9]+|/home/ada/\\.venv|https://[a-z.]+/"
      "[a-z0-9./-]*";
  constexpr const char* run =
      "(/usr|/usr/local|/opt/[a-z0-9/]+|/home/ada/[.]?[a-z0-9][a-z0-9./]*)/bin/python3?";
  constexpr const char* looked_at = "/|/tmp|/var/tmp|/home|/home/ada";
  const bool whole =
      mold.find("{folder}") != std::string::npos || mold.find("{mount_point}") != std::string::npos;
  return is_match(path, whole ? looked_at : mold == "{python}" ? run : changed);
}

// Why a command must not be offered; "" if it may be.
std::string objection(const std::string& form, const std::string& command) {
  const auto plan = shell_tokens(form), made = shell_tokens(command);
  if (!plan || !made) return "cannot be read by a shell";
  if (const size_t at = form.find("{port_words}"); at != std::string::npos) {
    // One word for each port.
    const std::string before = form.substr(0, at), behind = form.substr(at + 12);
    constexpr const char* ports = "([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-7] ?)+";
    return command.starts_with(before) && command.ends_with(behind) &&
                   is_match(command.substr(at, command.size() - before.size() - behind.size()), ports)
               ? ""
               : "has other ports";
  }
  if (plan->size() != made->size()) return "has other words than it was written with";
  for (size_t i = 0; i < plan->size() && i < made->size(); ++i) {
    const std::string &mold = plan->at(i), &word = made->at(i);
    const size_t open = mold.find('{');
    if (open == std::string::npos || placeholders(mold).empty()) {
      if (word != mold) return fmt::format("'{}' stands where '{}' was written", word, mold);
      continue;
    }
    if (!word.starts_with(mold.substr(0, open))) return "'" + word + "' does not begin as it was written";
    const size_t behind = mold.size() - mold.rfind('}') - 1;
    if (word.size() < open + behind || !word.ends_with(mold.substr(mold.size() - behind)))
      return "'" + word + "' does not end as it was written";
    const std::string value = word.substr(open, word.size() - open - behind);
    if (mold.starts_with("{variable}=")) continue;  // export NAME=VALUE only names a folder, and changes none
    if (value.empty() || value[0] == '-') return "'" + value + "' would be an option";
    if (value.find('\x01') != std::string::npos && value.find("\x01[") == std::string::npos)
      return "'" + value + "' would be expanded";
    const bool path = value.find('/') != std::string::npos || value.starts_with('.');
    if (path && !is_ours(mold, value)) return "'" + value + "' is not ours";
  }
  return {};
}

TEST(TheRuleOfThisTest, CatchesWhatWasOnceGiven) {
  const std::string form = "sudo chown -R {user} {path}";
  for (const char* path : {"/", "/etc", "/usr/lib", "/nonexistent", "/home", "/home/ada", "/home/ada/..",
                           "..", "'/home/ada/x y/z'"})
    EXPECT_THAT(objection(form, fmt::format("sudo chown -R nobody {}", path)), HasSubstr("is not ours"))
        << path;
  EXPECT_THAT(objection(form, "sudo chown -R -rf /tmp"), HasSubstr("option"));
  EXPECT_THAT(objection(form, "sudo chown -R ada /tmp; reboot"), HasSubstr("other words"));
  EXPECT_THAT(objection("rm {path}", "rm $(reboot)"), HasSubstr("other words"));
  EXPECT_THAT(objection("rm {path}", "rm $HOME"), HasSubstr("expanded"));
  EXPECT_THAT(objection("rm {path}", "rm 'a"), HasSubstr("read by a shell"));
  EXPECT_EQ(objection("rm {path}", "rm /home/ada/.cache/athanor/athanor.db"), "");
}

const std::vector<std::string>& hostile_values() {
  static const std::vector<std::string> all = {
      "",
      "/",
      "/etc",
      "/etc/",
      "/etc/athanor",
      "/usr/lib",
      "/usr/lib/athanor",
      "/nonexistent",
      "/home",
      "/home/ada",
      "/home/ada/",
      "/home/ada/../..",
      "/home/ada/.cache",
      "/home/ada/.cache/athanor/../../..",
      "/home/bob/.cache/athanor",
      "//",
      ".",
      "..",
      "../athanor",
      "relative",
      "~",
      "~root",
      "*",
      "a b",
      "/home/ada/a b",
      "it's",
      "say \"x\"",
      "a\nreboot",
      "a\treboot",
      "\x1b[2J",
      "$(reboot)",
      "`reboot`",
      "$HOME",
      "a;reboot",
      "a&&reboot",
      "a|sh",
      ">/etc/passwd",
      "#",
      "\\",
      "'",
      "-rf",
      "--help",
      "-",
      "root",
      "nobody",
      "{user}",
      "a=b",
      std::string("a\0b", 3),
  };
  return all;
}

// A valid value for each placeholder.
const Values& usual_values() {
  static const Values all = {{"user", "ada"},
                             {"cache_folder", "/home/ada/.cache/athanor"},
                             {"cache_file", "/home/ada/.cache/athanor/athanor.db"},
                             {"environment", "/home/ada/venv"},
                             {"python", "/home/ada/venv/bin/python"},
                             {"folder", "/home/ada"},
                             {"mount_point", "/"},
                             {"group", "render"},
                             {"gid", "992"},
                             {"pages", "100"},
                             {"port", "29500"},
                             {"ports", "0000:01:00.0;0000:02:00.0"},
                             {"port_words", "0000:01:00.0 0000:02:00.0"},
                             {"icd_file", "amdocl64.icd"},
                             {"modprobe_file", "blacklist.conf"},
                             {"index", "https://download.pytorch.org/whl/cu128"},
                             {"variable", "HIP_VISIBLE_DEVICES"},
                             {"value", "0"},
                             {"package", "torch"},
                             {"torch", "torch[device-gfx1010]==2.12.*"},
                             {"packages", "jax[cuda13]"},
                             {"requirement", "numpy<2,>=1.21"},
                             {"gpu_package", "onnxruntime-gpu"},
                             {"plugin", "jax-cuda12-plugin"},
                             {"old_plugin", "jax-rocm60-plugin"},
                             {"arch", "gfx1030"},
                             {"branch", "570"},
                             {"kernel", "6.8.0-48-generic"},
                             {"needed", "9.1"},
                             {"newest", "13"},
                             {"old", "0.5.0"},
                             {"vendor", "nvidia"},
                             {"version", "2.9.0+rocm6.4"}};
  return all;
}

// A machine to which all the usual values apply.
std::map<std::string, std::string> ada() {
  return {{"/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nada:x:1000:1000::/home/ada:/bin/bash\n"},
          {"/proc/self/status", "Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\n"},
          {"/etc/ld.so.conf", ""},
          {"/usr/lib/athanor/x", ""},
          {"/home/bob/.cache/athanor/athanor.db", ""},
          {"/home/ada/.cache/athanor/athanor.db", ""},
          {"/home/ada/venv/pyvenv.cfg", "version = 3.11\n"},
          {"/home/ada/venv/lib/python3.11/site-packages/x", ""},
          {"/home/ada/.bashrc", ""}};
}

TEST(Commands, AreGivenForTheValuesTheyWereMadeFor) {
  const UnpackedMachine machine(ada());
  const Facts facts(*machine);
  const Values words = CommandWords(facts).of(usual_values());
  for (const Check& check : checks())
    for (const Fix& fix : check.fixes)
      for (const std::string& command : fix.commands) {
        const std::string made = fill(command, words);
        EXPECT_FALSE(has_placeholder(made)) << check.id << " " << fix.id << ": " << made;
        EXPECT_EQ(objection(command, made), "") << check.id << " " << fix.id << ": " << made;
      }
}

TEST(Commands, TakeNoHostileValue) {
  const UnpackedMachine machine(ada());
  const Facts facts(*machine);
  const CommandWords words(facts);
  size_t given = 0;
  for (const std::string& hostile : hostile_values())
    for (const Check& check : checks())
      for (const Fix& fix : check.fixes)
        for (const std::string& command : fix.commands)
          for (const std::string& name : placeholders(command)) {
            Values values = usual_values();
            values[name] = hostile;
            const Values taken = words.of(values);
            if (!taken.contains(name)) continue;  // the command is not offered
            const std::string made = fill(command, taken);
            ++given;
            EXPECT_EQ(objection(command, made), "") << check.id << " " << fix.id << ": " << made;
          }
  EXPECT_GT(given, 100U) << "the harmless ones (root, a=b as a variable's value) should have been given";
}

// A placeholder for a path accepts only a path of ours.
TEST(Commands, NameOnlyFoldersOfOurs) {
  const UnpackedMachine machine(ada());
  const Facts facts(*machine);
  const CommandWords words(facts);
  for (const char* name : {"cache_folder", "cache_file", "environment", "python"})
    for (const std::string& hostile : hostile_values())
      EXPECT_FALSE(words.of({{name, hostile}}).contains(name)) << name << " took " << hostile;
}

struct Hostile {
  const char* name;
  std::map<std::string, std::string> variables;
  const char* account = "ada";
  const char* account_home = "/home/ada";
};

const std::vector<Hostile>& hostile_machines() {
  static const std::vector<Hostile> all = {
      {"nobody", {{"HOME", "/nonexistent"}}, "nobody", "/nonexistent"},
      {"root of all", {{"HOME", "/"}}},
      {"slashes at ends", {{"HOME", "/home/ada/"}, {"XDG_CACHE_HOME", "/"}, {"XDG_CONFIG_HOME", "/x/"}}},
      {"no home", {{"HOME", ""}}, "ada", ""},
      {"system's home", {{"HOME", "/etc"}}},
      {"another's home", {{"HOME", "/root"}}},
      {"relative", {{"HOME", "home"}, {"XDG_CACHE_HOME", "cache"}, {"XDG_CONFIG_HOME", "config"}}},
      {"relative cache", {{"ATHANOR_CACHE", "cache"}, {"VIRTUAL_ENV", ".venv"}}},
      {"cache in /etc", {{"ATHANOR_CACHE", "/etc"}, {"XDG_CONFIG_HOME", "/etc"}, {"VIRTUAL_ENV", "/etc"}}},
      {"cache to be made in /usr/lib", {{"ATHANOR_CACHE", "/usr/lib/athanor/cache"}}},
      {"cache is all", {{"ATHANOR_CACHE", "/"}, {"XDG_CONFIG_HOME", "/"}, {"TMPDIR", "/"}}},
      {"dots", {{"ATHANOR_CACHE", "/home/ada/../../etc/athanor"}, {"HOME", "/home/ada/.."}}},
      {"blanks", {{"ATHANOR_CACHE", "/etc/a b'c\"/athanor"}, {"HOME", "/etc/x y"}}},
      {"newlines", {{"ATHANOR_CACHE", "/home/ada\nreboot\n/athanor"}, {"OCL_ICD_VENDORS", "/etc/x\ny"}}},
      {"commands", {{"ATHANOR_CACHE", "/$(reboot)/athanor"}, {"HOME", "/`reboot`;reboot"}}, "$(reboot)"},
      {"options", {{"ATHANOR_CACHE", "-rf"}, {"HOME", "-rf"}, {"PATH", "-rf:/etc:--"}}, "-rf"},
      {"root by name", {{"HOME", "/usr"}, {"XDG_CACHE_HOME", "/usr"}}, "root", "/usr"},
      {"variables", {{"HIP_VISIBLE_DEVICES", "$(reboot)"}, {"MASTER_PORT", "29500;reboot"}}},
  };
  return all;
}

std::string text_of(const std::filesystem::path& file) {
  return std::filesystem::exists(file) ? read_text_file(file) : "";
}

// Sets these variables and the user's name on the machine.
void make_hostile(const std::filesystem::path& root, const Hostile& hostile, const std::string& environ,
                  const std::string& passwd) {
  std::string variables;
  const char end = '\0';
  for (const std::string& line : split(environ, environ.find('\0') == std::string::npos ? '\n' : '\0'))
    if (!line.empty() && !hostile.variables.contains(line.substr(0, line.find('='))))
      variables.append(line).push_back(end);
  for (const auto& [name, value] : hostile.variables)
    variables += fmt::format("{}={}", name, value), variables.push_back(end);
  std::filesystem::create_directories(root / "proc/self");
  write_text(root / "proc/self/environ", variables);
  if (passwd.empty()) return;
  write_text(root / "etc/passwd",
             replaced(passwd, "ada:x:1000:1000:[^:]*:[^:]*:",
                      fmt::format("{}:x:1000:1000::{}:", hostile.account, hostile.account_home)));
}

TEST(Commands, AreHarmlessOnHostileMachines) {
  size_t given = 0;
  for (const auto& file : std::filesystem::directory_iterator(machines_folder() / "doctor")) {
    if (file.path().extension() != ".machine" || file.path().stem() == "private") continue;  // not ada's
    const UnpackedMachine unpacked("doctor/" + file.path().stem().string());
    const std::string environ = text_of(unpacked.root() / "proc/self/environ");
    const std::string passwd = text_of(unpacked.root() / "etc/passwd");
    for (const Hostile& hostile : hostile_machines()) {
      SCOPED_TRACE(file.path().stem().string() + ", " + hostile.name);
      make_hostile(unpacked.root(), hostile, environ, passwd);
      const Machine machine(unpacked.root());
      const Facts facts(machine);
      const Diagnosis diagnosis = diagnose(checks(), facts);
      // Joined paths must not have "//", except in "https://".
      if (hostile.name == std::string("root of all") || hostile.name == std::string("slashes at ends")) {
        const std::string report = report_text(diagnosis, facts, {});
        EXPECT_EQ(matches(report, "[^:]//").size(), 0U) << report;
      }
      for (const Result& result : diagnosis.results)
        for (const Offer& offer : offers(result)) {
          for (size_t i = 0; i < offer.commands.size(); ++i, ++given)
            EXPECT_EQ(objection(offer.fix->commands[i], offer.commands[i]), "")
                << result.check->id << " " << offer.fix->id << ": " << offer.commands[i];
          for (const Change& change : changes_of(facts, result, offer)) {
            EXPECT_TRUE(change.path.starts_with("/home/ada/")) << change.path;
            EXPECT_TRUE(change.kind == Change::Kind::write || change.text.starts_with("/home/ada/.cache/"))
                << change.text;
          }
        }
    }
  }
  EXPECT_GT(given, 1000U);
}

// Without this advice, users who install Mesa's OpenCL would wonder why it lists nothing.
TEST(Commands, NameTheVariableThatRusticlNeeds) {
  const UnpackedMachine machine("doctor/row25-no-icd");
  const Diagnosis diagnosis = diagnose(checks(), Facts(*machine), {"opencl.icd"});
  const Result& result = *diagnosis.find("opencl.icd");
  for (const Language language : {Language::en, Language::zh})
    EXPECT_THAT(result.text(offers(result).front().fix->text, language),
                HasSubstr("RUSTICL_ENABLE=radeonsi"));
}

// A loop over ports needs each port as its own word, so they must not be quoted together.
TEST(Commands, HaveAWordForEachPort) {
  const UnpackedMachine machine(ada());
  const Facts facts(*machine);
  const Values words = CommandWords(facts).of({{"port_words", "0000:01:00.0 0000:02:00.0"}});
  EXPECT_EQ(fill("for port in {port_words}; do", words), "for port in 0000:01:00.0 0000:02:00.0; do");
}

// The exact case of a bug report.
TEST(Commands, DoNotGiveTheSystemAway) {
  for (const auto& [variables, account] :
       std::vector<std::pair<std::map<std::string, std::string>, std::string>>{
           {{{"HOME", "/nonexistent"}}, "nobody"},
           {{{"ATHANOR_CACHE", "/etc"}}, "nobody"},
           {{{"ATHANOR_CACHE", "/usr/lib/missing/cache"}}, "ada"}}) {
    const UnpackedMachine unpacked("doctor/healthy-no-gpu");
    Hostile hostile{"", variables, account.c_str(), "/nonexistent"};
    make_hostile(unpacked.root(), hostile, text_of(unpacked.root() / "proc/self/environ"),
                 text_of(unpacked.root() / "etc/passwd"));
    const Machine machine(unpacked.root());
    const Facts facts(machine);
    const Diagnosis diagnosis = diagnose(checks(), facts);
    ASSERT_NE(diagnosis.find("environment.cache"), nullptr);
    EXPECT_EQ(diagnosis.find("environment.cache")->verdict, Verdict::problem);
    const std::string text = report_text(diagnosis, facts, {}),
                      json = report_json(diagnosis, facts, Language::en).dump();
    for (const std::string& report : {text, json}) {
      EXPECT_THAT(report, Not(HasSubstr("chown")));
      EXPECT_THAT(report, HasSubstr("export ATHANOR_CACHE=/tmp/athanor-1000"));
      // If the user's home does not exist, --fix must not offer to change files there.
      EXPECT_EQ(report.find("athanor doctor --fix does this") == std::string::npos &&
                    report.find("\"automatic\":true") == std::string::npos,
                account == "nobody" && variables.contains("HOME"));
    }
  }
}

TEST(Commands, TakeBackACacheThatIsOurs) {
  const UnpackedMachine machine("doctor/trap-cache-of-root");
  const Facts facts(*machine);
  const Diagnosis diagnosis = diagnose(checks(), facts, {"environment.cache"});
  EXPECT_EQ(offers(*diagnosis.find("environment.cache")).front().commands,
            std::vector<std::string>{"sudo chown -R ada /home/ada/.cache/athanor"});
}

// chown -R of a link changes what it leads to.
TEST(Commands, LeaveACacheThatLeadsElsewhere) {
  const UnpackedMachine machine("doctor/trap-cache-of-root");
  const auto cache = machine.root() / "home/ada/.cache/athanor";
  std::filesystem::create_directories(machine.root() / "srv");
  std::filesystem::rename(cache, machine.root() / "srv/company");
  std::filesystem::create_directory_symlink("/srv/company", cache);
  const Machine linked(machine.root());
  const Facts facts(linked);
  const Diagnosis diagnosis = diagnose(checks(), facts, {"environment.cache"});
  for (const Offer& offer : offers(*diagnosis.find("environment.cache")))
    for (const std::string& command : offer.commands) EXPECT_THAT(command, Not(HasSubstr("chown")));
}

const Result& cache_of(const Diagnosis& diagnosis) { return *diagnosis.find("environment.cache"); }

// Changing the owner helps neither if a path cannot be a folder, nor if the database is of a later version.
TEST(Commands, SeeThatACacheIsNoFolder) {
  const UnpackedMachine unpacked("doctor/healthy-no-gpu");
  const std::string environ = text_of(unpacked.root() / "proc/self/environ");
  const std::string passwd = text_of(unpacked.root() / "etc/passwd");
  const auto find = [&](const std::string& folder) {
    make_hostile(unpacked.root(), {"", {{"ATHANOR_CACHE", folder}}}, environ, passwd);
    const Machine machine(unpacked.root());
    const Facts facts(machine);
    const Diagnosis diagnosis = diagnose(checks(), facts, {"environment.cache"});
    const auto offered = offers(cache_of(diagnosis));
    EXPECT_EQ(offered.size(), 1U) << folder;
    for (const Offer& offer : offered)
      EXPECT_THAT(offer.commands.front(), HasSubstr("export ATHANOR_CACHE="));
    return std::tuple(cache_of(diagnosis).verdict, cache_of(diagnosis).finding.evidence.at(0).said,
                      offered.at(0).commands.at(0));
  };
  std::filesystem::create_directories(unpacked.root() / "home/ada/athanor");
  write_text(unpacked.root() / "home/ada/athanor-file", "a file");
  EXPECT_THAT(find("/home/ada/athanor-file"), FieldsAre(Verdict::problem, "not a folder", _));
  EXPECT_THAT(find("/home/ada/athanor-file/cache"), FieldsAre(Verdict::problem, "not a folder", _));
  EXPECT_THAT(find("/proc/x"), FieldsAre(Verdict::problem, "made by the kernel", _));
  std::string later(100, '\0');
  later.replace(0, 15, "SQLite format 3");
  later.replace(16, 8, std::string("\x10\0\1\1\0\x40\x20\x20", 8));  // pages of 4096 bytes
  later[63] = 99;
  write_text(unpacked.root() / "home/ada/athanor/athanor.db", later);
  const auto& [verdict, evidence, command] = find("/home/ada/athanor");
  EXPECT_EQ(verdict, Verdict::problem);
  EXPECT_THAT(evidence, HasSubstr("format 99"));
  EXPECT_EQ(command, "export ATHANOR_CACHE=/tmp/athanor-1000");
}

// Any user can make a folder of that name in /tmp first.
TEST(Commands, OfferNoFolderThatAnotherUserMade) {
  const UnpackedMachine unpacked("doctor/trap-cache-of-root");
  write_text(unpacked.root() / "machine.toml",
             text_of(unpacked.root() / "machine.toml") +
                 "[files.\"/tmp/athanor-1000\"]\nuid = 1001\ngid = 1001\nmode = \"0777\"\n");
  std::filesystem::create_directories(unpacked.root() / "tmp/athanor-1000");
  write_text(unpacked.root() / "tmp/athanor-1000/athanor.db", "another user's");
  const Machine machine(unpacked.root());
  const Facts facts(machine);
  const Diagnosis diagnosis = diagnose(checks(), facts, {"environment.cache"});
  EXPECT_EQ(offers(cache_of(diagnosis)).back().commands,
            std::vector<std::string>{"export ATHANOR_CACHE=/tmp/athanor-1000-2"});
}

// With a relative folder, doctor once searched for its parent forever.
TEST(Commands, KnowNoRelativeCache) {
  const UnpackedMachine unpacked("doctor/healthy-no-gpu");
  make_hostile(unpacked.root(), {"", {{"ATHANOR_CACHE", "cache"}}},
               text_of(unpacked.root() / "proc/self/environ"), text_of(unpacked.root() / "etc/passwd"));
  const Machine machine(unpacked.root());
  const Diagnosis diagnosis = diagnose(checks(), Facts(machine), {"environment.cache"});
  ASSERT_EQ(diagnosis.unknown().size(), 1U);
  EXPECT_EQ(diagnosis.unknown().front()->finding.evidence.front().source, "cache");
}

TEST(Commands, SayWhyTheyAreWithheld) {
  const UnpackedMachine unpacked("doctor/row03-kfd-permission");
  make_hostile(unpacked.root(), {"", {}, "-rf"}, text_of(unpacked.root() / "proc/self/environ"),
               text_of(unpacked.root() / "etc/passwd"));
  const Machine machine(unpacked.root());
  const Facts facts(machine);
  const Diagnosis diagnosis = diagnose(checks(), facts, {"amd.kfd.permission"});
  EXPECT_THAT(report_text(diagnosis, facts, {}), HasSubstr("no command is given: user is '-rf'"));
  EXPECT_THAT(report_json(diagnosis, facts, Language::en).dump(), HasSubstr("\"withheld\":\"user\""));
}

// In plans' scripts, text from the machine is only in comments.
TEST(Plans, RunNothingThatAMachineSays) {
  for (const char* name : {"healthy-rtx4090", "healthy-rx6800xt", "healthy-no-gpu", "healthy-rx7900xtx"}) {
    const UnpackedMachine unpacked(std::string("doctor/") + name);
    const auto& root = unpacked.root();
    make_hostile(root, {"", {{"HOME", "/HOSTILE"}, {"PATH", "/HOSTILE/bin"}}, "HOSTILE"},
                 text_of(root / "proc/self/environ"), text_of(root / "etc/passwd"));
    write_text(root / "proc/sys/kernel/osrelease", "6.8.0\n$(HOSTILE)\n");
    write_text(root / "etc/os-release", "ID=debian\nVERSION_ID='12\nHOSTILE'\nPRETTY_NAME='x\nHOSTILE'\n");
    for (const auto& gpu : unpacked->glob("/proc/driver/nvidia/gpus/*/information"))
      write_text(root / gpu.substr(1), "Model: \tx\r`HOSTILE`\n");
    const Machine machine(root);
    const Facts facts(machine);
    for (const char* goal : {"pytorch", "tensorflow", "jax", "athanor"})
      for (const char* form : {"script", "dockerfile", "conda"}) {
        std::string text;
        try {
          text = plan_as(make_plan(facts, goal), form);
        } catch (const Error&) {
          continue;  // this machine cannot have this plan
        }
        for (const std::string& line : split(text, '\n'))
          EXPECT_TRUE(line.starts_with("#") || line.find("HOSTILE") == std::string::npos)
              << name << ", " << goal << " as " << form << ": " << line;
      }
  }
}

}  // namespace
}  // namespace athanor::doctor
