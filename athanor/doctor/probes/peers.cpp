// The connections between several GPUs of a machine: IOMMU, PCIe switches, NUMA.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "athanor/base/text.h"
#include "athanor/device/pci.h"
#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {
namespace {

std::string pci_folder(const std::string& address) { return "/sys/bus/pci/devices/" + address; }

size_t most_of_a_vendor(const Facts& f) {
  size_t most = 0;
  for (const Vendor vendor : {Vendor::amd, Vendor::nvidia})
    most = std::max(most, computing_gpus(f, vendor).size());
  return most;
}

const AddProbe iommu("system.iommu", [](const Facts& f) {
  const size_t count = most_of_a_vendor(f);
  if (count < 2) return skip();
  // What the kernel does with each device; kernels before 5.11 do not report it.
  bool said = false;
  for (const Gpu* gpu : computing_gpus(f)) {
    const std::string file = pci_folder(gpu->address) + "/iommu_group/type";
    const std::string type = f.machine().read_line(file).value_or("");
    said = said || !type.empty();
    if (type.starts_with("DMA"))
      return fail()
          .seen(file, type)
          .seen("/proc/cmdline", join(f.system().command_line, " "))
          .with("count", std::to_string(count));
  }
  if (said) return pass();
  for (const char* word :
       {"iommu=pt", "amd_iommu=off", "intel_iommu=off", "iommu=off", "iommu.passthrough=1"})
    if (f.system().started_with(word)) return pass();
  const size_t groups = f.machine().list("/sys/kernel/iommu_groups").size();
  return groups == 0 ? pass() : skip().seen("/sys/kernel/iommu_groups", std::to_string(groups));
});

// Two GPUs below one PCIe switch, and its ports that lead to them. Here traffic between the GPUs either goes
// straight from one port to the other, or is sent up.
struct SwitchPeers {
  const Gpu *one, *other;
  std::string bridge, port, other_port;
};

std::vector<SwitchPeers> switch_peers(const Facts& f) {
  std::vector<SwitchPeers> all;
  for (const Vendor vendor : {Vendor::amd, Vendor::nvidia, Vendor::intel}) {
    if (vendor == Vendor::nvidia && !nvswitch_folder(f).empty()) continue;  // they take NVLink
    const auto gpus = computing_gpus(f, vendor);
    for (size_t i = 0; i < gpus.size(); ++i)
      for (size_t j = i + 1; j < gpus.size(); ++j) {
        if (gpus[i]->hive != 0 && gpus[i]->hive == gpus[j]->hive) continue;  // they take XGMI
        const auto a = ports_above(f.machine(), gpus[i]->address),
                   b = ports_above(f.machine(), gpus[j]->address);
        const auto [left, right] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
        // Under different root ports, all traffic goes through the processor, with or without ACS.
        if (left == a.begin() || left == a.end() || right == b.end()) continue;
        all.push_back({gpus[i], gpus[j], *(left - 1), *left, *right});
      }
  }
  return all;
}

std::string iommu_group(const Facts& f, const Gpu& gpu) {
  const std::string target = f.machine().link(pci_folder(gpu.address) + "/iommu_group").value_or("");
  return target.substr(target.rfind('/') + 1);
}

// What is known about a pair. Only root can read a port's register. Everybody can read the IOMMU's groups:
// the kernel puts devices below one switch into different groups only if the switch's ports send everything
// up. In the same group, they may be affected or not; without groups, nothing is known.
Finding look_at(const Facts& f, const SwitchPeers& peers) {
  size_t readable = 4096;
  bool all_read = true;
  for (const std::string& port : {peers.port, peers.other_port}) {
    const std::string file = pci_folder(port) + "/config";
    const std::string config = f.machine().read_bytes(file, 4096).value_or("");
    const AcsControl acs = parse_acs(config);
    if (acs.redirects()) return fail().seen(file, fmt::format("ACSCtl {:#06x}", acs.bits));
    all_read = all_read && acs.state != AcsControl::State::unreadable;
    readable = std::min(readable, config.size());
  }
  if (all_read) return pass();
  const std::string one = iommu_group(f, *peers.one), other = iommu_group(f, *peers.other);
  const auto& words = f.system().command_line;
  const bool made_up = std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word.starts_with("pcie_acs_override=");  // set on patched kernels; groups mean nothing then
  });
  if (!one.empty() && !other.empty() && one != other && !made_up)
    return fail()
        .seen(pci_folder(peers.one->address) + "/iommu_group", one)
        .seen(pci_folder(peers.other->address) + "/iommu_group", other);
  return skip().seen(pci_folder(peers.port) + "/config", fmt::format("{} B of 4096", readable));
}

const AddProbe acs("system.acs", [](const Facts& f) {
  std::set<std::string> ports;
  std::optional<Finding> blocked, unknown;  // the first of each
  const auto pairs = switch_peers(f);
  for (const SwitchPeers& peers : pairs) {
    Finding pair = look_at(f, peers);
    if (pair.status == Status::pass) continue;
    if (pair.status == Status::fail) ports.insert({peers.port, peers.other_port});
    auto& first = pair.status == Status::fail ? blocked : unknown;
    if (first) continue;
    first = std::move(pair);
    first->with("bridge", peers.bridge)
        .with("address", peers.one->address)
        .with("other", peers.other->address);
  }
  const std::vector<std::string> all(ports.begin(), ports.end());
  if (blocked) return blocked->with("ports", join(all, ";")).with("port_words", join(all, " "));
  if (unknown) return *unknown;
  return pairs.empty() ? skip() : pass();
});

const AddProbe numa("system.numa_balancing", [](const Facts& f) {
  const size_t count = most_of_a_vendor(f);
  const std::string file = "/proc/sys/kernel/numa_balancing";
  if (count < 2 || f.machine().glob("/sys/devices/system/node/node*").size() < 2) return skip();
  const auto value = f.machine().read_number(file);
  if (!value || *value == 0) return pass();
  return fail().seen(file, std::to_string(*value)).with("count", std::to_string(count));
});

}  // namespace
}  // namespace athanor::doctor
