#include "athanor/device/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>

#include "athanor/device/spoken.h"

namespace athanor {
namespace {

// GPUs that share the processor's memory.
bool is_apu(const std::string& arch) {
  static const std::set<std::string> apus = {"gfx700",  "gfx703",  "gfx801",  "gfx810",  "gfx902",  "gfx909",
                                             "gfx90c",  "gfx1013", "gfx1033", "gfx1035", "gfx1036", "gfx1103",
                                             "gfx1150", "gfx1151", "gfx1152", "gfx1153"};
  return apus.contains(arch);
}

const int64_t* as_integer(const Reading& reading) { return std::get_if<int64_t>(&reading.value); }

Reading* by_source(Fact& fact, const std::string& source) {
  if (fact.in_use.source == source) return &fact.in_use;
  const auto found = std::find_if(fact.others.begin(), fact.others.end(),
                                  [&](const Reading& reading) { return reading.source == source; });
  return found == fact.others.end() ? nullptr : &*found;
}

void use(Fact& fact, const std::string& source) {
  for (Reading& other : fact.others)
    if (other.source == source) return std::swap(fact.in_use, other);
}

std::vector<Reading*> readings_of(Fact& fact) {
  std::vector<Reading*> all{&fact.in_use};
  for (Reading& other : fact.others) all.push_back(&other);
  return all;
}

// KFD and DRM count compute units; runtimes may count work-group processors with two units each.
bool counts_units(const Reading& reading) { return reading.source == "kfd" || reading.source == "drm"; }

void explain_cpu(FoundDevice& device, Fact& fact) {
  const int64_t threads = device.number("threads");
  for (Reading* reading : readings_of(fact))
    if (const int64_t* count = as_integer(*reading);
        count != nullptr && reading->meaning.empty() && *count == threads)
      reading->meaning = "hardware threads";
}

constexpr const char* wgp = "work-group processors";

// For devices that only runtimes report. They count work-group processors, unless a setting says otherwise.
void explain_runtimes_only(FoundDevice& device, Fact& fact, const Machine& machine) {
  const Reading* said = by_source(fact, "hip");
  if (said == nullptr) {
    // AMD's own OpenCL counts like HIP; Mesa's counts compute units.
    said = by_source(fact, "opencl");
    if (said == nullptr || device.text("opencl_platform").find("AMD Accelerated") == std::string::npos)
      return;
  }
  if (machine.environment("GPU_ENABLE_WGP_MODE") == "0") return;
  const int64_t* count = as_integer(*said);
  if (count == nullptr || *count <= 0 || *count > 4096) return;
  const int64_t units = 2 * *count;
  const std::string source = said->source;
  for (Reading* reading : readings_of(fact))
    if (const int64_t* number = as_integer(*reading); number != nullptr && 2 * *number == units)
      reading->meaning = wgp;
  fact.others.push_back(fact.in_use);
  fact.in_use = {units, source, "two for each work-group processor"};
  device.properties["launch_mode"].in_use = {std::string("WGP"), source, {}};
}

void explain_rdna(FoundDevice& device, Fact& fact, const Machine& machine) {
  Reading* const counted =
      by_source(fact, "kfd") != nullptr ? by_source(fact, "kfd") : by_source(fact, "drm");
  if (counted == nullptr) return explain_runtimes_only(device, fact, machine);
  const int64_t units = as_integer(*counted) == nullptr ? 0 : *as_integer(*counted);
  for (Reading* reading : readings_of(fact)) {
    const int64_t* count = as_integer(*reading);
    if (count == nullptr || counts_units(*reading) || reading->source == "data sheet") continue;
    const bool halves = 2 * *count == units;
    if (halves) reading->meaning = wgp;
    const bool amds =
        reading->source == "hip" || device.text("opencl_platform").find("AMD") != std::string::npos;
    if ((halves || (*count == units && amds)) && !device.properties.contains("launch_mode"))
      device.properties["launch_mode"].in_use = {std::string(halves ? "WGP" : "CU"), reading->source, {}};
  }
  if (device.properties.contains("launch_mode") && device.text("launch_mode") == "WGP")
    fact.note =
        "Two compute units form a work-group processor, on which kernels are launched: both counts are "
        "right.";
}

// KFD reports 27 for an integrated GPU that has 8 (gitlab.freedesktop.org/drm/amd issue 127).
void correct_apu(FoundDevice& device, Fact& fact) {
  const Reading* kfd = by_source(fact, "kfd");
  if (kfd == nullptr || as_integer(*kfd) == nullptr) return;
  const int64_t units = *as_integer(*kfd);
  if (Reading* drm = by_source(fact, "drm");
      drm != nullptr && as_integer(*drm) != nullptr && *as_integer(*drm) != units) {
    fact.note = fmt::format(
        "KFD says {}, which does not agree with the graphics driver; KFD is known to miscount on "
        "some integrated GPUs.",
        units);
    return use(fact, "drm");
  }
  const Reading* hip = by_source(fact, "hip") != nullptr ? by_source(fact, "hip") : by_source(fact, "opencl");
  if (hip == nullptr || as_integer(*hip) == nullptr || !hip->meaning.empty() || *as_integer(*hip) == units)
    return;
  const std::string source = hip->source;
  const bool rdna = gfx_major(device.text("architecture")) >= 10;
  fact.note = fmt::format("KFD says {}, {} {}{}; KFD is known to miscount on some integrated GPUs.", units,
                          source, *as_integer(*hip), rdna ? " work-group processors (two units each)" : "");
  if (rdna) {
    const int64_t corrected = 2 * *as_integer(*hip);
    by_source(fact, source)->meaning = wgp;
    fact.others.push_back(fact.in_use);
    fact.in_use = {corrected, source, "two for each work-group processor"};
  } else {
    use(fact, source);
  }
}

// Part of the memory is reserved for an integrated GPU, but the GPU may use more.
void explain_shared_memory(FoundDevice& device) {
  if (device.kind == "cpu") {  // also as a device of OpenCL
    if (const auto memory = device.properties.find("memory_bytes"); memory != device.properties.end())
      memory->second.note = "The processor's own memory (unified memory): --offload moves nothing.";
    return;
  }
  const auto integrated = device.properties.find("integrated");
  if (integrated == device.properties.end()) return;
  const bool* const is = std::get_if<bool>(&integrated->second.in_use.value);
  if (is == nullptr || !*is) return;
  auto found = device.properties.find("memory_bytes");
  if (found == device.properties.end()) found = integrated;
  for (Reading* reading : readings_of(found->second)) {
    if (reading->source == "amdgpu") reading->meaning = "set aside for the GPU";
    if (reading->source == "kfd") reading->meaning = "what kernels may use";
  }
  found->second.note = "An integrated GPU: it shares the processor's memory (unified memory).";
}

// Intel's OpenCL counts vector engines; data sheets count Xe-cores, which have 16 of them, or 8 (Xe2).
void explain_xe_cores(FoundDevice& device, Fact& fact) {
  Reading *sheet = by_source(fact, "data sheet"), *engines = by_source(fact, "opencl");
  if (device.text("vendor") != "Intel" || sheet == nullptr || engines == nullptr) return;
  const int64_t *cores = as_integer(*sheet), *counted = as_integer(*engines);
  if (cores == nullptr || counted == nullptr || (*counted != 16 * *cores && *counted != 8 * *cores)) return;
  engines->meaning = "vector engines";
  sheet->meaning = "Xe-cores";
  fact.note = fmt::format("Each Xe-core has {} vector engines: both counts are right.", *counted / *cores);
}

// CUDA reports how much a kernel may request, OpenCL how much it has without a request.
void explain_local_memory(Fact& fact) {
  const Reading *cuda = by_source(fact, "cuda"), *opencl = by_source(fact, "opencl");
  if (cuda == nullptr || opencl == nullptr || as_integer(*cuda) == nullptr ||
      as_integer(*opencl) == nullptr || *as_integer(*cuda) <= *as_integer(*opencl))
    return;
  fact.note = "OpenCL reports what a kernel has; with CUDA it can request more.";
}

}  // namespace

int gfx_major(const std::string& architecture) {
  if (!architecture.starts_with("gfx") || architecture.size() < 6) return 0;
  int major = 0;
  std::from_chars(architecture.data() + 3, architecture.data() + architecture.size() - 2, major);
  return major;
}

int sm_version(const std::string& architecture) {
  int version = 0;
  if (architecture.starts_with("sm_"))
    std::from_chars(architecture.data() + 3, architecture.data() + architecture.size(), version);
  return version;
}

void explain_units(FoundDevice& device, const Machine& machine) {
  const std::string arch = device.text("architecture");
  if (is_apu(arch)) device.properties.try_emplace("integrated", Fact{{true, "architecture", {}}, {}, {}});
  explain_shared_memory(device);
  const auto found = device.properties.find("compute_units");
  if (found == device.properties.end()) return;
  Fact& fact = found->second;
  if (device.kind == "cpu") return explain_cpu(device, fact);
  if (gfx_major(arch) >= 10) explain_rdna(device, fact, machine);
  if (is_apu(arch)) correct_apu(device, fact);
}

void add_features(FoundDevice& device) {
  const std::string arch = device.text("architecture");
  const int gfx = gfx_major(arch), sm = sm_version(arch);
  if (gfx == 0 && sm == 0) return;
  const auto add = [&](const char* property, const Value& value) {
    // The chip's ability comes first; a driver may not let kernels use it.
    Fact& fact = device.properties[property];
    if (!fact.in_use.source.empty()) fact.others.insert(fact.others.begin(), fact.in_use);
    fact.in_use = {value, "architecture", {}};
  };
  const bool mfma = arch == "gfx908" || arch == "gfx90a" || arch == "gfx942" || arch == "gfx950";
  add("f16", gfx >= 9 || sm == 53 || sm >= 60);
  add("bf16", gfx >= 11 || mfma || sm >= 80);
  add("matrix_units", std::string(mfma ? "MFMA" : gfx >= 11 ? "WMMA" : sm >= 70 ? "tensor cores" : "none"));
}

namespace {

// Runtimes round clocks or report boosted ones, but the kernel's own files should agree.
void explain_clock(Fact& clock) {
  const auto of_kernel = [](const std::string& source) {
    return source == "kfd" || source == "amdgpu" || source == "xe" || source == "i915";
  };
  const int64_t* used = as_integer(clock.in_use);
  for (const Reading& other : clock.others)
    if (const int64_t* said = as_integer(other); used != nullptr && said != nullptr && clock.note.empty() &&
                                                 of_kernel(clock.in_use.source) && of_kernel(other.source) &&
                                                 std::abs(*said - *used) * 50 > *used)
      clock.note = "The kernel's files contradict each other here; which of them holds is not known.";
}

}  // namespace

void explain_conflicts(FoundDevice& device) {
  if (const auto units = device.properties.find("compute_units"); units != device.properties.end())
    explain_xe_cores(device, units->second);
  if (const auto local = device.properties.find("local_memory_bytes"); local != device.properties.end())
    explain_local_memory(local->second);
  for (auto& [name, fact] : device.properties) {
    if (name == "pcie_link" || name == "clock_mhz" || name == "memory_clock_mhz") continue;
    const bool memory = name == "memory_bytes", explained = !fact.note.empty();
    for (Reading& other : fact.others) {
      if (!other.meaning.empty() || other.value == fact.in_use.value) continue;
      const bool runtime = other.source == "opencl" || other.source == "cuda" || other.source == "hip";
      if (memory && runtime) {
        other.meaning = "what a program may use";
      } else if (explained) {
        continue;
      } else if (const int64_t* a = as_integer(fact.in_use), *b = as_integer(other);
                 a != nullptr && b != nullptr) {
        fact.note =
            other.source == fact.in_use.source
                ? fmt::format("Its drivers for {} do not agree; the first value counts.",
                              spoken(other.source))
                : fmt::format("{} and {} do not agree; what {} says counts.", spoken(fact.in_use.source),
                              spoken(other.source), spoken(fact.in_use.source));
      } else if (name == "f16" && other.source == "opencl") {
        fact.note = "The chip computes in f16; this OpenCL driver does not let kernels do so.";
      }
    }
  }
  for (const char* clock : {"clock_mhz", "memory_clock_mhz"})
    if (const auto found = device.properties.find(clock); found != device.properties.end())
      explain_clock(found->second);
  explain_links(device);
}

}  // namespace athanor
