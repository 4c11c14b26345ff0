// CUDA's driver API as a table of the GPU backend. Names and numbers are those of NVIDIA's cuda.h, which need
// not be installed.
#include <fmt/format.h>

#include "athanor/backends/cuda/compiler.h"
#include "athanor/backends/gpu/backend.h"
#include "athanor/backends/gpu/stream_driver.h"
#include "athanor/device/vendor_libraries.h"

namespace athanor::cuda {
namespace {

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
  static const os::Library library(cuda_names());
  StreamApi api{.missing = {},
                .target = GpuTarget::cuda,
                .attributes = {.max_threads_per_block = 1,
                               .max_block_x = 2,
                               .shared_memory_per_block = 8,
                               .warp_size = 10,
                               .multiprocessors = 16,
                               .max_threads_per_multiprocessor = 39,
                               .integrated = 18,
                               .shared_memory_at_launch = 97}};
  if (!library) {
    api.missing = "no CUDA driver library: " + library.error();
    return api;
  }
  gpu::Finder finder(library);
  finder.find(api.init, "cuInit")
      .find(api.driver_version, "cuDriverGetVersion")
      .find(api.device_count, "cuDeviceGetCount")
      .find(api.device_get, "cuDeviceGet")
      .find(api.device_name, "cuDeviceGetName")
      .find(api.device_memory, "cuDeviceTotalMem_v2")
      .find(api.device_attribute, "cuDeviceGetAttribute")
      .find(api.device_pci_address, "cuDeviceGetPCIBusId")
      .find(api.device_uuid, "cuDeviceGetUuid")
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
      .find(api.function_allow, "cuFuncSetAttribute")
      .find(api.module_load, "cuModuleLoadData")
      .find(api.module_function, "cuModuleGetFunction")
      .find(api.module_unload, "cuModuleUnload");
  api.architecture = architecture;
  if (!finder.lacking().empty()) api.missing = library.name() + " has no " + finder.lacking();
  // These may be missing.
  gpu::Finder(library)
      .find(api.memory_info, "cuMemGetInfo_v2")
      .find(api.encode_tensor, "cuTensorMapEncodeTiled");
  gpu::Finder graphs(library);
  graphs.find(api.capture_begin, "cuStreamBeginCapture_v2")
      .find(api.capture_end, "cuStreamEndCapture")
      .find(api.graph_instantiate, "cuGraphInstantiateWithFlags")
      .find(api.graph_launch, "cuGraphLaunch")
      .find(api.graph_destroy, "cuGraphDestroy")
      .find(api.executable_destroy, "cuGraphExecDestroy");
  if (!graphs.lacking().empty()) api.capture_begin = nullptr;
  gpu::Finder kernels(library);
  kernels.find(api.function_attribute, "cuFuncGetAttribute")
      .find(api.groups_at_once, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  if (!kernels.lacking().empty()) api.function_attribute = nullptr;
  return api;
}

[[maybe_unused]] const bool table_registered = gpu::register_backend("cuda", [](uint8_t provider) {
  static const StreamApi api = load();
  return gpu::list_devices(api, compiler_for, provider);
});

}  // namespace
}  // namespace athanor::cuda
