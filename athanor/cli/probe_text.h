// The results of probes and memory tests, for people and as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "athanor/examine/probe.h"
#include "athanor/train/progress.h"

namespace athanor::cli {

struct ProbedDevice {
  std::string name, device;  // "AMD EPYC", "opencl:0"
  std::vector<Measurement> measurements;
  std::string problem;  // why it could not be measured completely; "" if it could
};

struct ProbeResults {
  std::vector<ProbedDevice> devices;
  std::vector<Shortfall> shortfalls;
};

std::string describe(const ProbeResults& results, const Screen& screen);
nlohmann::ordered_json to_json(const ProbeResults& results);

struct MemoryTest {
  std::string device;    // "": every usable one
  double seconds = 0;    // for each
  double patience = 90;  // seconds without progress until a measurement is given up
  bool json = false;
};

/// Tests the memory of devices and prints the results. Returns the exit code: 0, or 1 if a word was wrong or
/// a device could not be tested. The host's memory is tested once, by the CPU backend.
int test_memories(const Detection& found, const MemoryTest& test);

}  // namespace athanor::cli
