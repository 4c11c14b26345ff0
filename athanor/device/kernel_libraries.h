// The vendors' libraries of kernels: their names and folders, and the packages that contain them. They are
// used if they are installed; none is required.
#pragma once
#include <string>
#include <vector>

#include "athanor/device/vendor_libraries.h"

namespace athanor {

struct KernelLibraryFacts {
  std::string name;     // "cuBLASLt"
  std::string backend;  // "cuda", "hip"
  std::string does;     // "products of matrices"
};
/// The libraries of a backend.
std::vector<KernelLibraryFacts> kernel_libraries_of(const std::string& backend);

/// The names and files to try to open, best first, as in vendor_libraries.h. `release`: the release of CUDA
/// or HIP that the library must fit: 12 for a driver of CUDA 12.4, 6 for HIP 6.4; 0: not known.
std::vector<std::string> kernel_library_names(const Machine& machine, const std::string& library,
                                              int release);

/// What is missing if a library is not installed; `what` is "" if it is installed, or if a recorded machine
/// does not tell.
Missing missing_kernel_library(const Machine& machine, const std::string& library, int release);

}  // namespace athanor
