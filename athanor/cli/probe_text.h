// What probes and memory tests found, for people and as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "athanor/runtime/probe.h"
#include "athanor/train/progress.h"

namespace athanor::cli {

struct ProbedDevice {
  std::string name, device;  // "AMD EPYC", "opencl:0"
  std::vector<Measurement> measurements;
  std::string problem;  // why it could not be measured; "" when it could
};

struct ProbeResults {
  std::vector<ProbedDevice> devices;
  std::vector<Shortfall> shortfalls;
};

std::string describe(const ProbeResults& results, const Screen& screen);
nlohmann::ordered_json to_json(const ProbeResults& results);

/// Tests the memory of every usable device, or of the one that `--device` names, and prints what came of it.
/// The exit code: 0, or 1 when a word was wrong. The host's memory is tested once, by the CPU backend.
int test_memories(const Detection& found, const std::string& device, double seconds, bool json);

}  // namespace athanor::cli
