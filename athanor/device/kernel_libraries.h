// The vendors' libraries of kernels, which are used if they are installed: their names and folders, and the
// packages that contain them. None is needed.
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
/// Those of a backend.
std::vector<KernelLibraryFacts> kernel_libraries_of(const std::string& backend);

/// What to open, best first, as in vendor_libraries.h. `release` of the interface, which the library must
/// fit: 12 for a driver of CUDA 12.4, 6 for HIP 6.4; 0: not known.
std::vector<std::string> kernel_library_names(const Machine& machine, const std::string& library,
                                              int release);

/// For one that is not installed; `what` is "" if it is installed, or if a recorded machine does not say.
Missing missing_kernel_library(const Machine& machine, const std::string& library, int release);

}  // namespace athanor
