// GPUs as doctor's checks and plans look at them: the devices that `athanor detect` lists, in its order and
// with its names.
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
  int64_t part = 0;     // of a device that is cut into several
  Vendor vendor = Vendor::other;
  uint16_t id = 0;          // PCI device id; 0 likewise
  std::string driver;       // bound to it: "amdgpu", "nouveau", ...; "dxg" in WSL, "?" unseen; "" for none
  std::string name;         // as detect calls it
  std::string arch;         // "gfx1030", "sm_89", "acm-g11"; "" where it is not known
  std::string arch_source;  // what said so: a KFD node, the PCI id, a runtime
  bool integrated = false;
  uint64_t memory_bytes = 0;  // as detect says; 0 where nothing says it
  int kfd_node = -1;          // -1: KFD does not list it
  uint64_t hive = 0;          // GPUs with the same one are joined by XGMI; 0 for none
  /// Of /dev/dri/renderD128; "" for none.
  std::string render_node;
  /// What Athanor's --device takes ("opencl:0"); "" where no backend lists it, or none was asked.
  std::string device;
  std::string opencl;            // the same of OpenCL alone: "opencl:0"
  std::string opencl_hidden_by;  // what keeps OpenCL from listing it: "CUDA_VISIBLE_DEVICES=-1"; or ""
  /// "cuda" or "hip" where its runtime lists the GPU, but what compiles kernels for it is missing:
  /// then also what is missing, and what brings it.
  std::string without_compiler, compiler_missing;

  /// A driver of this system runs it: neither none, nor one that gives it to a virtual machine, nor nouveau,
  /// through which nothing here computes.
  bool is_driven() const;
  /// "AMD Radeon RX 6800 XT (gfx1030)"
  std::string title() const;
  /// "PCI 0000:03:00.0", "Windows' GPU", ...
  std::string place() const;
};

std::vector<Gpu> gpus_of(const Detection& detection);

/// "2 x AMD Radeon RX 7900 XTX (gfx1100), Intel Arc A380 (acm-g11)"
std::string counted_titles(const std::vector<Gpu>& gpus);

/// {12, 0} of "sm_120" as 120: major * 10 + minor; 0 for what is none.
int sm_number(std::string_view arch);

}  // namespace athanor::doctor
