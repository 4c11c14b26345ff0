// The results of devices' self-tests.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "athanor/doctor/probe.h"

namespace athanor::doctor {

/// What came of a device's examination.
struct SelfTested {
  std::string device, name;        // "opencl:0", and what its driver calls it
  int64_t results = 0;             // that were compared
  std::vector<std::string> wrong;  // a line each; what happened to the child, if it gave no answer
  bool late = false;               // it said nothing for minutes
};
/// The finding that devices' answers make: how many results were wrong, and the first few of them.
Finding finding_of(const std::vector<SelfTested>& devices);

}  // namespace athanor::doctor
