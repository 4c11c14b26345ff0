// A redacted description of a machine and what was found on it, for a bug report.
#pragma once
#include <string>

#include "athanor/doctor/diagnosis.h"
#include "athanor/doctor/facts.h"

namespace athanor::doctor {

/// The files on which diagnoses are based, redacted, in the form of the tests' machines (tests/machines): the
/// recipient can unpack it and run `athanor doctor --root`. The report is in /report.json.
///
/// It contains no names, host names, serials, MAC and IP addresses or UUIDs (redact.h), and no start files or
/// variables except those that matter to GPU programs.
std::string make_bundle(const Diagnosis& diagnosis, const Facts& facts);

}  // namespace athanor::doctor
