// Every compute device of a machine, listed once, with what each source reports about it.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "athanor/device/machine.h"

namespace athanor {

using Value = std::variant<bool, int64_t, double, std::string>;

/// What one source reports.
struct Reading {
  Value value;
  /// "kfd", "amdgpu", "drm", "pci", "nvidia", "xe", "i915", "proc", "sysfs", "wsl", "opencl", "cuda", "hip",
  /// "nvml", "PCI id" (data/gpu_ids.toml), "data sheet", "architecture", "files",
  /// "probe", "user"
  std::string source;
  /// What the number means, if it is not what the property's name says: "work-group processors".
  std::string meaning;
};

struct Fact {
  Reading in_use;
  std::vector<Reading> others;
  /// Why sources disagree, or what to know when reading it; may be "".
  std::string note;
};

struct BackendUse {
  std::string backend;  // "cpu", "opencl", "cuda", "hip"
  bool usable = false;
  std::string device;      // its name for --device: "opencl:0"; "" if it is not usable
  std::string reason;      // why it is not usable
  bool not_known = false;  // whether it is usable is not known, because this was not recorded
  /// Its runtime lists the device, but the library that compiles kernels for it is missing.
  bool no_compiler = false;
  /// The setting because of which its runtime does not list the device: "CUDA_VISIBLE_DEVICES=0"; or "".
  std::string hidden_by;
};

struct FoundDevice {
  std::string name;  // "AMD Radeon RX 6800 XT"
  std::string kind;  // "cpu", "gpu", "accelerator"
  /// Whether it is a GPU in WSL: Windows' driver runs it, and no PCI bus has it here.
  bool from_windows = false;
  std::vector<BackendUse> backends;
  /// By property name. Names of numbers end in the unit: _bytes, _mhz, _gb_s (1e9 bytes a second), _tflops.
  std::map<std::string, Fact> properties;
  /// NVLinks (from NVML), by the PCI address of the GPU or switch at their other end.
  std::map<std::string, int64_t> nvlinks;

  /// The value in use; nullptr if no source has one.
  const Value* find(const std::string& property) const;
  int64_t number(const std::string& property, int64_t otherwise = 0) const;
  std::string text(const std::string& property) const;
};

/// A setting that makes devices disappear, fail or look like others.
struct Danger {
  std::string setting;  // "HSA_OVERRIDE_GFX_VERSION=10.3.0"
  std::string what, fix;
};

/// A runtime, and whether it answered.
struct RuntimeState {
  std::string name;  // "opencl", "hip", "cuda", "nvml"
  bool answered = false;
  bool asked = true;  // false: its answers were not recorded, or it was not to be asked
  std::string version, problem;
  std::vector<std::string> settings = {};  // that say which devices it lists: "HIP_VISIBLE_DEVICES=0"
};

struct Detection {
  std::vector<FoundDevice> devices;  // GPUs in the order of the bus, then the CPU
  std::vector<Danger> dangers;
  std::vector<RuntimeState> runtimes;
};

struct DetectOptions {
  /// Whether drivers' libraries are loaded and asked, each in a child process.
  bool ask_runtimes = true;
  double seconds = 5;  // each must answer within this time
};

/// Reads all sources, and never fails because of the machine. Users' values (devices.toml and
/// ATHANOR_DEVICE_*) do not change properties; they are added with the source "user".
Detection detect(const Machine& machine, const DetectOptions& options = {});

/// {"schema": 1, "devices": [{"name", "kind", "backends", "properties": {"compute_units": {"value", "source",
/// "others": [{"source", "value", "meaning"}], "note"}}}], "dangers", "runtimes"}
nlohmann::ordered_json to_json(const Detection& detection);
nlohmann::ordered_json to_json(const Value& value);
/// "72", "16.0 GiB" for a property that ends in _bytes, "yes", ...
std::string to_text(const std::string& property, const Value& value);

}  // namespace athanor
