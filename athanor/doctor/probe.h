// How a check decides whether it holds on a machine.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/doctor/language.h"

namespace athanor::doctor {

class Facts;

enum class Status {
  pass,
  warn,  // not wrong, but worth knowing
  fail,  // for a goal: nothing is installed that could do it
  skip,  // does not apply here; with evidence: applies, but cannot be decided, for the reason in the evidence
};

/// The source of a finding: a file, variable or package, and its words.
struct Evidence {
  std::string source, said;
  bool operator==(const Evidence&) const = default;
};

struct Finding {
  Status status = Status::pass;
  std::vector<Evidence> evidence;
  Values values;  // for the placeholders in the check's texts
  Values words;   // those that may stand in commands, quoted for a shell (command.h)

  /// Added only once: two equal GPUs give the same evidence.
  Finding& seen(std::string source, std::string said) {
    Evidence one{std::move(source), std::move(said)};
    if (std::find(evidence.begin(), evidence.end(), one) == evidence.end())
      evidence.push_back(std::move(one));
    return *this;
  }
  Finding& with(const std::string& name, std::string value) {
    values[name] = std::move(value);
    return *this;
  }
};

inline Finding pass() { return {Status::pass, {}, {}, {}}; }
inline Finding warn() { return {Status::warn, {}, {}, {}}; }
inline Finding fail() { return {Status::fail, {}, {}, {}}; }
inline Finding skip() { return {Status::skip, {}, {}, {}}; }

/// Looks at the machine only through the facts. Never throws because of the machine.
using Probe = Finding (*)(const Facts&);

/// Probes by the id of their check.
const std::map<std::string, Probe, std::less<>>& probes();

/// Adds a probe when the program starts: `const AddProbe kfd("amd.kfd.permission", [](const Facts& f)
/// {...});`
struct AddProbe {
  AddProbe(const char* id, Probe probe);
};

const char* to_string(Status status);

}  // namespace athanor::doctor
