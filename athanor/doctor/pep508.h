// What a Python package requires: "numpy[extra]>=1.21; python_version < '3.12'", as PEP 508 defines it.
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
  std::string specifiers;           // ">=1.21,<2"; "" for any, and where it is a URL
  std::string marker;               // "python_version < '3.12'"; "" for none
  bool url = false;                 // "name @ https://...": which version that is cannot be known

  /// None for what PEP 508 does not allow.
  static std::optional<Requirement> parse(std::string_view text);
};

/// Values of an environment's variables in markers ("python_version"): those that are known.
using MarkerValues = std::map<std::string, std::string, std::less<>>;

/// Whether a marker holds; unknown if it depends on an unknown value or is malformed.
Truth holds(std::string_view marker, const MarkerValues& values);

}  // namespace athanor::doctor
