// Sightings: what one source reports about one device, before sightings of the same device are combined.
#pragma once
#include <functional>

#include "athanor/device/detect.h"

namespace athanor {

struct Sighting {
  std::string source;
  std::string kind;  // "gpu", "cpu", "accelerator"; "" if the source cannot tell
  std::string name;
  /// These tell devices apart; each may be missing. pci: "0000:03:00.0"; uuid: the vendor's runtimes agree on
  /// it; partition: the part of a partitioned device (MI300X in CPX mode); render_minor: 128 for
  /// /dev/dri/renderD128.
  std::string pci, uuid;
  int64_t partition = 0, render_minor = -1;
  std::vector<std::pair<std::string, Reading>> readings;
  std::map<std::string, int64_t> nvlinks;
  /// For a runtime that a backend uses: the backend's name of the device, "opencl:0".
  std::string device;
  /// Why the backend cannot use it although it lists it: "no NVRTC library (libnvrtc.so), ..."; or "".
  std::string unusable;

  void add(const std::string& property, Value value, std::string meaning = {}) {
    readings.push_back({property, {std::move(value), source, std::move(meaning)}});
  }
  void add(const std::string& property, const std::optional<int64_t>& value, std::string meaning = {}) {
    if (value) add(property, Value(*value), std::move(meaning));
  }
  void add(const std::string& property, const std::optional<std::string>& value) {
    if (value && !value->empty()) add(property, Value(*value));
  }
};

// The sources, most of them in device/sources/. None throws because of the machine.
std::vector<Sighting> sightings_of_kfd(const Machine& machine);
std::vector<Sighting> sightings_of_pci(const Machine& machine);  // with /sys/class/drm and its drivers' files
std::vector<Sighting> sightings_of_nvidia(const Machine& machine);  // /proc/driver/nvidia
std::vector<Sighting> sightings_of_cpu(const Machine& machine);
std::vector<Sighting> sightings_of_wsl(const Machine& machine);  // /dev/dxg
/// Asks libraries, or reads their recorded answers; see runtimes.h.
std::vector<Sighting> sightings_of_runtimes(const Machine& machine, const DetectOptions& options,
                                            std::vector<RuntimeState>& states);

/// Replaces control characters by spaces, because texts of files and drivers are printed on terminals.
std::string printable(std::string text);

/// What /proc/cpuinfo reports. Texts are those of the first processor.
struct CpuInfo {
  int64_t threads = 0, cores = 0, sockets = 0;
  std::string name, vendor, flags;
};
CpuInfo parse_cpuinfo(std::string_view text);

/// Combines all sightings of the same device into one device. Adds the data sheet, explains conflicts, and
/// drops nothing.
std::vector<FoundDevice> merge(const std::vector<Sighting>& sightings, const Machine& machine);
/// Says which backends can use each device, and why not.
void add_backends(std::vector<FoundDevice>& devices, const std::vector<RuntimeState>& runtimes,
                  const Machine& machine);
/// Adds the property "libraries" to devices that CUDA or HIP can use: the libraries of kernels that are
/// installed, and how to install the others. Does nothing for a recorded machine without library folders.
void add_kernel_libraries(std::vector<FoundDevice>& devices, const std::vector<RuntimeState>& runtimes,
                          const Machine& machine);
/// Adds the user's values (overrides.h) with the source "user".
void add_overrides(std::vector<FoundDevice>& devices, const Machine& machine);
std::vector<Danger> find_dangers(const std::vector<FoundDevice>& devices, const Machine& machine);

}  // namespace athanor
