#include "athanor/backends/cuda/compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "athanor/backends/gpu/stream_api.h"
#include "athanor/base/text.h"
#include "athanor/device/vendor_libraries.h"
#include "athanor/kernels/compile_apart.h"

namespace athanor::cuda {
namespace {

using gpu::CompilerApi;

constexpr const char* compiler_name = "cuda";

// 12040 for "NVRTC 12.4", as drivers count; 0 if there is none.
int cuda_version_of(const CompilerApi& compiler) {
  int major = 0, minor = 0;
  std::sscanf(compiler.version.c_str(), "NVRTC %d.%d", &major, &minor);
  return major * 1000 + minor * 10;
}

// Later architectures lack sm_90's own instructions (wgmma), so these need the name sm_90a. NVRTC knows it
// from 12.0 on.
std::string own_name(const CompilerApi& compiler, const std::string& architecture) {
  return architecture == "sm_90" && cuda_version_of(compiler) >= 12000 ? "sm_90a" : architecture;
}

// NVRTC knows the units of 8-bit floats, which stand last, since 12.4 (PTX 8.4).
std::span<const MatrixUnit> known_units(const CompilerApi& compiler, std::span<const MatrixUnit> units) {
  if (cuda_version_of(compiler) >= 12040) return units;
  while (!units.empty() && is_float(units.back().input) && size_of(units.back().input) == 1)
    units = units.first(units.size() - 1);
  return units;
}

std::string refused(const CompilerApi& compiler, int driver) {
  const int own = cuda_version_of(compiler);
  if (own <= driver)
    return fmt::format("The driver, of CUDA {}, should: please report it",
                       gpu::release_text(GpuTarget::cuda, driver));
  return fmt::format(
      "The driver, of CUDA {0}, is older than {1}. Update the driver to one of CUDA {2}.{3} or newer, or use "
      "an NVRTC of CUDA {0} or older, in the Python environment that is active: {4}",
      gpu::release_text(GpuTarget::cuda, driver), compiler.version, own / 1000, own % 1000 / 10,
      nvrtc_wheel(driver));
}

std::vector<std::string> supported(const os::Library& library) {
  const auto count = reinterpret_cast<int (*)(int*)>(library.find("nvrtcGetNumSupportedArchs"));
  const auto get = reinterpret_cast<int (*)(int*)>(library.find("nvrtcGetSupportedArchs"));
  int number = 0;
  if (count == nullptr || get == nullptr || count(&number) != 0 || number <= 0) return {};
  std::vector<int> values(static_cast<size_t>(number));
  if (get(values.data()) != 0) return {};
  std::vector<std::string> names;
  for (const int value : values) names.push_back(fmt::format("sm_{}", value));
  return names;
}

CompilerApi load(const std::string& name) {
  const os::Library library({name});
  CompilerApi api;
  if (!library) {
    api.missing = library.error();
    return api;
  }
  int (*version)(int*, int*) = nullptr;
  CompilerApi::Form cubin, ptx;
  gpu::Finder finder(library);
  finder.find(version, "nvrtcVersion")
      .find(api.create, "nvrtcCreateProgram")
      .find(api.compile, "nvrtcCompileProgram")
      .find(api.log_size, "nvrtcGetProgramLogSize")
      .find(api.log, "nvrtcGetProgramLog")
      .find(api.destroy, "nvrtcDestroyProgram")
      .find(api.error_text, "nvrtcGetErrorString")
      .find(cubin.size, "nvrtcGetCUBINSize")
      .find(cubin.get, "nvrtcGetCUBIN")
      .find(ptx.size, "nvrtcGetPTXSize")
      .find(ptx.get, "nvrtcGetPTX");
  if (!finder.lacking().empty()) {
    api.missing = library.name() + " has no " + finder.lacking();
    return api;
  }
  int major = 0, minor = 0;
  version(&major, &minor);
  api.version = fmt::format("NVRTC {}.{}", major, minor);
  api.architectures = supported(library);
  api.forms = {cubin, ptx};
  api.file = name;
  api.apart = compiler_name;  // in one process, threads compile one after another (seen with NVRTC 13.0)
  api.target_apart = [](const CompilerApi& compiler, const std::string& architecture, size_t form) {
    return fmt::format("{} {} {}", architecture, form, compiler.file);
  };
  api.options = [](const std::string& target) {
    return std::vector<std::string>{"--gpu-architecture=" + target, "--std=c++17"};
  };
  api.own_name = own_name;
  api.known_units = known_units;
  api.refused = refused;
  return api;
}

bool compiles_for(const CompilerApi& api, const std::string& architecture) {
  return api.architectures.empty() || architecture.empty() ||
         std::find(api.architectures.begin(), api.architectures.end(), architecture) !=
             api.architectures.end();
}

CompilerApi find(int cuda_version, const std::string& architecture) {
  const Machine machine;
  std::vector<std::string> others;  // versions that do not know the architecture
  std::string damaged;
  for (const std::string& name : nvrtc_names(machine, cuda_version)) {
    CompilerApi api = load(name);
    if (api.missing.empty() && compiles_for(api, architecture)) return api;
    if (api.missing.empty() && std::find(others.begin(), others.end(), api.version) == others.end())
      others.push_back(api.version);
    // A file that exists but cannot be loaded.
    if (damaged.empty() && !api.missing.empty() && name.starts_with('/')) damaged = api.missing;
  }
  const Missing none = missing_nvrtc(machine, cuda_version, architecture);
  CompilerApi api;
  api.missing = none.what;
  api.fix = none.fix;
  if (!others.empty()) {
    api.missing = fmt::format("{} does not compile for {}", join(others), architecture);
    api.fix = fmt::format(
        "Install an NVRTC that does: 12.8 and newer know sm_100 and sm_120, and 13.0 knows none "
        "before sm_75. {}",
        none.fix);
  } else if (!damaged.empty()) {
    api.missing = fmt::format("NVRTC, which compiles kernels for CUDA, cannot be loaded: {}", damaged);
  }
  return api;
}

}  // namespace

// For processes that compile apart. The target is the architecture, the form and the library's file.
[[maybe_unused]] static const bool compiler_registered = register_compiler(
    compiler_name,
    [](const std::string& target, const std::string& source, const std::string& name) -> std::string {
      const std::vector<std::string> words = split(target, ' ');
      if (words.size() < 3) return {};
      static const CompilerApi compiler = load(target.substr(words[0].size() + words[1].size() + 2));
      if (!compiler.missing.empty()) return {};
      const auto form = static_cast<size_t>(std::atoi(words[1].c_str()));
      return gpu::Compilation(compiler, words[0], source, name).best_result(form);
    });

const CompilerApi& compiler_for(int cuda_version, const std::string& architecture) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<const CompilerApi>> known;  // the driver stays the same
  const std::lock_guard lock(mutex);
  auto& found = known[architecture];
  if (!found) found = std::make_unique<const CompilerApi>(find(cuda_version, architecture));
  return *found;
}

}  // namespace athanor::cuda
