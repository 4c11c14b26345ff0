// The libraries of CUDA and HIP that are loaded while the program runs: their names and folders, and the
// packages that contain them.
#pragma once
#include <string>
#include <vector>

#include "athanor/device/machine.h"

namespace athanor {

/// What to open, best first: names, which the dynamic linker finds, and files that are there in folders that
/// it does not know: those of a toolkit or ROCm, of CUDA_HOME, CUDA_PATH, ROCM_PATH, HIP_PATH and conda, and
/// of pip's packages in the environments on PATH.
std::vector<std::string> cuda_names();
/// Releases that the driver's CUDA ("12.4" as 12040; 0: not known) is new enough for come first.
std::vector<std::string> nvrtc_names(const Machine& machine, int cuda_version = 0);
std::vector<std::string> hip_names(const Machine& machine);
/// Of the same release as the HIP runtime that was loaded or found ("" for none).
std::vector<std::string> hiprtc_names(const Machine& machine, const std::string& hip);

/// These names, and files of them in the folders of CUDA's toolkits and packages, or of ROCm's.
std::vector<std::string> with_cuda_files(const Machine& machine, const std::vector<std::string>& names);
std::vector<std::string> with_rocm_files(const Machine& machine, const std::vector<std::string>& names);

/// The first of `names` that is installed, as files say; "" for none.
std::string find_library(const Machine& machine, const std::vector<std::string>& names);

/// A library that is missing.
struct Missing {
  std::string what;  // "no NVRTC library (libnvrtc.so), which compiles CUDA's kernels"
  std::string fix;   // "In the Python environment ...: pip install ...; or the system's package libnvrtc12"
};
/// `cuda_version` of the driver and `hip`, the runtime, as above.
Missing missing_nvrtc(const Machine& machine, int cuda_version = 0);
Missing missing_hiprtc(const Machine& machine, const std::string& hip = {});

/// What is missing on a recorded machine to compile kernels of "cuda" or "hip"; `what` is "" for nothing, and
/// where that was not recorded.
Missing missing_compiler(const Machine& machine, const std::string& backend, int cuda_version = 0);

/// "pip install nvidia-cuda-nvrtc-cu12": NVRTC as a wheel, that a driver is new enough for.
std::string nvrtc_wheel(int cuda_version);

}  // namespace athanor
