// The processors: /proc/cpuinfo, caches and memory. All sockets are one device, because kernels run on all of
// them.
#include <fmt/format.h>

#include <charconv>
#include <set>

#include "athanor/base/text.h"
#include "athanor/device/sighting.h"

namespace athanor {
namespace {

// "1024K"
std::optional<int64_t> size_of_cache(const std::string& text) {
  int64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc() || value <= 0 || value > (1 << 30)) return std::nullopt;
  return end.ptr < text.data() + text.size() && *end.ptr == 'M' ? value << 20 : value << 10;
}

void add_caches(Sighting& seen, const Machine& machine) {
  for (const std::string& index : machine.glob("/sys/devices/system/cpu/cpu0/cache/index*")) {
    const auto level = machine.read_number(index + "/level");
    const auto size = size_of_cache(machine.read_line(index + "/size").value_or(""));
    if (level && *level >= 1 && *level <= 4 && size && machine.read_line(index + "/type") != "Instruction")
      seen.readings.push_back({fmt::format("l{}_cache_bytes", *level), {*size, "sysfs", {}}});
  }
}

// "MemTotal:       16316412 kB"
std::optional<int64_t> memory_line(const std::string& meminfo, const std::string& key) {
  for (const std::string& line : split(meminfo, '\n')) {
    if (!line.starts_with(key + ":")) continue;
    const std::string number = trim(line.substr(key.size() + 1));
    int64_t kib = 0;
    const auto end = std::from_chars(number.data(), number.data() + number.size(), kib);
    if (end.ec == std::errc() && kib > 0 && kib < INT64_MAX / 1024) return kib * 1024;
  }
  return std::nullopt;
}

}  // namespace

CpuInfo parse_cpuinfo(std::string_view text) {
  CpuInfo info;
  std::set<std::string> sockets, cores;
  std::string socket;
  for (const std::string& line : split(text, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = trim(line.substr(0, colon)), value = trim(line.substr(colon + 1));
    if (key == "processor") ++info.threads;
    if (key == "model name" && info.name.empty()) info.name = value;
    if (key == "vendor_id" && info.vendor.empty()) info.vendor = value;
    if ((key == "flags" || key == "Features") && info.flags.empty()) info.flags = " " + value + " ";
    if (key == "physical id") sockets.insert(socket = value);
    if (key == "core id") cores.insert(fmt::format("{}/{}", socket, value));
  }
  info.sockets = std::max<int64_t>(1, static_cast<int64_t>(sockets.size()));
  info.cores = cores.empty() ? info.threads : static_cast<int64_t>(cores.size());
  return info;
}

std::vector<Sighting> sightings_of_cpu(const Machine& machine) {
  const CpuInfo info = parse_cpuinfo(machine.read("/proc/cpuinfo", 1 << 24).value_or(""));
  Sighting seen;
  seen.source = "proc";
  seen.kind = "cpu";
  seen.name = info.name.empty() ? "CPU" : info.name;
  if (info.threads > 0) {
    seen.add("compute_units", Value(info.cores), "cores");
    seen.add("threads", Value(info.threads));
    seen.add("sockets", Value(info.sockets));
  }
  if (!info.vendor.empty())
    seen.add("vendor", Value(info.vendor == "AuthenticAMD"   ? "AMD"
                             : info.vendor == "GenuineIntel" ? "Intel"
                                                             : info.vendor));
  std::string vectors;
  for (const char* flag : {"sse4_2", "avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8",
                           "asimd", "sve", "sve2"})
    if (info.flags.find(fmt::format(" {} ", flag)) != std::string::npos)
      vectors += (vectors.empty() ? "" : ", ") + std::string(flag);
  if (!vectors.empty()) seen.add("vector_instructions", Value(vectors));
  if (!info.flags.empty()) seen.add("bf16", Value(info.flags.find("bf16") != std::string::npos));
  const std::string meminfo = machine.read("/proc/meminfo").value_or("");
  seen.add("memory_bytes", memory_line(meminfo, "MemTotal"));
  seen.add("memory_available_bytes", memory_line(meminfo, "MemAvailable"));
  add_caches(seen, machine);
  int64_t nodes = 0;
  for (const std::string& name : machine.list("/sys/devices/system/node"))
    nodes += name.starts_with("node") && name.size() > 4 && name[4] >= '0' && name[4] <= '9' ? 1 : 0;
  if (nodes > 0) seen.readings.push_back({"numa_nodes", {nodes, "sysfs", {}}});
  const auto khz = machine.read_number("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
  if (khz && *khz > 0) seen.readings.push_back({"clock_mhz", {*khz / 1000, "sysfs", {}}});
  return {seen};
}

}  // namespace athanor
