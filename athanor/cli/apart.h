// Measuring and testing in child processes: a device that hangs, or whose driver crashes, costs what was left
// to do with it, and nothing of the others.
#pragma once
#include <string>
#include <vector>

#include "athanor/runtime/memory_test.h"
#include "athanor/runtime/probe.h"

namespace athanor::cli {

struct ProbedApart {
  std::vector<Measurement> measurements;  // those that a hang or crash cost say so
  std::string problem;                    // why the device could not be measured at all; "" when it could
};

/// A part that hangs or crashes is given up, and the next ones measured by another child, until too many have
/// failed. `patience`: seconds without progress after which a child counts as hung.
ProbedApart probe_apart(const std::string& device, double patience, const ProbeProgress& say);

struct TestedApart {
  MemoryReport report;
  std::string problem;  // why it gave no report; "" when it did
};

/// `options` without `disturb`; its progress is told here.
TestedApart test_memory_apart(const std::string& device, double patience, const MemoryTestOptions& options);

}  // namespace athanor::cli
