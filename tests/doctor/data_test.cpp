// Data and code agree: every check has a probe, every text all languages, and the docs a row for each check.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/doctor/check.h"
#include "athanor/doctor/compatibility.h"
#include "athanor/doctor/probe.h"
#include "athanor/doctor/report.h"
#include "tests/support/temp_folder.h"

namespace athanor::doctor {
namespace {

using ::testing::HasSubstr;

TEST(Checks, HaveOneProbeEach) {
  std::set<std::string> with_data, with_probe;
  for (const Check& check : checks()) with_data.insert(check.id);
  for (const auto& [id, probe] : probes()) with_probe.insert(id);
  EXPECT_EQ(with_data, with_probe);
}

bool has_chinese(const std::string& text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return (static_cast<unsigned char>(c) & 0xF0) == 0xE0; });
}

TEST(Checks, SpeakBothLanguages) {
  for (const Check& check : checks()) {
    EXPECT_FALSE(has_chinese(check.title.en)) << check.id;
    EXPECT_FALSE(has_chinese(check.why.en)) << check.id;
    EXPECT_TRUE(has_chinese(check.title.zh) || check.severity == Severity::goal) << check.id;
    EXPECT_TRUE(has_chinese(check.why.zh)) << check.id;
    for (const Fix& fix : check.fixes) {
      EXPECT_FALSE(has_chinese(fix.text.en)) << check.id << " " << fix.id;
      EXPECT_TRUE(has_chinese(fix.text.zh)) << check.id << " " << fix.id;
    }
  }
}

// Texts in both languages must have the same placeholders, so that neither says less.
std::set<std::string> names_in(const std::string& text) {
  const auto names = placeholders(text);
  return {names.begin(), names.end()};
}

TEST(Checks, SayTheSameInBothLanguages) {
  for (const Check& check : checks()) {
    EXPECT_EQ(names_in(check.title.en), names_in(check.title.zh)) << check.id;
    EXPECT_EQ(names_in(check.why.en), names_in(check.why.zh)) << check.id;
  }
}

// The titles that `--list` prints.
TEST(Checks, AreListedInWords) {
  for (const Check& check : checks()) {
    EXPECT_FALSE(has_placeholder(listed_title(check, Language::en))) << check.id;
    EXPECT_FALSE(has_placeholder(listed_title(check, Language::zh))) << check.id;
    for (const std::string& name : placeholders(check.title.zh)) {
      Check alone;
      alone.title = {"{" + name + "}", "{" + name + "}"};
      if (name == "gpu") continue;  // "GPU" is the same in both languages
      EXPECT_TRUE(has_chinese(listed_title(alone, Language::zh))) << check.id << " " << name;
    }
  }
}

TEST(Checks, HaveFixesThatCanBeFollowed) {
  const std::set<std::string> actions = {"", "set-variable", "unset-variable", "clear-cache"};
  for (const Check& check : checks()) {
    if (check.severity == Severity::goal) continue;
    EXPECT_FALSE(check.fixes.empty()) << check.id;
    std::set<std::string> ids;
    for (const Fix& fix : check.fixes) {
      EXPECT_TRUE(ids.insert(fix.id).second) << check.id << " has two fixes " << fix.id;
      EXPECT_TRUE(actions.contains(fix.action)) << check.id << " " << fix.id << " " << fix.action;
      const bool says_sudo =
          std::any_of(fix.commands.begin(), fix.commands.end(),
                      [](const std::string& command) { return command.find("sudo") != std::string::npos; });
      if (says_sudo) {
        EXPECT_TRUE(fix.sudo) << check.id << " " << fix.id << " needs root and does not say so";
      }
      // --fix never runs sudo, so its fixes must not need it.
      if (!fix.action.empty()) {
        EXPECT_FALSE(fix.sudo) << check.id << " " << fix.id;
      }
    }
  }
}

TEST(Checks, StandInTheDocs) {
  const std::string page = read_text_file(std::filesystem::path(ATHANOR_SOURCE_DIR) / "docs" / "doctor.md");
  std::set<std::string> named;
  for (const std::string& line : split(page, '\n')) {
    if (!line.starts_with("| `")) continue;
    const size_t end = line.find('`', 3);
    const std::string id = line.substr(3, end - 3);
    if (id.find('.') != std::string::npos && id.find(' ') == std::string::npos) named.insert(id);
  }
  for (const Check& check : checks()) {
    EXPECT_TRUE(named.contains(check.id)) << "docs/doctor.md has no row for " << check.id;
    named.erase(check.id);
  }
  EXPECT_TRUE(named.empty()) << "docs/doctor.md describes a check that is gone: "
                             << (named.empty() ? "" : *named.begin());
}

TEST(Words, AreThereInBothLanguages) {
  for (const char* name : {"well", "seen", "why", "mend", "verify", "blocks", "works", "footer"}) {
    EXPECT_FALSE(has_chinese(words(name, Language::en))) << name;
    EXPECT_TRUE(has_chinese(words(name, Language::zh))) << name;
  }
  EXPECT_THROW(words("no such word", Language::en), Error);
}

Version version(const char* text) { return *Version::parse(text); }

TEST(Versions, CompareAsNumbers) {
  EXPECT_LT(version("535.54.03"), version("535.161.08"));
  EXPECT_EQ(version("12.4"), version("12.4.0"));
  EXPECT_LT(version("2.9"), version("2.10"));
  EXPECT_EQ(version("2.9.0+cu128"), version("2.9"));
  EXPECT_EQ(version("6.1.0-18-amd64"), version("6.1"));
  EXPECT_EQ(version("v3"), version("3"));
  EXPECT_LT(version("3"), version("99999999999999999999"));
  EXPECT_EQ(version("2.9.1").first(2).text(), "2.9");
  EXPECT_FALSE(Version::parse(""));
  EXPECT_FALSE(Version::parse("unknown"));
  EXPECT_EQ(local_version("2.9.0+cu128"), "cu128");
  EXPECT_EQ(local_version("2.9.0"), "");
}

TEST(Compatibility, IsReadAndAnswers) {
  const Compatibility& known = Compatibility::known();
  EXPECT_EQ(known.pytorch.size(), 16U);
  EXPECT_EQ(known.pytorch.back().version, version("2.15"));
  EXPECT_EQ(known.tensorflow.back().version, version("2.21"));
  EXPECT_EQ(known.cuda.back().version, version("13.3"));
  EXPECT_EQ(known.toolkit(version("13.3"))->driver, version("610.43.02"));
  for (const char* release : {"6.4", "7.0", "7.1", "7.2", "7.14"})
    EXPECT_NE(known.rocm_release(version(release)), nullptr) << release;
  EXPECT_EQ(*known.oldest_driver(version("12.8")), version("525"));
  EXPECT_FALSE(known.oldest_driver(version("99.0")));
  EXPECT_EQ(known.last_driver(37), known.driver_branch(470));  // Kepler is sm_30 to sm_37
  EXPECT_EQ(known.driver_branch(470)->from_sm, 30);
  EXPECT_EQ(known.driver_branch(595), nullptr);
  EXPECT_EQ(known.torch_sm(version("2.11"), version("12.6"))->sm.all.back(), 90);
  EXPECT_TRUE(known.torch_sm(version("2.11"), version("12.6"))->certain);
  EXPECT_FALSE(known.torch_sm(version("2.4"), version("12.4"))->certain);
  EXPECT_FALSE(known.torch_sm(version("9.0"), version("99.0")));
  for (const auto& [table, origin] : known.origins) {
    EXPECT_FALSE(origin.source.empty()) << table;
    EXPECT_EQ(origin.date.size(), 10U) << table;
    EXPECT_LE(origin.date, known.date) << table << " is newer than the file";
  }
  for (const char* table :
       {"cuda", "pytorch", "therock", "xpu", "tensorflow", "jax", "onnxruntime", "rocm", "room"})
    EXPECT_TRUE(known.origins.contains(table)) << table;
}

// A kernel runs on newer chips of its own generation. A chip between the oldest and the newest may have none
// (sm_110 between sm_100 and sm_120).
TEST(Compatibility, KnowsKernelsByGeneration) {
  const Compatibility& known = Compatibility::known();
  const auto runs = [&](const char* torch, const char* cuda, int sm) {
    return known.torch_sm(version(torch), version(cuda))->sm.run_on(sm);
  };
  for (const int sm : {75, 80, 87, 89, 90, 100, 103, 120, 121}) EXPECT_TRUE(runs("2.10", "12.8", sm)) << sm;
  for (const int sm : {61, 110, 130}) EXPECT_FALSE(runs("2.10", "12.8", sm)) << sm;
  EXPECT_FALSE(runs("2.10", "12.6", 110));
  EXPECT_TRUE(runs("2.10", "13.0", 110));
  EXPECT_TRUE(runs("2.10", "13.0", 130)) << "PTX";
  EXPECT_FALSE(runs("2.8", "12.8", 110)) << "CUDA 12 does not compile for it";
  EXPECT_FALSE(known.torch_sm(version("2.8"), version("12.8"))->certain);
  EXPECT_TRUE(known.toolkit(version("12.6"))->sm.run_between(50, 75));
  EXPECT_FALSE(known.toolkit(version("12.6"))->sm.run_between(30, 50));
}

// A wheel's kernels depend on the release of torch, not only on its ROCm.
TEST(Compatibility, KnowsKernelsByTorchAndRocm) {
  const Compatibility& known = Compatibility::known();
  using Has = Compatibility::Has;
  EXPECT_EQ(known.torch_has(version("2.11"), version("7.2"), "gfx1151"), Has::yes);
  EXPECT_EQ(known.torch_has(version("2.11"), version("7.2"), "gfx1032"), Has::no);
  EXPECT_EQ(known.torch_has(version("2.9"), version("6.4"), "gfx1151"), Has::no);
  EXPECT_EQ(known.torch_has(version("2.6"), version("6.2.4"), "gfx1101"), Has::yes);
  EXPECT_EQ(known.torch_has(version("2.5"), version("6.2"), "gfx1101"), Has::no);
  EXPECT_EQ(known.torch_has(version("2.15"), version("7.2"), "gfx1032"), Has::unknown);
  EXPECT_EQ(known.torch_has(version("2.14"), version("7.14"), "gfx1103"), Has::yes);
  EXPECT_EQ(known.torch_has(version("2.14"), version("7.14"), "gfx1032"), Has::unknown);
  EXPECT_EQ(known.torch_has(version("2.11"), version("99.0"), "gfx1030"), Has::unknown);
}

TEST(Compatibility, KnowsAmdsOwnIndexes) {
  const Compatibility& known = Compatibility::known();
  for (const char* chip :
       {"gfx1010", "gfx1032", "gfx1103", "gfx1151", "gfx1201", "gfx90a", "gfx942", "gfx950"}) {
    const auto* index = known.therock_for({chip}, std::nullopt);
    ASSERT_NE(index, nullptr) << chip;
    EXPECT_THAT(index->url, HasSubstr("https://repo.amd.com/rocm/")) << chip;
  }
  EXPECT_EQ(known.therock_for({"gfx803"}, std::nullopt), nullptr);
  EXPECT_EQ(known.therock_for({"gfx1010"}, version("3.9")), nullptr);
  EXPECT_EQ(known.therock_for({}, std::nullopt), nullptr);
  for (const char* family : {"gfx101x-dgpu", "gfx103x-all", "gfx110x-all", "gfx115x-all", "gfx120x-all",
                             "gfx90a-dcgpu", "gfx94x-dcgpu", "gfx950-dcgpu"})
    EXPECT_TRUE(known.therock_families.contains(family)) << family;
}

TEST(Compatibility, RowsAreInOrder) {
  const Compatibility& known = Compatibility::known();
  const auto ordered = [](const auto& rows) {
    return std::is_sorted(rows.begin(), rows.end(),
                          [](const auto& a, const auto& b) { return a.version < b.version; });
  };
  EXPECT_TRUE(ordered(known.cuda));
  EXPECT_TRUE(ordered(known.pytorch));
  EXPECT_TRUE(ordered(known.tensorflow));
  EXPECT_TRUE(ordered(known.rocm));
  EXPECT_TRUE(ordered(known.jax_python));
}

TEST(Compatibility, IsRefusedWhereItIsMalformed) {
  for (const char* text : {"", "schema = 2", "schema = 3", "schema = \"3\"", "[cuda]\nrelease = 3",
                           "schema = 3\n[cuda]\nsource = 1"})
    EXPECT_THROW(Compatibility::parse(text), Error) << text;
}

// An error names the wrong entry, to help the author of such a file.
TEST(Compatibility, SaysWhatIsMalformed) {
  const std::string good =
      read_text_file(std::filesystem::path(ATHANOR_SOURCE_DIR) / "data" / "compatibility.toml");
  const std::string date = "date = \"" + Compatibility::built_in().date + "\"";
  struct Case {
    const char *was, *becomes, *said;
  };
  for (const Case& one :
       {Case{"schema = 3", "schema = 4", "schema 4"}, Case{date.c_str(), "date = \"yesterday\"", "date"},
        Case{date.c_str(), "date = \"2026-02-30\"", "2026-02-30"},
        Case{"driver = \"610.43.02\"", "driver = \"new\"", "cuda.release, row 14.driver"},
        Case{"sm = [75, 80, 90, 100, 110, 120] },\n]", "sm = [-1] },\n]", "sm"},
        Case{"[therock]", "[therocks]", "therock"},
        Case{"{ version = \"2.15\", python = [\"3.11\", \"3.15\"], cuda = [\"13.2\"] }",
             "{ version = \"2.15\", python = [\"3.11\"], cuda = [\"13.2\"] }",
             "pytorch.release, row 16.python"},
        Case{", some = true,", ", some = 1,", "pytorch.gfx, row 5.some"},
        Case{"oldest_torch = \"2.5\"", "", "oldest_torch"},
        Case{"download = 192_300_000", "download = \"much\"", "room.need, row 3.download"}}) {
    std::string text = good;
    const size_t at = text.find(one.was);
    ASSERT_NE(at, std::string::npos) << one.was;
    text.replace(at, std::string(one.was).size(), one.becomes);
    try {
      Compatibility::parse(text, "newer.toml");
      ADD_FAILURE() << one.becomes << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::format);
      EXPECT_THAT(error.what(), HasSubstr(one.said)) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("newer.toml")) << error.what();
    }
  }
}

TEST(Compatibility, IsTakenFromANewerFile) {
  const auto folder = ::athanor::testing::TempFolder();
  const auto file = folder.path() / "newer.toml";
  std::string text =
      read_text_file(std::filesystem::path(ATHANOR_SOURCE_DIR) / "data" / "compatibility.toml");
  const std::string row = "  { version = \"2.15\", python";
  const std::string date = "date = \"" + Compatibility::built_in().date + "\"";
  text.replace(text.find(date), date.size(), "date = \"2027-03-01\"");
  text.insert(text.find(row),
              "  { version = \"2.14\", python = [\"3.10\", \"3.15\"], cuda = [\"13.2\"] },\n");
  text.replace(text.find(row), row.size(), "  { version = \"2.99\", python");
  write_file_atomically(file, text);
  Compatibility::use(file.string());
  EXPECT_EQ(Compatibility::known().pytorch.back().version, version("2.99"));
  EXPECT_EQ(Compatibility::known().file, file.string());
  const int64_t april = 1806537600;  // 2027-04-01
  EXPECT_EQ(Compatibility::known().age_in_days(april), 31);
  EXPECT_THAT(data_text(april, Language::en), HasSubstr("newer.toml, of 2027-03-01 (31 days old)"));
  EXPECT_THAT(data_text(april, Language::en), HasSubstr("PyTorch 2.99"));
  EXPECT_THROW(Compatibility::use((folder.path() / "none.toml").string()), Error);
  EXPECT_THROW(Compatibility::use("/dev/zero"), Error);
  EXPECT_EQ(Compatibility::known().date, "2027-03-01");  // still the data from before the errors
  Compatibility::use_built_in();
  EXPECT_EQ(Compatibility::known().date, Compatibility::built_in().date);
  EXPECT_EQ(Compatibility::built_in().file, "");
}

TEST(Compatibility, SaysHowOldItIs) {
  const Compatibility& known = Compatibility::built_in();
  EXPECT_FALSE(known.age_in_days(0));  // the clock is wrong
  EXPECT_THAT(data_text(0, Language::en), HasSubstr("data of " + known.date + ", which"));
  const int64_t far = 2000000000;  // 2033
  EXPECT_GT(*known.age_in_days(far), 2000);
  EXPECT_THAT(data_text(far, Language::en), HasSubstr("That is old"));
  EXPECT_THAT(data_text(far, Language::zh), HasSubstr("较旧"));
  EXPECT_EQ(data_json(0).at("age_days"), nullptr);
  EXPECT_EQ(data_json(far).at("age_days"), *known.age_in_days(far));
  EXPECT_EQ(data_json(far).at("date"), known.date);
  EXPECT_EQ(data_json(far).at("tables").size(), 9U);
}

TEST(Language, IsChosenByTheLocale) {
  EXPECT_EQ(language_of_locale("zh_CN.UTF-8"), Language::zh);
  EXPECT_EQ(language_of_locale("zh"), Language::zh);
  EXPECT_EQ(language_of_locale("de_DE.UTF-8"), Language::en);
  EXPECT_EQ(language_of_locale("C"), Language::en);
  EXPECT_EQ(language_of_locale(""), Language::en);
}

TEST(Placeholders, AreFilled) {
  EXPECT_EQ(fill("a {b} ${c} {d e} {", {{"b", "1"}, {"c", "2"}}), "a 1 ${c} {d e} {");
  EXPECT_EQ(fill("{x}", {{"x", "{y}"}, {"y", "no"}}), "{y}");  // values are not filled in again
  EXPECT_TRUE(has_placeholder("a {b}"));
  EXPECT_FALSE(has_placeholder("${b} {} { b }"));
}

TEST(Printable, LeavesOutWhatActsOnTerminals) {
  EXPECT_EQ(printable("a\x1b[31mb\tc\r\n"), "a[31mb c ");
  EXPECT_EQ(printable("中文 é ✓ 🔥"), "中文 é ✓ 🔥");
  EXPECT_EQ(printable("\xff\xc0\x80\xed\xa0\x80\xe4\xb8"), "????????");
  EXPECT_EQ(printable("\xc2\x9b"), "??");  // a control character of C1
}

}  // namespace
}  // namespace athanor::doctor
