#include "athanor/doctor/fix.h"

#include <fmt/format.h>

#include <filesystem>

#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/doctor/own_files.h"

namespace athanor::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* marker = "# added by athanor doctor";

// The path on this machine's disk for a path of the examined machine. Links are followed inside the root.
fs::path on_disk(const Machine& machine, const std::string& path) {
  const std::string real = machine.resolve(path).value_or(path);
  return machine.root() / fs::path(real).relative_path();
}

std::string with_line(std::string text, const std::string& line) {
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text + line + '\n';
}

// The environment file without earlier lines for a variable, and with this line added.
std::string environment_with(const std::string& text, const std::string& variable, const std::string& line) {
  std::string kept;
  for (const std::string& old : split(text, '\n')) {
    const auto settings = parse_shell(old, "");
    if (old.empty() || (!settings.empty() && settings.front().name == variable)) continue;
    kept += old + '\n';
  }
  if (kept.empty())
    kept =
        "# Variables that `athanor doctor --fix` set. Delete a line to take it back; the shell's start file "
        "reads this.\n";
  return with_line(kept, line);
}

std::vector<Change> variable_changes(const Facts& facts, const std::string& variable,
                                     const std::string& line) {
  const Machine& machine = facts.machine();
  std::vector<Change> changes;
  const OwnFiles own = own_files(facts);
  if (own.environment.empty() || own.start.empty()) return changes;
  const std::string& file = own.environment;
  changes.push_back(
      {Change::Kind::write, file, environment_with(machine.read(file).value_or(""), variable, line), line});
  const std::string &start = own.start, text = machine.read(start).value_or("");
  if (text.find(marker) == std::string::npos) {
    if (machine.exists(start)) changes.push_back({Change::Kind::write, start + ".athanor-backup", text, ""});
    const std::string word = shell_word(file);
    const std::string reading = fmt::format("[ -r {} ] && . {}  {}", word, word, marker);
    changes.push_back({Change::Kind::write, start, with_line(text, reading), reading});
  }
  return changes;
}

}  // namespace

const Offer* automatic(const std::vector<Offer>& offers) {
  for (const Offer& offer : offers)
    if (offer.automatic) return &offer;
  return nullptr;
}

std::vector<Change> changes_of(const Facts& facts, const Result& result, const Offer& offer) {
  const auto value = [&](const char* name) {
    const auto found = result.finding.values.find(name);
    return found == result.finding.values.end() ? std::string() : found->second;
  };
  if (!offer.withheld.empty()) return {};
  const std::string variable = value("variable");
  if (offer.fix->action == "set-variable" && !variable.empty())
    return variable_changes(facts, variable,
                            fmt::format("export {}={}", variable, shell_word(value("value"))));
  if (offer.fix->action == "unset-variable" && !variable.empty())
    return variable_changes(facts, variable, "unset " + variable);
  if (const std::string database = own_files(facts).database;
      offer.fix->action == "clear-cache" && !database.empty())
    return {{Change::Kind::move, database, database + ".damaged",
             fmt::format("mv {0} {0}.damaged", shell_word(database))}};
  return {};
}

Applied::Applied(const Machine& machine, const std::vector<Change>& changes) {
  try {
    for (const Change& change : changes) {
      const fs::path path = on_disk(machine, change.path);
      if (change.kind == Change::Kind::move) {
        const fs::path to = on_disk(machine, change.text);
        std::error_code failed;
        fs::rename(path, to, failed);
        if (failed) throw file_error("move", path, failed);
        undo_.emplace_back([path, to] {
          std::error_code ignored;
          fs::rename(to, path, ignored);
        });
        continue;
      }
      std::error_code failed;
      fs::create_directories(path.parent_path(), failed);
      if (failed) throw file_error("make the folder of", path, failed);
      const bool there = fs::exists(path, failed);
      const std::string before = there ? read_text_file(path) : "";
      write_file_atomically(path, change.text);
      undo_.emplace_back([path, there, before] {
        std::error_code ignored;
        if (there)
          write_file_atomically(path, before);
        else
          fs::remove(path, ignored);
      });
    }
  } catch (...) {
    for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) (*undo)();
    throw;
  }
}

Applied::~Applied() {
  for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) try {
      (*undo)();
    } catch (const std::exception&) {
      // A file that cannot be restored stays as it is; its backup is beside it.
    }
}

}  // namespace athanor::doctor
