#include "athanor/doctor/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "athanor/base/error.h"
#include "athanor/base/toml.h"
#include "athanor/doctor/command.h"
#include "athanor/doctor/data.h"

namespace athanor::doctor {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 9> all_layers = {
    "hardware", "kernel", "driver", "access", "runtime", "library", "environment", "python", "goal"};

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::format, what, where);
}

// Every key of a table must be known: a misspelt one would otherwise be ignored silently.
void know_keys(const Json& table, const std::set<std::string>& known, const std::string& where) {
  if (!table.is_object()) refuse(where, "a table is expected");
  for (const auto& [key, value] : table.items())
    if (known.count(key) == 0) refuse(where, fmt::format("unknown field '{}'", key));
}

std::string text_of(const Json& table, const char* key, const std::string& where, bool required = true) {
  if (!table.contains(key)) {
    if (required) refuse(where, fmt::format("'{}' is missing", key));
    return {};
  }
  if (!table[key].is_string()) refuse(where, fmt::format("'{}' must be a text", key));
  auto text = table[key].get<std::string>();
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (text.empty()) refuse(where, fmt::format("'{}' is empty", key));
  return text;
}

bool flag_of(const Json& table, const char* key, const std::string& where) {
  if (!table.contains(key)) return false;
  if (!table[key].is_boolean()) refuse(where, fmt::format("'{}' must be true or false", key));
  return table[key].get<bool>();
}

std::vector<std::string> list_of(const Json& table, const char* key, const std::string& where) {
  std::vector<std::string> list;
  if (!table.contains(key)) return list;
  if (!table[key].is_array()) refuse(where, fmt::format("'{}' must be a list", key));
  for (const Json& one : table[key]) {
    if (!one.is_string()) refuse(where, fmt::format("'{}' must be a list of texts", key));
    list.push_back(one.get<std::string>());
  }
  return list;
}

Fix fix_of(const Json& table, const std::string& where) {
  know_keys(table, {"id", "en", "zh", "run", "sudo", "relogin", "reboot", "action", "when"}, where);
  Fix fix;
  fix.id = text_of(table, "id", where);
  fix.text = {text_of(table, "en", where), text_of(table, "zh", where)};
  fix.commands = list_of(table, "run", where);
  for (const std::string& command : fix.commands)
    for (const std::string& name : placeholders(command))
      if (!may_stand_in_commands(name))
        refuse(where,
               fmt::format("no rule of command.cpp says what may stand for {{{}}} in a command", name));
  fix.sudo = flag_of(table, "sudo", where);
  fix.relogin = flag_of(table, "relogin", where);
  fix.reboot = flag_of(table, "reboot", where);
  fix.action = text_of(table, "action", where, false);
  if (table.contains("when")) {
    if (!table["when"].is_object()) refuse(where, "'when' must be a table");
    for (const auto& [name, value] : table["when"].items()) {
      if (!value.is_string()) refuse(where, "'when' must have texts");
      fix.when[name] = value.get<std::string>();
    }
  }
  return fix;
}

Check check_of(const Json& table, const std::string& file) {
  Check check;
  check.id = text_of(table, "id", file);
  const std::string where = file + ": " + check.id;
  know_keys(table, {"id", "layer", "severity", "needs", "source", "date", "en", "zh", "fix"}, where);
  check.layer = text_of(table, "layer", where);
  if (std::find(all_layers.begin(), all_layers.end(), check.layer) == all_layers.end())
    refuse(where, fmt::format("unknown layer '{}'", check.layer));
  const std::string severity = table.contains("severity") ? text_of(table, "severity", where) : "error";
  if (severity == "warning")
    check.severity = Severity::warning;
  else if (severity == "goal")
    check.severity = Severity::goal;
  else if (severity != "error")
    refuse(where, fmt::format("unknown severity '{}'", severity));
  check.needs = list_of(table, "needs", where);
  check.source = text_of(table, "source", where);
  check.date = text_of(table, "date", where);
  for (const auto& [language, title, why] :
       {std::tuple{"en", &check.title.en, &check.why.en}, std::tuple{"zh", &check.title.zh, &check.why.zh}}) {
    if (!table.contains(language)) refuse(where, fmt::format("texts in '{}' are missing", language));
    know_keys(table[language], {"title", "why"}, where);
    *title = text_of(table[language], "title", where);
    *why = text_of(table[language], "why", where);
  }
  if (table.contains("fix")) {
    if (!table["fix"].is_array()) refuse(where, "'fix' must be a list of tables");
    for (const Json& fix : table["fix"]) check.fixes.push_back(fix_of(fix, where));
  }
  return check;
}

size_t layer_index(const Check& check) {
  return static_cast<size_t>(std::find(all_layers.begin(), all_layers.end(), check.layer) -
                             all_layers.begin());
}

// Ordered by layer, then by needs, then by position in the files.
std::vector<Check> in_order(std::vector<Check> all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Check& a, const Check& b) { return layer_index(a) < layer_index(b); });
  std::set<std::string> known, placed;
  for (const Check& check : all)
    if (!known.insert(check.id).second) refuse(check.id, "two checks have this id");
  for (const Check& check : all)
    for (const std::string& need : check.needs)
      if (known.count(need) == 0) refuse(check.id, fmt::format("needs '{}', which is not a check", need));
  std::vector<Check> ordered;
  while (ordered.size() < known.size()) {
    const auto next = std::find_if(all.begin(), all.end(), [&](const Check& check) {
      return placed.count(check.id) == 0 &&
             std::all_of(check.needs.begin(), check.needs.end(),
                         [&](const std::string& need) { return placed.count(need) > 0; });
    });
    if (next == all.end()) refuse("checks", "the checks need each other in a circle");
    placed.insert(next->id);
    ordered.push_back(*next);
  }
  return ordered;
}

}  // namespace

std::span<const std::string_view> layers() { return all_layers; }

std::vector<Check> parse_checks(const std::vector<std::pair<std::string, std::string>>& files) {
  std::vector<Check> all;
  for (const auto& [name, text] : files) {
    const Json document = parse_toml(text, name);
    know_keys(document, {"check"}, name);
    if (!document.contains("check") || !document["check"].is_array()) refuse(name, "[[check]] is missing");
    for (const Json& table : document["check"]) all.push_back(check_of(table, name));
  }
  return in_order(std::move(all));
}

const std::vector<Check>& checks() {
  static const std::vector<Check> all = parse_checks(data_files("checks/"));
  return all;
}

}  // namespace athanor::doctor
