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

/// Whether JAX's plugin for "cuda" or "rocm" is there, or a jaxlib that has it, as those before plugins had.
bool has_jax_plugin(const PythonEnvironment& environment, std::string_view kind);

/// With {version}, {environment} and {python}.
Finding finding_of(Status status, const Installed& one);

}  // namespace athanor::doctor
