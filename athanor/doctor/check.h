// Checks: what can be wrong with a machine, why, and how to mend it. They are data (data/checks/*.toml); only
// seeing whether one fails is code (probe.h).
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/doctor/language.h"

namespace athanor::doctor {

/// One way to mend a problem.
struct Fix {
  std::string id;  // "join-group": what its record is kept under, with the check's id
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
  goal,     // not wrong in itself: something that people want to work, as long as what it needs does
};

struct Check {
  std::string id;     // "amd.kfd.permission"
  std::string layer;  // one of `layers`
  Severity severity = Severity::error;
  std::vector<std::string> needs;  // ids: where one of them fails, this cannot hold
  std::string source, date;        // where it was read that this happens, and when
  Text title;                      // "You may not open {path}"
  Text why;
  std::vector<Fix> fixes;
};

/// Parts of a machine from the bottom up; what is lower is mended first.
std::span<const std::string_view> layers();

/// The checks of some data files (name, text), in the order to mend them: by layer, what is needed first,
/// then as they stand in the files. Throws Error(format) for what is malformed: unknown fields, a text that
/// is missing in a language, an id that is there twice or not at all, needs that go in a circle.
std::vector<Check> parse_checks(const std::vector<std::pair<std::string, std::string>>& files);

/// The checks that Athanor brings with it.
const std::vector<Check>& checks();

}  // namespace athanor::doctor
