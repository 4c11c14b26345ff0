// Requirements of Python packages: "numpy[extra]>=1.21; python_version < '3.12'", as PEP 508 defines them.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/doctor/pep440.h"

namespace athanor::doctor {

struct Requirement {
  std::string name;                 // normalised
  std::vector<std::string> extras;  // normalised
  std::string specifiers;           // ">=1.21,<2"; "" for any, and for a URL
  std::string marker;               // "python_version < '3.12'"; "" for none
  bool url = false;                 // "name @ https://...": its version cannot be known

  /// None for text that PEP 508 does not allow.
  static std::optional<Requirement> parse(std::string_view text);
};

/// Known values of an environment's variables in markers ("python_version").
using MarkerValues = std::map<std::string, std::string, std::less<>>;

/// Whether a marker holds; unknown if it depends on an unknown value or is malformed.
Truth holds(std::string_view marker, const MarkerValues& values);

}  // namespace athanor::doctor
