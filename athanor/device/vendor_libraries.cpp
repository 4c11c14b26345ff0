#include "athanor/device/vendor_libraries.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "athanor/base/text.h"
#include "athanor/device/explain.h"

namespace athanor {
namespace {

#ifdef _WIN32
const std::vector<std::string> cuda_libraries = {"nvcuda.dll"};
const std::vector<std::string> nvrtc_libraries = {"nvrtc64_130_0.dll", "nvrtc64_120_0.dll",
                                                  "nvrtc64_112_0.dll"};
const std::vector<std::string> hip_libraries = {"amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"};
const std::vector<std::string> hiprtc_libraries = {"hiprtc0700.dll", "hiprtc0604.dll", "hiprtc0602.dll",
                                                   "hiprtc.dll"};
#else
const std::vector<std::string> cuda_libraries = {"libcuda.so.1"};
const std::vector<std::string> nvrtc_libraries = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                                  "libnvrtc.so"};
const std::vector<std::string> hip_libraries = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                                "libamdhip64.so"};
const std::vector<std::string> hiprtc_libraries = {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5",
                                                   "libhiprtc.so"};
#endif

// 12 for "libnvrtc.so.12", 13 for "nvrtc64_130_0.dll"; 0 if the name has no release.
int release_of(const std::string& name) {
  const std::string file = name.substr(name.rfind('/') + 1);
  const size_t so = file.find(".so."), dll = file.find("64_");
  if (so != std::string::npos) return std::atoi(file.c_str() + so + 4);
  return dll == std::string::npos ? 0 : std::atoi(file.c_str() + dll + 3) / 10;
}

void add_variable(std::vector<std::string>& folders, const Machine& machine, const char* variable,
                  const char* below) {
  if (const auto value = machine.environment(variable); value && value->starts_with('/'))
    folders.push_back(*value + below);
}

// Patterns of the folders in which pip installs packages, for the Pythons on PATH and in usual places.
std::vector<std::string> site_packages(const Machine& machine) {
  std::vector<std::string> prefixes;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) add_variable(prefixes, machine, variable, "");
  for (const std::string& folder : split(machine.environment("PATH").value_or(""), ':'))
    if (folder.starts_with('/') && folder.ends_with("/bin"))
      prefixes.push_back(folder.substr(0, folder.size() - 4));
  if (machine.user().home.starts_with('/')) prefixes.push_back(path_in(machine.user().home, ".local"));
  prefixes.emplace_back("/usr/local");
  std::vector<std::string> all;
  std::set<std::string> seen;
  for (const std::string& prefix : prefixes)
    if (seen.insert(prefix).second)
      for (const char* packages : {"site-packages", "dist-packages"})
        all.push_back(fmt::format("{}/lib/python3*/{}", prefix, packages));
  return all;
}

std::vector<std::string> cuda_folders(const Machine& machine) {
  std::vector<std::string> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    for (const char* below : {"/lib64", "/lib"}) add_variable(folders, machine, variable, below);
  add_variable(folders, machine, "CONDA_PREFIX", "/lib");
  for (const char* folder : {"/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64", "/opt/cuda/lib64"})
    folders.emplace_back(folder);
  for (const std::string& packages : site_packages(machine)) folders.push_back(packages + "/nvidia/*/lib");
  return folders;
}

std::vector<std::string> rocm_folders(const Machine& machine) {
  std::vector<std::string> folders;
  for (const char* variable : {"ROCM_PATH", "HIP_PATH"}) add_variable(folders, machine, variable, "/lib");
  for (const char* folder : {"/opt/rocm/lib", "/opt/rocm-*/lib"}) folders.emplace_back(folder);
  for (const std::string& packages : site_packages(machine))
    for (const char* part : {"/_rocm_sdk_core/lib", "/_rocm_sdk_libraries*/lib"})
      folders.push_back(packages + part);
  return folders;
}

// Each name, then files of that name in folders.
std::vector<std::string> with_files(const Machine& machine, const std::vector<std::string>& names,
                                    const std::vector<std::string>& folders) {
  std::vector<std::string> all;
  for (const std::string& name : names) {
    all.push_back(name);
    for (const std::string& folder : folders)
      for (std::string& file : machine.glob(fmt::format("{}/{}", folder, name)))
        all.push_back(std::move(file));
  }
  return all;
}

struct System {
  std::set<std::string> names;  // its own and those of related systems: "ubuntu", "debian"
  std::string id;
  int version = 0;  // 24 for "24.04"

  bool is(const char* name) const { return names.contains(name); }
};

System read_system(const Machine& machine) {
  System system;
  for (const std::string& line : split(machine.read("/etc/os-release").value_or(""), '\n')) {
    std::string value = line.substr(std::min(line.find('=') + 1, line.size()));
    std::erase(value, '"');
    if (line.starts_with("VERSION_ID=")) system.version = std::atoi(value.c_str());
    if (line.starts_with("ID=")) system.id = value;
    if (line.starts_with("ID=") || line.starts_with("ID_LIKE="))
      for (const std::string& word : split(value, ' ')) system.names.insert(word);
  }
  return system;
}

// The newest release of CUDA whose NVRTC is of use: the driver's, or an older one for old GPUs.
int newest_nvrtc(int cuda_version, const std::string& architecture) {
  constexpr int last_for_old = 12090;
  if (!needs_old_nvrtc(architecture)) return cuda_version;
  return cuda_version == 0 ? last_for_old : std::min(cuda_version, last_for_old);
}

// The package of NVRTC in the distribution or in NVIDIA's repository for it; "" for an unknown distribution.
std::string nvrtc_package(const System& system, int cuda_version, bool old_gpu) {
  const std::string from_nvidia =
      cuda_version == 0 ? "cuda-nvrtc-12-8"
                        : fmt::format("cuda-nvrtc-{}-{}", cuda_version / 1000, cuda_version % 1000 / 10);
  if (system.is("debian")) {
    const bool old = system.id == "debian" ? system.version <= 12 : system.version < 24;
    return old ? "libnvrtc11.2" : "libnvrtc12";
  }
  if (system.is("arch")) return old_gpu ? "" : "cuda";  // it has the newest only
  const bool known = system.is("fedora") || system.is("rhel") || system.is("suse") || system.is("opensuse");
  return known ? from_nvidia + ", from NVIDIA's repository" : "";
}

}  // namespace

std::vector<std::string> cuda_names() { return cuda_libraries; }

std::vector<std::string> nvrtc_names(const Machine& machine, int cuda_version) {
  std::vector<std::string> names = nvrtc_libraries;
  if (const int driver = cuda_version / 1000; driver > 0)
    std::stable_partition(names.begin(), names.end(),
                          [&](const std::string& name) { return release_of(name) <= driver; });
  return with_files(machine, names, cuda_folders(machine));
}

std::vector<std::string> with_cuda_files(const Machine& machine, const std::vector<std::string>& names) {
  return with_files(machine, names, cuda_folders(machine));
}

std::vector<std::string> with_rocm_files(const Machine& machine, const std::vector<std::string>& names) {
  return with_files(machine, names, rocm_folders(machine));
}

std::vector<std::string> hip_names(const Machine& machine) { return with_rocm_files(machine, hip_libraries); }

std::vector<std::string> hiprtc_names(const Machine& machine, const std::string& hip) {
  std::vector<std::string> names = hiprtc_libraries;
  const int release = release_of(hip);
  if (release > 0)
    std::erase_if(
        names, [&](const std::string& name) { return release_of(name) != release && release_of(name) != 0; });
  std::vector<std::string> folders = rocm_folders(machine);
  if (const size_t slash = hip.rfind('/'); slash != std::string::npos)
    folders.insert(folders.begin(), hip.substr(0, slash));
  std::vector<std::string> all = with_files(machine, names, folders);
  // A library in the runtime's folder belongs to it, so it comes first, whatever the linker would find.
  if (hip.find('/') != std::string::npos)
    std::stable_partition(all.begin(), all.end(),
                          [&](const std::string& name) { return name.starts_with(folders.front() + "/"); });
  return all;
}

std::string find_library(const Machine& machine, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name.starts_with('/')) {
      if (machine.exists(name)) return name;
    } else if (const auto found = machine.libraries(name); !found.empty()) {
      return found.front();
    }
  }
  return {};
}

bool needs_old_nvrtc(const std::string& architecture) {
  const int version = sm_version(architecture);
  return version >= 50 && version < 75;
}

std::string nvrtc_wheel(int cuda_version, const std::string& architecture) {
  cuda_version = newest_nvrtc(cuda_version, architecture);
  if (cuda_version >= 13000 || cuda_version == 0) return "pip install nvidia-cuda-nvrtc";
  return cuda_version >= 12000 ? "pip install nvidia-cuda-nvrtc-cu12" : "pip install nvidia-cuda-nvrtc-cu11";
}

Missing missing_nvrtc(const Machine& machine, int cuda_version, const std::string& architecture) {
  const bool old = needs_old_nvrtc(architecture);
  const std::string package =
      nvrtc_package(read_system(machine), newest_nvrtc(cuda_version, architecture), old);
  return {
      old ? fmt::format("no NVRTC library before release 13, which compiles kernels for {}", architecture)
          : "no NVRTC library (libnvrtc.so), which compiles kernels for CUDA",
      fmt::format("In the Python environment that is active: {}{}", nvrtc_wheel(cuda_version, architecture),
                  package.empty() ? "" : fmt::format("; or the system's package {}", package))};
}

Missing missing_hiprtc(const Machine& machine, const std::string& hip) {
  const System system = read_system(machine);
  // The package has hipRTC only for its own release.
  const bool own = system.is("debian") && !machine.exists("/opt/rocm") && release_of(hip) <= 5;
  return {"no hipRTC library (libhiprtc.so), which compiles kernels for HIP",
          fmt::format("Install the package {}", own                   ? "libamdhip64-5"
                                                : system.is("fedora") ? "rocm-hip"
                                                                      : "hip-runtime-amd of the ROCm here")};
}

Missing missing_compiler(const Machine& machine, const std::string& backend, int cuda_version,
                         const std::string& architecture) {
  if (!machine.covers_libraries()) return {};
  if (backend == "cuda") {
    const bool old = needs_old_nvrtc(architecture);
    const bool found = std::ranges::any_of(nvrtc_names(machine), [&](const std::string& name) {
      const std::string file = find_library(machine, {name});
      // "libnvrtc.so" is a link to one of some release.
      return !file.empty() && !(old && release_of(machine.resolve(file).value_or(file)) >= 13);
    });
    return found ? Missing{} : missing_nvrtc(machine, cuda_version, architecture);
  }
  if (backend != "hip") return {};
  const std::string hip = find_library(machine, hip_names(machine));
  // The runtime of HIP 5 and older may contain hipRTC.
  if (hip.empty() || release_of(hip) <= 5) return {};
  return find_library(machine, hiprtc_names(machine, hip)).empty() ? missing_hiprtc(machine, hip) : Missing{};
}

}  // namespace athanor
