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

/// The environments where a package is installed in a readable version.
std::vector<Installed> installed(const Facts& facts, std::string_view name);

/// Whether JAX's plugin for "cuda" or "rocm" is there, or an older jaxlib that includes it.
bool has_jax_plugin(const PythonEnvironment& environment, std::string_view kind);

/// A finding with {version}, {environment} and {python}.
Finding finding_of(Status status, const Installed& one);

}  // namespace athanor::doctor
