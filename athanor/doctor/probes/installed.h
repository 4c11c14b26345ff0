// A package in the Python environments of a machine, for probes of frameworks.
#pragma once
#include <string_view>
#include <vector>

#include "athanor/doctor/probes/shared.h"
#include "athanor/doctor/version.h"

namespace athanor::doctor {

struct Installed {
  const PythonEnvironment* environment = nullptr;
  const Distribution* package = nullptr;
  Version version;
};

/// Where a package is installed, in a version that can be read.
std::vector<Installed> installed(const Facts& facts, std::string_view name);

/// With {version}, {environment} and {python}.
Finding finding_of(Status status, const Installed& one);

}  // namespace athanor::doctor
