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

/// Goes through the problems and warnings in their order: does what can be done in the user's own files
/// (after asking, unless `yes`), looks again whether that has helped, and takes it back where it has not;
/// prints the commands of the rest. The exit code: 0 when nothing is left, else 1.
int fix_problems(const doctor::Diagnosis& diagnosis, const doctor::Facts& facts, doctor::Records& records,
                 const doctor::Style& style, const FixOptions& options);

}  // namespace athanor::cli
