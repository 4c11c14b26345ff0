// The compilers of kernels for CUDA and HIP: libraries that drivers do not always include.
#include <algorithm>

#include "athanor/base/text.h"
#include "athanor/device/vendor_libraries.h"
#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {
namespace {

// The newest release of NVRTC that the driver supports ("12" of "CUDA 12.8") and that compiles for the GPU.
std::string nvrtc_release(const Facts& f, const Gpu& gpu) {
  std::string release = "13";
  for (const RuntimeState& state : f.detection().runtimes)
    if (state.name == "cuda" && state.version.starts_with("CUDA 1")) release = state.version.substr(5, 2);
  return needs_old_nvrtc(gpu.arch) ? std::min<std::string>(release, "12") : release;
}

// Finds a GPU that its vendor's runtime lists but for which nothing can be compiled; OpenCL may serve it.
Finding compiler_of(const Facts& f, const char* backend, Vendor vendor) {
  const auto gpus = computing_gpus(f, vendor);
  for (const Gpu* gpu : gpus) {
    if (gpu->without_compiler != backend) continue;
    return (gpu->opencl.empty() ? fail() : warn())
        .seen(backend, gpu->compiler_missing)
        .with("gpu", gpu->title())
        .with("missing", gpu->compiler_missing.substr(0, gpu->compiler_missing.find(". ")))
        .with("cuda", nvrtc_release(f, *gpu));
  }
  return gpus.empty() ? skip() : pass();
}

const AddProbe nvrtc("nvidia.nvrtc", [](const Facts& f) { return compiler_of(f, "cuda", Vendor::nvidia); });
const AddProbe hiprtc("amd.hiprtc", [](const Facts& f) { return compiler_of(f, "hip", Vendor::amd); });

}  // namespace
}  // namespace athanor::doctor
