#include "athanor/device/kernel_libraries.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/device/sighting.h"

namespace athanor {
namespace {

struct File {
  int release;  // the release of CUDA or ROCm that it belongs to; 0: any
  std::string name;
};

struct Known {
  KernelLibraryFacts facts;
  std::vector<File> files;  // newest first
  /// How to install it: with the release in place of {}, and for the newest or an unknown release.
  std::string package, newest_package;
};

const std::vector<Known>& known_libraries() {
  static const std::string wheel = "In the Python environment that is active: pip install ";
  static const std::string rocm = "Install the package {} of the ROCm here";
#ifdef _WIN32
  static const std::vector<File> cublas_lt = {
      {13, "cublasLt64_13.dll"}, {12, "cublasLt64_12.dll"}, {11, "cublasLt64_11.dll"}};
  static const std::vector<File> cudnn = {{0, "cudnn64_9.dll"}, {0, "cudnn64_8.dll"}};
  static const std::vector<File> rocblas = {{0, "rocblas.dll"}}, hipblas_lt = {{0, "libhipblaslt.dll"}},
                                 miopen = {{0, "MIOpen.dll"}};
#else
  static const std::vector<File> cublas_lt = {
      {13, "libcublasLt.so.13"}, {12, "libcublasLt.so.12"}, {11, "libcublasLt.so.11"}};
  static const std::vector<File> cudnn = {{0, "libcudnn.so.9"}, {0, "libcudnn.so.8"}};
  static const std::vector<File> rocblas = {
      {7, "librocblas.so.5"}, {6, "librocblas.so.4"}, {5, "librocblas.so.3"}, {5, "librocblas.so.0"}};
  static const std::vector<File> hipblas_lt = {{7, "libhipblaslt.so.1"}, {6, "libhipblaslt.so.0"}};
  static const std::vector<File> miopen = {{0, "libMIOpen.so.1"}};
#endif
  static const std::vector<Known> all = {
      {{"cuBLASLt", "cuda", "products of matrices"},
       cublas_lt,
       wheel + "nvidia-cublas-cu{}",
       wheel + "nvidia-cublas"},
      {{"cuDNN", "cuda", "convolutions"}, cudnn, wheel + "nvidia-cudnn-cu{}", wheel + "nvidia-cudnn-cu13"},
      {{"rocBLAS", "hip", "products of matrices"}, rocblas, "", fmt::format(fmt::runtime(rocm), "rocblas")},
      {{"hipBLASLt", "hip", "products of matrices"},
       hipblas_lt,
       "",
       fmt::format(fmt::runtime(rocm), "hipblaslt")},
      {{"MIOpen", "hip", "convolutions"}, miopen, "", fmt::format(fmt::runtime(rocm), "miopen-hip")}};
  return all;
}

const Known& known(const std::string& library) {
  for (const Known& one : known_libraries())
    if (one.facts.name == library) return one;
  throw Error(ErrorCode::internal, "no such library: " + library);
}

// 12 for "CUDA 12.8", 6 for "HIP 6.4".
int release_of_runtime(const std::vector<RuntimeState>& runtimes, const std::string& backend) {
  for (const RuntimeState& runtime : runtimes)
    if (runtime.name == backend)
      if (const size_t space = runtime.version.find(' '); space != std::string::npos)
        return std::atoi(runtime.version.c_str() + space);
  return 0;
}

}  // namespace

std::vector<KernelLibraryFacts> kernel_libraries_of(const std::string& backend) {
  std::vector<KernelLibraryFacts> found;
  for (const Known& one : known_libraries())
    if (one.facts.backend == backend) found.push_back(one.facts);
  return found;
}

std::vector<std::string> kernel_library_names(const Machine& machine, const std::string& library,
                                              int release) {
  const Known& one = known(library);
  const bool cuda = one.facts.backend == "cuda";
  std::vector<std::string> names;
  for (const File& file : one.files)
    // CUDA's driver runs older releases too. Each ROCm library belongs to one release of HIP.
    if (file.release == 0 || release == 0 || (cuda ? file.release <= release : file.release == release))
      names.push_back(file.name);
  return cuda ? with_cuda_files(machine, names) : with_rocm_files(machine, names);
}

Missing missing_kernel_library(const Machine& machine, const std::string& library, int release) {
  if (!machine.covers_libraries() ||
      !find_library(machine, kernel_library_names(machine, library, release)).empty())
    return {};
  const Known& one = known(library);
  // The wheel of the newest release has no number in its name.
  const bool numbered = !one.package.empty() && release > 0 && (release < 13 || library != "cuBLASLt");
  return {fmt::format("no {}, which NVIDIA or AMD made for {}", library, one.facts.does),
          numbered ? fmt::format(fmt::runtime(one.package), release) : one.newest_package};
}

void add_kernel_libraries(std::vector<FoundDevice>& devices, const std::vector<RuntimeState>& runtimes,
                          const Machine& machine) {
  if (!machine.covers_libraries()) return;
  for (FoundDevice& device : devices)
    for (const BackendUse& use : device.backends) {
      const auto libraries = kernel_libraries_of(use.backend);
      if (!use.usable || libraries.empty() || device.properties.contains("libraries")) continue;
      std::vector<std::string> found;
      for (const KernelLibraryFacts& library : libraries) {
        const Missing missing =
            missing_kernel_library(machine, library.name, release_of_runtime(runtimes, use.backend));
        found.push_back(missing.what.empty() ? library.name
                                             : fmt::format("no {} ({}; not needed). {}", library.name,
                                                           library.does, missing.fix));
      }
      device.properties["libraries"] = {.in_use = {join(found, "; "), "files", {}}, .others = {}, .note = {}};
    }
}

}  // namespace athanor
