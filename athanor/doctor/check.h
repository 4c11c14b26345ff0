// Checks: what can be wrong with a machine, why, and how to fix it. They are data (data/checks/*.toml); only
// deciding whether one fails is code (probe.h).
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/doctor/language.h"

namespace athanor::doctor {

/// One way to fix a problem.
struct Fix {
  std::string id;  // "join-group": the key of its record, together with the check's id
  Text text;       // what it does
  std::vector<std::string> commands;
  bool sudo = false, relogin = false, reboot = false;
  /// What `--fix` can do by itself: "" (nothing), or an action of fix.h ("set-variable", ...).
  std::string action;
  /// Placeholders that must have these values, so that Debian's users read Debian's commands.
  Values when;
};

enum class Severity {
  error,    // something does not work
  warning,  // something works badly, or will stop working
  goal,     // not an error itself: something that people want to work, and that works if its needs hold
};

struct Check {
  std::string id;     // "amd.kfd.permission"
  std::string layer;  // one of `layers`
  Severity severity = Severity::error;
  std::vector<std::string> needs;  // ids: if one of them fails, this check cannot hold
  std::string source, date;        // where and when this problem was documented
  Text title;                      // "You may not open {path}"
  Text why;
  std::vector<Fix> fixes;
};

/// The parts of a machine from the bottom up. Lower parts are fixed first.
std::span<const std::string_view> layers();

/// The checks in data files (name, text), in the order to fix them: by layer, then by needs, then by position
/// in the files. Throws Error(format) for malformed data: unknown fields, a text that a language lacks, a
/// duplicate or missing id, circular needs.
std::vector<Check> parse_checks(const std::vector<std::pair<std::string, std::string>>& files);

/// Athanor's own checks.
const std::vector<Check>& checks();

}  // namespace athanor::doctor
