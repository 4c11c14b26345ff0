// The libraries of CUDA and HIP that are loaded while the program runs: their names and folders, and the
// packages that contain them.
#pragma once
#include <string>
#include <vector>

#include "athanor/device/machine.h"

namespace athanor {

/// Libraries to try to open, best first: names for the dynamic linker, and existing files in folders that the
/// linker does not search: those of the CUDA toolkit or ROCm, of CUDA_HOME, CUDA_PATH, ROCM_PATH, HIP_PATH
/// and conda, and of pip's packages in the environments on PATH. CUDA's driver is found by name alone.
std::vector<std::string> cuda_names();
/// Releases that the driver supports come first. `cuda_version`: the driver's CUDA, 12040 for 12.4; 0: not
/// known.
std::vector<std::string> nvrtc_names(const Machine& machine, int cuda_version = 0);
std::vector<std::string> hip_names(const Machine& machine);
/// Only libraries of the same release as `hip`, the file of the HIP runtime; "": of any release.
std::vector<std::string> hiprtc_names(const Machine& machine, const std::string& hip);

/// These names, each followed by existing files of that name in the folders of CUDA's, or ROCm's, toolkits
/// and packages.
std::vector<std::string> with_cuda_files(const Machine& machine, const std::vector<std::string>& names);
std::vector<std::string> with_rocm_files(const Machine& machine, const std::vector<std::string>& names);

/// The file of the first of `names` that is installed; "" if none is. Loads nothing.
std::string find_library(const Machine& machine, const std::vector<std::string>& names);

/// A library that is missing.
struct Missing {
  std::string what;  // "no NVRTC library (libnvrtc.so), which compiles kernels for CUDA"
  std::string fix;   // "In the Python environment ...: pip install ...; or the system's package libnvrtc12"
};
/// `cuda_version`: of the driver; `architecture`: of the GPU ("sm_61"; NVRTC 13 knows none before sm_75), "":
/// any; `hip`: the file of the runtime, as above.
Missing missing_nvrtc(const Machine& machine, int cuda_version = 0, const std::string& architecture = {});
Missing missing_hiprtc(const Machine& machine, const std::string& hip = {});

/// The library that a recorded machine lacks to compile kernels of "cuda" or "hip"; `what` is "" if it lacks
/// none, or if this was not recorded.
Missing missing_compiler(const Machine& machine, const std::string& backend, int cuda_version = 0,
                         const std::string& architecture = {});

/// "pip install nvidia-cuda-nvrtc-cu12": the command for an NVRTC wheel that the driver supports and that
/// compiles for the architecture.
std::string nvrtc_wheel(int cuda_version, const std::string& architecture = {});

/// Whether NVRTC 12 compiles for the architecture and NVRTC 13 does not: from sm_50 to sm_72.
bool needs_old_nvrtc(const std::string& architecture);

}  // namespace athanor
