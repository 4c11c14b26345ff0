#include "athanor/backends/cpu/cpu_info.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "athanor/backends/cpu/loops/loop_kernel.h"
#include "athanor/base/os/memory.h"
#include "athanor/base/text.h"
#include "athanor/base/threads.h"

#if ATHANOR_ONEDNN
#include "athanor/backends/cpu/onednn/candidates.h"
#endif
#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

namespace athanor::cpu {
namespace {

Property processor_name() {
#if defined(__x86_64__) && defined(__GNUC__)
  unsigned words[12] = {};
  if (__get_cpuid_max(0x80000000, nullptr) >= 0x80000004) {
    for (unsigned i = 0; i < 3; ++i)
      __get_cpuid(0x80000002 + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]);
    char text[sizeof words + 1] = {};
    std::memcpy(text, words, sizeof words);
    std::string name = text;
    name.erase(0, name.find_first_not_of(' '));
    name.erase(name.find_last_not_of(' ') + 1);
    if (!name.empty()) return {name, "cpuid"};
  }
#endif
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos)
      return {line.substr(line.find(": ") + 2), "/proc/cpuinfo"};
  return {"CPU", "unknown"};
}

std::map<std::string, Property> caches() {
  std::map<std::string, Property> all;
  for (int index = 0;; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    std::string level, type, size;
    std::ifstream(folder + "level") >> level;
    std::ifstream(folder + "type") >> type;
    std::ifstream(folder + "size") >> size;
    if (level.empty() || size.empty()) return all;
    if (size.back() == 'K') size = format_bytes(std::stoull(size) << 10);
    if (type != "Instruction") all["L" + level + " cache"] = {size, "sysfs"};
  }
}

}  // namespace

DeviceInfo describe_cpu(Device device) {
  // Read once: each op that is compiled asks for the device.
  static const Property name = processor_name();
  static const std::map<std::string, Property> sizes = caches();
  DeviceInfo info{device, {}, "cpu", 0, sizes};
  const unsigned cores = std::thread::hardware_concurrency();
  info.name = fmt::format("{}, {} core{}", name.value, cores, cores == 1 ? "" : "s");
  info.properties["processor"] = name;
  info.properties["cores"] = {std::to_string(cores), "operating system"};
  const std::string helping =
      part_time_threads() > 0 ? fmt::format(", and {} part of the time", part_time_threads()) : "";
  info.properties["threads"] = {std::to_string(cpu_threads()) + helping,
                                "set_cpu_threads, or the process's affinity"};
  info.properties["vector instructions"] = {LoopKernel::isa(), "run-time detection"};
  const os::MemorySize memory = os::memory_size();
  info.memory_bytes = memory.total;
  if (memory.total > 0) info.properties["memory"] = {format_bytes(memory.total), memory.source};
#if ATHANOR_ONEDNN
  info.properties["oneDNN"] = {onednn_version(), "dnnl_version"};
#else
  info.properties["oneDNN"] = {"not built in", "build option ATHANOR_ONEDNN"};
  info.properties["note"] = {
      "built without oneDNN: convolutions and products run in Athanor's own kernels, most of which are "
      "slower",
      "build option ATHANOR_ONEDNN"};
#endif
  info.environment = {"vector instructions", "threads", "oneDNN"};
  return info;
}

}  // namespace athanor::cpu
