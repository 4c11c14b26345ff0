// A redacted description of a machine and what was found on it, for a bug report.
#pragma once
#include <string>

#include "athanor/doctor/diagnosis.h"
#include "athanor/doctor/facts.h"

namespace athanor::doctor {

/// The files that diagnoses rest on, redacted, in the form of the tests' machines (tests/machines): so that
/// who gets it can unpack it and run `athanor doctor --root`. The report stands in /report.json.
///
/// Not in it: names, host names, serials, MAC and IP addresses, UUIDs (redact.h), and no start file or
/// variable but those that matter to GPU programs.
std::string make_bundle(const Diagnosis& diagnosis, const Facts& facts);

}  // namespace athanor::doctor
