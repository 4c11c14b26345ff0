#include "athanor/device/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "athanor/base/os/child.h"
#include "athanor/base/text.h"
#include "athanor/device/kfd.h"

namespace athanor {
namespace {

using nlohmann::json;

constexpr double seconds_for_hwloc = 8;

void read_nodes(const Machine& machine, Topology& topology) {
  os::Child child([root = machine.root().string()] { return ask_hwloc(root); });
  const os::ChildAnswer answer = child.wait(seconds_for_hwloc);
  if (!answer.problem.empty()) {
    topology.problem = "hwloc " + answer.problem;
    return;
  }
  const json said = json::parse(answer.text, nullptr, false);
  if (!said.is_object() || said.contains("error")) {
    topology.problem = said.is_object() ? said.value("error", "") : "hwloc's answer makes no sense";
    return;
  }
  for (const json& one : said.value("nodes", json::array()))
    topology.nodes.push_back({one.value("index", int64_t{0}), one.value("memory_bytes", uint64_t{0}),
                              one.value("l3_bytes", uint64_t{0}), one.value("cores", int64_t{0}),
                              one.value("threads", int64_t{0}), one.value("cpus", ""),
                              one.value("sockets", std::vector<int64_t>())});
}

// "0000:03:00.0"
bool is_address(const std::string& name) {
  return name.size() >= 12 && name[name.size() - 2] == '.' && name[name.size() - 5] == ':' &&
         name[name.size() - 8] == ':';
}

void read_places(const Machine& machine, const Detection& detection, Topology& topology) {
  for (size_t i = 0; i < detection.devices.size(); ++i) {
    const FoundDevice& device = detection.devices[i];
    DevicePlace place;
    place.device = i;
    place.address = device.text("pci_address");
    if (place.address.empty()) continue;
    place.node = device.number("numa_node", topology.nodes.size() == 1 ? topology.nodes[0].index : -1);
    place.link = device.text("pcie_link");
    place.best_link = device.text("pcie_link_best");
    const std::string path = machine.resolve("/sys/bus/pci/devices/" + place.address).value_or("");
    for (std::string& part : split(path, '/'))
      if (is_address(part) && part != place.address) place.bridges.push_back(std::move(part));
    topology.places.push_back(std::move(place));
  }
}

size_t device_at(const Detection& detection, const std::string& address, int64_t partition = 0) {
  for (size_t i = 0; i < detection.devices.size(); ++i)
    if (detection.devices[i].text("pci_address") == address &&
        detection.devices[i].number("partition") == partition)
      return i;
  return detection.devices.size();
}

// KFD lists the links of each of its numbered nodes.
void read_xgmi(const Machine& machine, const Detection& detection, Topology& topology) {
  std::map<uint64_t, size_t> devices;  // by KFD's number
  const std::vector<KfdNode> nodes = kfd_gpus(machine);
  for (const KfdNode& node : nodes)
    if (const size_t device = device_at(detection, node.pci(), node.partition());
        device < detection.devices.size())
      devices[static_cast<uint64_t>(node.index)] = device;
  constexpr uint64_t xgmi = 11;  // HSA_IOLINK_TYPE_XGMI
  for (const KfdNode& node : nodes) {
    const auto found = devices.find(static_cast<uint64_t>(node.index));
    if (found == devices.end()) continue;
    const size_t device = found->second;
    for (const std::string& file : machine.glob(node.folder + "/io_links/*/properties")) {
      const auto link = parse_kfd_properties(machine.read(file).value_or(""));
      const auto type = link.find("type"), to = link.find("node_to"), speed = link.find("max_bandwidth");
      if (type == link.end() || type->second != xgmi || to == link.end()) continue;
      const auto other = devices.find(to->second);
      if (other == devices.end() || other->second <= device) continue;                         // each once
      const double gb_s = speed == link.end() ? 0 : static_cast<double>(speed->second) / 1e3;  // from MB/s
      topology.links.push_back({device, other->second, "XGMI", 0, gb_s});
    }
  }
}

// Reads what NVML reported about each GPU's links.
void read_nvlink(const Detection& detection, Topology& topology) {
  std::vector<size_t> on_switch;
  for (size_t i = 0; i < detection.devices.size(); ++i) {
    int64_t to_switches = 0;
    for (const auto& [address, count] : detection.devices[i].nvlinks) {
      const size_t other = device_at(detection, address);
      if (other == detection.devices.size())
        to_switches += count;
      else if (other > i)
        topology.links.push_back({i, other, "NVLink", count, 0});
    }
    if (to_switches > 0) on_switch.push_back(i);
  }
  for (size_t i = 0; i < on_switch.size(); ++i)
    for (size_t j = i + 1; j < on_switch.size(); ++j)
      topology.links.push_back({on_switch[i], on_switch[j], "NVSwitch", 0, 0});
}

}  // namespace

Topology read_topology(const Machine& machine, const Detection& detection) {
  Topology topology;
  read_nodes(machine, topology);
  read_places(machine, detection, topology);
  read_xgmi(machine, detection, topology);
  read_nvlink(detection, topology);
  return topology;
}

nlohmann::ordered_json to_json(const Topology& topology) {
  using Json = nlohmann::ordered_json;
  Json nodes = Json::array(), places = Json::array(), links = Json::array();
  for (const MemoryNode& node : topology.nodes)
    nodes.push_back({{"index", node.index},
                     {"memory_bytes", node.memory_bytes},
                     {"l3_bytes", node.l3_bytes},
                     {"cores", node.cores},
                     {"threads", node.threads},
                     {"cpus", node.cpus},
                     {"sockets", node.sockets}});
  for (const DevicePlace& place : topology.places)
    places.push_back({{"device", place.device},
                      {"node", place.node},
                      {"address", place.address},
                      {"bridges", place.bridges},
                      {"link", place.link},
                      {"best_link", place.best_link}});
  for (const PeerLink& link : topology.links)
    links.push_back(
        {{"a", link.a}, {"b", link.b}, {"kind", link.kind}, {"count", link.count}, {"gb_s", link.gb_s}});
  Json json{{"nodes", std::move(nodes)}, {"places", std::move(places)}, {"links", std::move(links)}};
  if (!topology.problem.empty()) json["problem"] = topology.problem;
  return json;
}

}  // namespace athanor
