// Loading a vendor's library.
#pragma once
#include <string>

#include "athanor/backends/gpu/driver.h"
#include "athanor/backends/gpu/stream_api.h"

namespace athanor::gpu {

/// Opens a library of athanor/device/kernel_libraries.h that fits the interface's release. Throws
/// Error(device) if there is none that can be opened.
os::Library load_kernel_library(const std::string& name, int release);

/// Throws Error(device) if the library lacks a function that was looked for.
void require_functions(const Finder& finder, const os::Library& library);

/// Throws Error(device) if the library has no kernels for the device: ROCm's libraries of products would end
/// the program there. The kernels' files lie in `folder` beside the library, or in the folder that the
/// environment variable names.
void require_kernels_for(const Facts& device, const os::Library& library, const std::string& folder,
                         const char* variable);

/// "gfx1100", "sm_86"; "" if the device does not say.
std::string architecture_of(const Facts& device);

/// "13.1.0"
std::string version_text(int major, int minor, int patch);

/// The 86 of "sm_86"; 0 if the device does not say.
int cuda_architecture(const Facts& device);

}  // namespace athanor::gpu
