// Vendors' runtimes and the devices that they list. Each backend registers how to ask its runtime.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace athanor {

/// Answers {"version": "...", "devices": [{...}]}, or {"error": "why there is no answer"}. Called in
/// a child process: it may load any library, and may crash. A device's table has these, as far as known:
///   name, kind, vendor, render_minor (of /dev/dri/renderD128), pci ("0000:03:00.0"), uuid, arch ("gfx1030",
///   "sm_89"), platform, driver, compute_units, wave_width, clock_mhz, memory_clock_mhz, memory_bus_bits,
///   memory_bytes, l2_bytes, local_memory_bytes, f16, f64, driver_version, nvlinks [{to, count}], compiler,
///   unusable (why the backend cannot use it: its compiler is missing)
/// A recorded machine has the same in machine.toml ([[opencl]], ...), or the reason why there is no answer:
/// [runtimes] opencl = "the library is missing".
using AskRuntime = nlohmann::json (*)();

struct Runtime {
  std::string name;     // "opencl"
  std::string backend;  // the backend of these devices; "" for a library that only reports (nvml)
  AskRuntime ask;
};

/// Registers until the program ends; returns true.
bool register_runtime(const Runtime& runtime);
const std::vector<Runtime>& runtimes();

}  // namespace athanor
