// The connections of processors, memory and devices: memory nodes (from hwloc), the PCIe tree, links between
// GPUs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "athanor/device/detect.h"

namespace athanor {

struct MemoryNode {
  int64_t index = 0;  // the operating system's number
  uint64_t memory_bytes = 0, l3_bytes = 0;
  int64_t cores = 0, threads = 0;
  std::string cpus;              // "0-15"
  std::vector<int64_t> sockets;  // the sockets whose cores are in it
};

struct DevicePlace {
  size_t device = 0;    // index into Detection::devices
  int64_t node = -1;    // the nearest memory node; -1: not known
  std::string address;  // "0000:03:00.0"
  /// Bridges between the root port (first) and the device.
  std::vector<std::string> bridges;
  std::string link, best_link;  // the slot's link now and at best: "16.0 GT/s x16"
};

struct PeerLink {
  size_t a = 0, b = 0;  // indices into Detection::devices
  std::string kind;     // "XGMI", "NVLink"; "NVSwitch" for GPUs that are connected through switches
  int64_t count = 0;    // number of links; 0: not known
  double gb_s = 0;      // of all links together, in one direction; 0: not known
};

struct Topology {
  std::vector<MemoryNode> nodes;
  std::vector<DevicePlace> places;  // the devices on the bus
  std::vector<PeerLink> links;
  std::string problem;  // why hwloc gave no answer; "" if it did
};

/// Reads the connections of a machine. Runs hwloc in a child process, on the files under the machine's root.
Topology read_topology(const Machine& machine, const Detection& detection);

nlohmann::ordered_json to_json(const Topology& topology);

/// {"nodes": [...]} as JSON text, by hwloc, from the files under a root ("" or "/": this machine). Changes
/// this process's environment, so call it in a child process.
std::string ask_hwloc(const std::string& root);

}  // namespace athanor
