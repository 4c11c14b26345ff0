// Measuring and testing in child processes. If a device hangs or its driver crashes, only the rest of this
// device's work is lost.
#pragma once
#include <string>
#include <vector>

#include "athanor/examine/memory_test.h"
#include "athanor/examine/probe.h"

namespace athanor::cli {

struct ProbedApart {
  std::vector<Measurement> measurements;  // measurements that a hang or crash prevented say so
  std::string problem;                    // why the device could not be measured at all; "" if it could
};

/// Gives up a part that hangs or crashes; another child measures the next parts, until too many have failed.
/// `patience`: seconds without progress after which a child counts as hung.
ProbedApart probe_apart(const std::string& device, double patience, const ProbeProgress& say);

struct TestedApart {
  MemoryReport report;
  std::string problem;  // why it gave no report; "" if it did
};

/// `options` without `disturb`. Progress is reported here.
TestedApart test_memory_apart(const std::string& device, double patience, const MemoryTestOptions& options);

}  // namespace athanor::cli
