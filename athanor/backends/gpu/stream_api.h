// CUDA's driver API and HIP as one table: their functions differ in little but their names. Types
// are those of cuda.h and hip_runtime_api.h, which need not be installed: handles are pointers, enums are
// ints.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "athanor/base/os/library.h"
#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor::gpu {

/// Numbers of device attributes, which the two count differently.
struct StreamAttributes {
  int max_threads_per_block, max_block_x, shared_memory_per_block, warp_size, multiprocessors,
      max_threads_per_multiprocessor, integrated;
  int shared_memory_at_launch = 0;  // the most that a launch can ask for after function_allow()
};

/// A version as vendors write it: "12.4" for CUDA's 12040, "6.4.43483" for HIP's 60443483.
std::string release_text(GpuTarget target, int version);

struct StreamApi {
  /// Why the interface cannot be used; "" if it can.
  std::string missing;

  GpuTarget target;
  StreamAttributes attributes;
  int out_of_memory = 2;  // a code, the same in both

  int (*init)(unsigned) = nullptr;
  int (*driver_version)(int*) = nullptr;
  int (*device_count)(int*) = nullptr;
  /// The handle of the device with this number in the list, for all calls below. nullptr: it is the number.
  int (*device_get)(int* handle, int number) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*device_memory)(size_t*, int) = nullptr;
  int (*device_attribute)(int*, int attribute, int) = nullptr;
  int (*device_pci_address)(char*, int, int) = nullptr;
  int (*device_uuid)(unsigned char*, int) = nullptr;  // nullptr: no UUID that other interfaces report too
  int (*error_name)(int, const char**) = nullptr;
  /// Make the device current in the calling thread. CUDA: by a context that retain() has returned.
  int (*retain)(void** context, int device) = nullptr;  // nullptr: the interface has no contexts
  int (*set_context)(void* context) = nullptr;
  int (*set_device)(int device) = nullptr;

  int (*memory_allocate)(void**, size_t) = nullptr;
  int (*memory_free)(void*) = nullptr;
  int (*memory_info)(size_t* free, size_t* total) = nullptr;  // nullptr: it does not say
  int (*host_allocate)(void**, size_t, unsigned flags) = nullptr;

  int (*stream_create)(void**, unsigned flags) = nullptr;
  int (*stream_synchronize)(void*) = nullptr;
  int (*stream_wait)(void* stream, void* event, unsigned flags) = nullptr;
  int (*event_create)(void**, unsigned flags) = nullptr;
  int (*event_record)(void* event, void* stream) = nullptr;
  int (*event_query)(void*) = nullptr;
  int (*event_synchronize)(void*) = nullptr;
  int (*event_elapsed)(float* milliseconds, void* from, void* to) = nullptr;
  int (*event_destroy)(void*) = nullptr;

  int (*copy_to_device)(void* to, const void* from, size_t, void* stream) = nullptr;
  int (*copy_to_host)(void* to, void* from, size_t, void* stream) = nullptr;
  int (*copy_on_device)(void* to, void* from, size_t, void* stream) = nullptr;
  /// Peers: a context or, without contexts, the handle of a device.
  int (*copy_peer)(void* to, void* to_peer, void* from, void* from_peer, size_t, void* stream) = nullptr;
  int (*peer_possible)(int*, int device, int peer) = nullptr;
  int (*peer_enable)(void* peer, unsigned flags) = nullptr;
  int (*fill)(void* to, unsigned char, size_t, void* stream) = nullptr;
  int (*launch)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned shared_bytes, void* stream, void** arguments, void** extra) = nullptr;

  /// Describes a tensor for kernels that copy boxes of it: CUDA's cuTensorMapEncodeTiled. nullptr: the
  /// interface lacks it, like drivers before CUDA 12.0.
  int (*encode_tensor)(void* map, int type, unsigned rank, void* address, const uint64_t* extents,
                       const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                       int interleave, int swizzle, int promotion, int fill) = nullptr;

  /// Graphs. All or none of them are there: drivers before CUDA 11.4 and HIP 4.5 have no instantiation with
  /// flags.
  int (*capture_begin)(void* stream, int mode) = nullptr;
  int (*capture_end)(void* stream, void** graph) = nullptr;
  int (*graph_instantiate)(void** executable, void* graph, unsigned long long flags) = nullptr;
  int (*graph_launch)(void* executable, void* stream) = nullptr;
  int (*graph_destroy)(void* graph) = nullptr;
  int (*executable_destroy)(void* executable) = nullptr;

  int (*module_load)(void**, const void* image) = nullptr;
  int (*module_function)(void**, void* module, const char* name) = nullptr;
  int (*module_unload)(void*) = nullptr;

  /// Lets launches of a kernel ask for more shared memory than kernels may declare. nullptr: kernels may
  /// declare all that there is, and launches ask for none.
  int (*function_allow)(void* function, int attribute, int value) = nullptr;
  /// Facts about a compiled kernel. Both functions are there, or neither.
  int (*function_attribute)(int*, int attribute, void* function) = nullptr;
  int (*groups_at_once)(int*, void* function, int items, size_t dynamic_shared_bytes) = nullptr;

  /// The compiler's name for a device: "sm_86", "gfx1100". "" if that cannot be found out.
  std::string (*architecture)(const StreamApi& api, int device) = nullptr;
};

/// Finds functions in a library by the names that a table gives them; remembers the first that it lacks.
class Finder {
 public:
  explicit Finder(const os::Library& library) : library_(library) {}
  template <class F>
  Finder& find(F*& function, const char* name) {
    function = reinterpret_cast<F*>(library_.find(name));
    if (function == nullptr && lacking_.empty()) lacking_ = name;
    return *this;
  }
  const std::string& lacking() const { return lacking_; }

 private:
  const os::Library& library_;
  std::string lacking_;
};

}  // namespace athanor::gpu
