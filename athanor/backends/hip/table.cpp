// HIP as a table of the GPU backend. Names and numbers are those of ROCm's hip_runtime_api.h, which need not
// be installed.
#include <fmt/format.h>

#include "athanor/backends/gpu/backend.h"
#include "athanor/backends/gpu/stream_driver.h"
#include "athanor/backends/hip/compiler.h"
#include "athanor/backends/hip/library.h"

namespace athanor::hip {
namespace {

using gpu::StreamApi;

const char* (*error_text)(int) = nullptr;
int (*copy_peer_of)(void*, int, const void*, int, size_t, void*) = nullptr;
int (*enable_peer)(int, unsigned) = nullptr;

int number_of(void* peer) { return static_cast<int>(reinterpret_cast<intptr_t>(peer)); }

int error_name(int code, const char** name) {
  *name = error_text(code);
  return 0;
}

std::string architecture(const StreamApi&, int device) { return target_of(hip_library(), device); }

StreamApi load() {
  const os::Library& library = hip_library();
  StreamApi api{.missing = {},
                .target = GpuTarget::hip,
                .attributes = {.max_threads_per_block = 56,
                               .max_block_x = 26,
                               .shared_memory_per_block = 74,
                               .warp_size = 87,
                               .multiprocessors = 63,
                               .max_threads_per_multiprocessor = 57,
                               .integrated = 16}};
  if (!library) {
    api.missing = "no HIP runtime library: " + library.error();
    return api;
  }
  gpu::Finder finder(library);
  finder.find(api.init, "hipInit")
      .find(api.driver_version, "hipRuntimeGetVersion")
      .find(api.device_count, "hipGetDeviceCount")
      .find(api.device_name, "hipDeviceGetName")
      .find(api.device_memory, "hipDeviceTotalMem")
      .find(api.device_attribute, "hipDeviceGetAttribute")
      .find(api.device_pci_address, "hipDeviceGetPCIBusId")
      .find(error_text, "hipGetErrorName")
      .find(api.set_device, "hipSetDevice")
      .find(api.memory_allocate, "hipMalloc")
      .find(api.memory_free, "hipFree")
      .find(api.host_allocate, "hipHostMalloc")
      .find(api.stream_create, "hipStreamCreateWithFlags")
      .find(api.stream_synchronize, "hipStreamSynchronize")
      .find(api.stream_wait, "hipStreamWaitEvent")
      .find(api.event_create, "hipEventCreateWithFlags")
      .find(api.event_record, "hipEventRecord")
      .find(api.event_query, "hipEventQuery")
      .find(api.event_synchronize, "hipEventSynchronize")
      .find(api.event_elapsed, "hipEventElapsedTime")
      .find(api.event_destroy, "hipEventDestroy")
      .find(api.copy_to_device, "hipMemcpyHtoDAsync")
      .find(api.copy_to_host, "hipMemcpyDtoHAsync")
      .find(api.copy_on_device, "hipMemcpyDtoDAsync")
      .find(copy_peer_of, "hipMemcpyPeerAsync")
      .find(api.peer_possible, "hipDeviceCanAccessPeer")
      .find(enable_peer, "hipDeviceEnablePeerAccess")
      .find(api.fill, "hipMemsetD8Async")
      .find(api.launch, "hipModuleLaunchKernel")
      .find(api.module_load, "hipModuleLoadData")
      .find(api.module_function, "hipModuleGetFunction")
      .find(api.module_unload, "hipModuleUnload");
  api.error_name = error_name;
  api.copy_peer = [](void* to, void* to_peer, void* from, void* from_peer, size_t bytes, void* stream) {
    return copy_peer_of(to, number_of(to_peer), from, number_of(from_peer), bytes, stream);
  };
  api.peer_enable = [](void* peer, unsigned flags) { return enable_peer(number_of(peer), flags); };
  api.architecture = architecture;
  if (!finder.lacking().empty()) api.missing = library.name() + " has no " + finder.lacking();
  gpu::Finder(library).find(api.memory_info, "hipMemGetInfo");  // it may be missing
  gpu::Finder graphs(library);
  graphs.find(api.capture_begin, "hipStreamBeginCapture")
      .find(api.capture_end, "hipStreamEndCapture")
      .find(api.graph_instantiate, "hipGraphInstantiateWithFlags")
      .find(api.graph_launch, "hipGraphLaunch")
      .find(api.graph_destroy, "hipGraphDestroy")
      .find(api.executable_destroy, "hipGraphExecDestroy");
  if (!graphs.lacking().empty()) api.capture_begin = nullptr;
  gpu::Finder kernels(library);
  kernels.find(api.function_attribute, "hipFuncGetAttribute")
      .find(api.groups_at_once, "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor");
  if (!kernels.lacking().empty()) api.function_attribute = nullptr;
  return api;
}

[[maybe_unused]] const bool table_registered = gpu::register_backend("hip", [](uint8_t provider) {
  static const StreamApi api = load();
  return gpu::list_devices(
      api, [](int, const std::string&) -> const gpu::CompilerApi& { return hip_compiler(); }, provider);
});

}  // namespace
}  // namespace athanor::hip
