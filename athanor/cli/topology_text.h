// Text and drawings of how a machine's processors and devices are connected.
#pragma once
#include <string>

#include "athanor/device/topology.h"
#include "athanor/train/progress.h"

namespace athanor::cli {

/// Links between devices, grouped: in a group, all devices have a link of the same kind with each other.
struct LinkGroup {
  std::string kind;
  std::vector<size_t> devices;
  int64_t count = 0;  // of each link, see PeerLink
  double gb_s = 0;
};
std::vector<LinkGroup> groups_of(const Topology& topology);
/// "XGMI, each with each other, 64.0 GB/s a pair"
std::string describe(const LinkGroup& group);

/// "node 0   sockets 0 · 4 cores, 4 threads (0-3) · memory 755 GiB"
std::string describe(const MemoryNode& node, const char* dot);

std::string topology_text(const Topology& topology, const Detection& detection, const Screen& screen);

/// A drawing, with colours for light and dark pages.
std::string topology_svg(const Topology& topology, const Detection& detection);

}  // namespace athanor::cli
