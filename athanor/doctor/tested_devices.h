// The results of devices' self-tests.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "athanor/doctor/probe.h"

namespace athanor::doctor {

/// The result of a device's examination.
struct SelfTested {
  std::string device, name;        // "opencl:0", and its driver's name for it
  int64_t results = 0;             // how many were compared
  std::vector<std::string> wrong;  // a line each; or what happened to the child, if it gave no answer
  bool late = false;               // it said nothing for minutes
};
/// The finding from devices' answers: how many results were wrong, and the first few of them.
Finding finding_of(const std::vector<SelfTested>& devices);

}  // namespace athanor::doctor
