// athanor doctor --fix
#pragma once
#include "athanor/doctor/diagnosis.h"
#include "athanor/doctor/facts.h"
#include "athanor/doctor/records.h"
#include "athanor/doctor/report.h"

namespace athanor::cli {

struct FixOptions {
  bool dry_run = false, yes = false;
};

/// Goes through the problems and warnings in their order. Does what is possible in the user's own files (asks
/// first, unless `yes`), checks whether that has helped, and undoes it if not; prints the commands for the
/// rest. The exit code: 0 if nothing is left, else 1.
int fix_problems(const doctor::Diagnosis& diagnosis, const doctor::Facts& facts, doctor::Records& records,
                 const doctor::Style& style, const FixOptions& options);

}  // namespace athanor::cli
