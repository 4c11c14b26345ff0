// hipRTC as a compiler of the GPU backend. Names are those of ROCm's hiprtc.h, which need not be installed.
#include "athanor/backends/hip/compiler.h"

#include <fmt/format.h>

#include "athanor/backends/gpu/stream_api.h"
#include "athanor/backends/hip/library.h"
#include "athanor/device/vendor_libraries.h"
#include "athanor/kernels/compile_apart.h"

namespace athanor::hip {

using gpu::CompilerApi;

static constexpr const char* compiler_name = "hip";

static CompilerApi load_compiler() {
  static const os::Library own(hiprtc_names(Machine(), hip_library().name()));
  const os::Library& library = own ? own : hip_library();  // HIP 5.2 and older contain hipRTC
  CompilerApi api;
  int (*version)(int*, int*) = nullptr;
  CompilerApi::Form code;
  gpu::Finder finder(library);
  finder.find(version, "hiprtcVersion")
      .find(api.create, "hiprtcCreateProgram")
      .find(api.compile, "hiprtcCompileProgram")
      .find(api.log_size, "hiprtcGetProgramLogSize")
      .find(api.log, "hiprtcGetProgramLog")
      .find(api.destroy, "hiprtcDestroyProgram")
      .find(api.error_text, "hiprtcGetErrorString")
      .find(code.size, "hiprtcGetCodeSize")
      .find(code.get, "hiprtcGetCode");
  if (!finder.lacking().empty()) {
    const Missing none = missing_hiprtc(Machine(), hip_library().name());
    api.missing = none.what;
    api.fix = none.fix;
    return api;
  }
  int major = 0, minor = 0, runtime = 0;
  version(&major, &minor);
  // hipRTC's own version hardly ever changes; the compiler behind it changes with the runtime.
  reinterpret_cast<int (*)(int*)>(hip_library().find("hipRuntimeGetVersion"))(&runtime);
  api.version =
      fmt::format("hipRTC {}.{} of HIP {}", major, minor, gpu::release_text(GpuTarget::hip, runtime));
  api.forms = {code};
  api.apart = compiler_name;  // HIP 5.2 crashes otherwise; in later versions threads take turns anyway
  api.target_apart = [](const CompilerApi&, const std::string& architecture, size_t) { return architecture; };
  api.refused = [](const CompilerApi&, int) -> std::string {
    return "Runtime and hipRTC should be of the same ROCm: 'athanor doctor' lists what is installed";
  };
  api.options = [](const std::string& target) {
    return std::vector<std::string>{"--offload-arch=" + target, "-O3"};
  };
  return api;
}

const CompilerApi& hip_compiler() {
  static const CompilerApi instance = load_compiler();
  return instance;
}

[[maybe_unused]] static const bool compiler_registered = register_compiler(
    compiler_name,
    [](const std::string& target, const std::string& source, const std::string& name) -> std::string {
      if (!hip_compiler().missing.empty()) return {};
      return gpu::Compilation(hip_compiler(), target, source, name).best_result();
    });

}  // namespace athanor::hip
