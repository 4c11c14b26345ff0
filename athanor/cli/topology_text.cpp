#include "athanor/cli/topology_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "athanor/base/text.h"

namespace athanor::cli {
namespace {

std::string count_of(int64_t number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

void add_device(std::string& text, const DevicePlace& place, const Detection& detection, bool unicode,
                bool last) {
  const char* branch = unicode ? (last ? "└─" : "├─") : (last ? "`-" : "|-");
  std::string way;
  for (const std::string& bridge : place.bridges) way += bridge + (unicode ? " → " : " > ");
  text += fmt::format("  {} [{}] {}\n", branch, place.device, detection.devices[place.device].name);
  text += fmt::format("  {}     {}{}{}\n",
                      last      ? " "
                      : unicode ? "│"
                                : "|",
                      way, place.address,
                      place.link.empty() ? ""
                                         : fmt::format("  PCIe {}{}", place.link,
                                                       place.best_link.find("GT/s") != std::string::npos &&
                                                               place.best_link != place.link
                                                           ? fmt::format(" (at best {})", place.best_link)
                                                           : ""));
}

void add_devices(std::string& text, const Detection& detection, const Screen& screen,
                 const std::vector<const DevicePlace*>& places) {
  for (const DevicePlace* place : places)
    add_device(text, *place, detection, screen.unicode, place == places.back());
}

}  // namespace

std::vector<LinkGroup> groups_of(const Topology& topology) {
  std::vector<LinkGroup> groups;
  std::set<std::tuple<std::string, size_t, size_t>> linked, done;
  for (const PeerLink& link : topology.links) {
    linked.insert({link.kind, link.a, link.b});
    linked.insert({link.kind, link.b, link.a});
  }
  for (const PeerLink& link : topology.links) {
    if (done.contains({link.kind, link.a, link.b})) continue;
    LinkGroup group{link.kind, {link.a, link.b}, link.count, link.gb_s};
    // Adds devices that are linked with all devices of the group.
    for (const PeerLink& other : topology.links)
      for (const size_t next : {other.a, other.b})
        if (std::find(group.devices.begin(), group.devices.end(), next) == group.devices.end() &&
            std::all_of(group.devices.begin(), group.devices.end(), [&](size_t member) {
              return linked.contains({link.kind, member, next});
            }))
          group.devices.push_back(next);
    std::sort(group.devices.begin(), group.devices.end());
    for (const size_t a : group.devices)
      for (const size_t b : group.devices) done.insert({link.kind, a, b});
    groups.push_back(std::move(group));
  }
  return groups;
}

std::string describe(const LinkGroup& group) {
  std::string text = group.kind + (group.kind == "NVSwitch"   ? ", each reaches each other through switches"
                                   : group.devices.size() > 2 ? ", each with each other"
                                                              : "");
  if (group.count > 0) text += ", " + count_of(group.count, "link");
  if (group.gb_s > 0) text += fmt::format(", {:.0f} GB/s a pair", group.gb_s);
  return text;
}

std::string describe(const MemoryNode& node, const char* dot) {
  std::string text;
  if (!node.sockets.empty())
    text +=
        fmt::format("socket{} {}{}", node.sockets.size() == 1 ? "" : "s", fmt::join(node.sockets, ", "), dot);
  text += fmt::format("{}, {}", count_of(node.cores, "core"), count_of(node.threads, "thread"));
  if (node.memory_bytes > 0) text += fmt::format("{}memory {}", dot, format_bytes(node.memory_bytes));
  if (node.l3_bytes > 0) text += fmt::format("{}L3 {}", dot, format_bytes(node.l3_bytes));
  return text;
}

std::string topology_text(const Topology& topology, const Detection& detection, const Screen& screen) {
  std::string text;
  std::set<size_t> shown;
  for (const MemoryNode& node : topology.nodes) {
    text += fmt::format("Memory node {}  {}\n", node.index, describe(node, screen.unicode ? " · " : "; "));
    std::vector<const DevicePlace*> places;
    for (const DevicePlace& place : topology.places)
      if (place.node == node.index) places.push_back(&place), shown.insert(place.device);
    add_devices(text, detection, screen, places);
  }
  std::vector<const DevicePlace*> elsewhere;
  for (const DevicePlace& place : topology.places)
    if (!shown.contains(place.device)) elsewhere.push_back(&place);
  if (!elsewhere.empty()) text += "Near no memory node that the system knows\n";
  add_devices(text, detection, screen, elsewhere);
  for (const LinkGroup& group : groups_of(topology))
    text += fmt::format("Devices {}: {}\n", fmt::join(group.devices, ", "), describe(group));
  if (!topology.problem.empty()) text += topology.problem + "\n";
  return text;
}

}  // namespace athanor::cli
