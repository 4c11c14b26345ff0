// CUDA's driver API and NVRTC as tables of the GPU backend. Names and numbers are those of NVIDIA's cuda.h
// and nvrtc.h, which need not be installed.
#include <fmt/format.h>

#include <cstdlib>

#include "athanor/backends/gpu/backend.h"
#include "athanor/backends/gpu/stream_driver.h"

namespace athanor::cuda {
namespace {

using gpu::CompilerApi;
using gpu::StreamApi;

std::string architecture(const StreamApi& api, int device) {
  constexpr int capability_major = 75, capability_minor = 76;
  int major = 0, minor = 0;
  if (api.device_attribute(&major, capability_major, device) != 0 ||
      api.device_attribute(&minor, capability_minor, device) != 0)
    return {};
  return fmt::format("sm_{}{}", major, minor);
}

StreamApi load() {
#ifdef _WIN32
  static const os::Library library({"nvcuda.dll"});
#else
  static const os::Library library({"libcuda.so.1"});
#endif
  StreamApi api{.missing = {},
                .target = GpuTarget::cuda,
                .attributes = {.max_threads_per_block = 1,
                               .max_block_x = 2,
                               .shared_memory_per_block = 8,
                               .warp_size = 10,
                               .multiprocessors = 16}};
  if (!library) {
    api.missing = "no CUDA driver library: " + library.error();
    return api;
  }
  gpu::Finder finder(library);
  finder.find(api.init, "cuInit")
      .find(api.driver_version, "cuDriverGetVersion")
      .find(api.device_count, "cuDeviceGetCount")
      .find(api.device_name, "cuDeviceGetName")
      .find(api.device_memory, "cuDeviceTotalMem_v2")
      .find(api.device_attribute, "cuDeviceGetAttribute")
      .find(api.device_pci_address, "cuDeviceGetPCIBusId")
      .find(api.error_name, "cuGetErrorName")
      .find(api.retain, "cuDevicePrimaryCtxRetain")
      .find(api.set_context, "cuCtxSetCurrent")
      .find(api.memory_allocate, "cuMemAlloc_v2")
      .find(api.memory_free, "cuMemFree_v2")
      .find(api.host_allocate, "cuMemHostAlloc")
      .find(api.stream_create, "cuStreamCreate")
      .find(api.stream_synchronize, "cuStreamSynchronize")
      .find(api.stream_wait, "cuStreamWaitEvent")
      .find(api.event_create, "cuEventCreate")
      .find(api.event_record, "cuEventRecord")
      .find(api.event_query, "cuEventQuery")
      .find(api.event_synchronize, "cuEventSynchronize")
      .find(api.event_elapsed, "cuEventElapsedTime")
      .find(api.event_destroy, "cuEventDestroy_v2")
      .find(api.copy_to_device, "cuMemcpyHtoDAsync_v2")
      .find(api.copy_to_host, "cuMemcpyDtoHAsync_v2")
      .find(api.copy_on_device, "cuMemcpyDtoDAsync_v2")
      .find(api.copy_peer, "cuMemcpyPeerAsync")
      .find(api.peer_possible, "cuDeviceCanAccessPeer")
      .find(api.peer_enable, "cuCtxEnablePeerAccess")
      .find(api.fill, "cuMemsetD8Async")
      .find(api.launch, "cuLaunchKernel")
      .find(api.module_load, "cuModuleLoadData")
      .find(api.module_function, "cuModuleGetFunction")
      .find(api.module_unload, "cuModuleUnload");
  api.architecture = architecture;
  if (!finder.lacking().empty()) api.missing = library.name() + " has no " + finder.lacking();
  gpu::Finder graphs(library);
  graphs.find(api.capture_begin, "cuStreamBeginCapture_v2")
      .find(api.capture_end, "cuStreamEndCapture")
      .find(api.graph_instantiate, "cuGraphInstantiateWithFlags")
      .find(api.graph_launch, "cuGraphLaunch")
      .find(api.graph_destroy, "cuGraphDestroy")
      .find(api.executable_destroy, "cuGraphExecDestroy");
  if (!graphs.lacking().empty()) api.capture_begin = nullptr;
  return api;
}

std::vector<std::string> compiler_names() {
#ifdef _WIN32
  return {"nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"};
#else
  std::vector<std::string> names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};
  std::vector<std::string> folders = {"/usr/local/cuda"};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* folder = std::getenv(variable); folder != nullptr && *folder != 0)
      folders.insert(folders.begin(), folder);
  for (const std::string& folder : folders)
    for (const char* part : {"/lib64/libnvrtc.so", "/lib/libnvrtc.so"}) names.push_back(folder + part);
  return names;
#endif
}

CompilerApi load_compiler() {
  static const os::Library library(compiler_names());
  CompilerApi api;
  if (!library) {
    api.missing =
        "no NVRTC library (libnvrtc.so), which compiles kernels: install it with 'pip install "
        "nvidia-cuda-nvrtc' or with the CUDA toolkit, where LD_LIBRARY_PATH or CUDA_HOME finds it";
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
  api.forms = {cubin, ptx};
  api.options = [](const std::string& target) {
    return std::vector<std::string>{"--gpu-architecture=" + target, "--std=c++17"};
  };
  return api;
}

const CompilerApi& compiler() {
  static const CompilerApi instance = load_compiler();
  return instance;
}

[[maybe_unused]] const bool table_registered = gpu::register_backend("cuda", [](uint8_t provider) {
  static const StreamApi api = load();
  return gpu::list_devices(api, compiler, provider);
});

}  // namespace
}  // namespace athanor::cuda
