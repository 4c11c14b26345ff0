// GPUs as doctor's checks and plans use them: the devices that `athanor detect` lists, in its order and with
// its names.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/device/detect.h"

namespace athanor::doctor {

enum class Vendor { amd, nvidia, intel, other };

/// "amd", "nvidia", "intel", "other"
const char* to_string(Vendor vendor);

struct Gpu {
  size_t index = 0;     // among the GPUs that detect lists
  std::string address;  // "0000:03:00.0"; "" for one that is not on a PCI bus here (WSL)
  int64_t part = 0;     // the part's number, if a device is cut into several
  Vendor vendor = Vendor::other;
  uint16_t id = 0;          // PCI device id; 0 for one without a PCI bus
  std::string driver;       // bound to it: "amdgpu", "nouveau", ...; "dxg" in WSL, "?" not seen; "" for none
  std::string name;         // the name in detect
  std::string arch;         // "gfx1030", "sm_89", "acm-g11"; "" if it is not known
  std::string arch_source;  // the source of it: a KFD node, the PCI id, a runtime
  bool integrated = false;
  uint64_t memory_bytes = 0;  // as detect reports; 0 if it is not known
  int kfd_node = -1;          // -1: KFD does not list it
  uint64_t hive = 0;          // GPUs with the same number are joined by XGMI; 0 for none
  /// Its /dev/dri/renderD128; "" for none.
  std::string render_node;
  /// Its name for Athanor's --device ("opencl:0"); "" if no backend lists it, or none was asked.
  std::string device;
  std::string opencl;            // the same for OpenCL alone: "opencl:0"
  std::string opencl_hidden_by;  // the reason why OpenCL does not list it: "CUDA_VISIBLE_DEVICES=-1"; or ""
  /// "cuda" or "hip" if its runtime lists the GPU, but the compiler for its kernels is missing; then also the
  /// missing library, and how to get it.
  std::string without_compiler, compiler_missing;

  /// Whether a driver of this system runs it. A driver that gives it to a virtual machine does not count, nor
  /// does nouveau, with which nothing here computes.
  bool is_driven() const;
  /// "AMD Radeon RX 6800 XT (gfx1030)"
  std::string title() const;
  /// "PCI 0000:03:00.0", "Windows' GPU", ...
  std::string place() const;
};

std::vector<Gpu> gpus_of(const Detection& detection);

/// "2 x AMD Radeon RX 7900 XTX (gfx1100), Intel Arc A380 (acm-g11)"
std::string counted_titles(const std::vector<Gpu>& gpus);

/// {12, 0} of "sm_120" as 120: major * 10 + minor; 0 for other names.
int sm_number(std::string_view arch);

}  // namespace athanor::doctor
