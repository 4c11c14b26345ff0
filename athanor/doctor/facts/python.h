// Python environments and their packages, read from files. Nothing is imported or run.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/device/machine.h"

namespace athanor::doctor {

/// An installed distribution: NAME-VERSION.dist-info, or the older .egg-info.
struct Distribution {
  std::string name;     // normalised: lower case, '-' for '_' and '.'
  std::string version;  // "2.9.0+cu128"; "" if the folder's name has none
  std::string folder;   // the dist-info or egg-info
};

struct PythonEnvironment {
  std::string prefix;                      // "/home/u/venv"; "/usr" for the system's Python
  std::string kind;                        // "system", "venv", "conda" or "pyenv"
  std::string version;                     // "3.11", from its library folder
  std::vector<std::string> site_packages;  // in Python's search order
  std::vector<Distribution> distributions;
  bool broken = false;  // a venv whose Python is gone
  bool on_path = false;

  /// The first distribution of that name; nullptr for none.
  const Distribution* find(std::string_view name) const;
  std::vector<const Distribution*> all(std::string_view name) const;
  /// "/home/u/venv/bin/python", for use in commands.
  std::string python() const;
};

/// Environments on PATH, in $VIRTUAL_ENV and $CONDA_PREFIX, and in the usual places under the user's home and
/// /opt. The first is the one that `python3` starts.
std::vector<PythonEnvironment> read_pythons(const Machine& machine);

/// How a torch was built.
struct TorchBuild {
  const PythonEnvironment* environment = nullptr;
  std::string version;  // "2.9.0+cu128"
  std::string flavour;  // "cpu", "cu128", "rocm6.4", "xpu"; "" if it is not given
  std::string cuda;     // "12.8"; "" for none
  std::string rocm;     // "6.4"
  std::string folder;   // of the package; "" if it is missing
  std::string source;   // the file that this was read from
};

/// torch in an environment, from its dist-info and torch/version.py; none if it is not installed.
std::optional<TorchBuild> read_torch(const Machine& machine, const PythonEnvironment& environment);

/// The fields in the head of a METADATA file (email headers): names as written, values unfolded.
std::vector<std::pair<std::string, std::string>> parse_metadata(std::string_view text);

/// "Foo_Bar" becomes "foo-bar".
std::string normalized(std::string_view name);

/// "12.8" for "cu128", "11.8" for "cu118"; "" for others.
std::string cuda_of_flavour(std::string_view flavour);

}  // namespace athanor::doctor
