// Packages of one Python environment that contradict each other: each package's requirements, compared with
// what is installed. pip checks requirements only while it installs.
#pragma once
#include <string>
#include <vector>

#include "athanor/device/machine.h"
#include "athanor/doctor/facts/python.h"
#include "athanor/doctor/pep508.h"

namespace athanor::doctor {

struct Contradiction {
  const Distribution* by = nullptr;
  std::string requirement;              // "numpy<2", without its marker
  std::string version_wanted;           // the same for pip: "numpy<2", without spaces
  std::string name;                     // of the required package
  const Distribution* there = nullptr;  // nullptr: not installed
  bool severe = false;                  // a framework cannot work like this
  std::vector<std::string> others;      // packages that need other versions of it than `by`

  std::string found() const;  // "numpy 2.1.0", or "numpy: -"
};

struct Contradictions {
  std::vector<Contradiction> found;  // severe ones first
  std::vector<std::string> unknown;  // "PACKAGE: REQUIREMENT": possible contradictions
};

Contradictions contradictions(const Machine& machine, const PythonEnvironment& environment);

/// The values of variables in markers, as far as the machine's files show them.
MarkerValues marker_values(const Machine& machine, const PythonEnvironment& environment);

}  // namespace athanor::doctor
