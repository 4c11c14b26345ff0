// MIOpen's functions for convolutions, in immediate mode: solutions are chosen by their estimated time, and
// are compiled before they run. Types are those of miopen.h, which need not be installed: handles and
// descriptors are pointers, enums are ints.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "athanor/backends/gpu/library.h"
#include "athanor/base/os/library.h"

namespace athanor::hip {

enum MiopenNumber : int {
  miopen_f16 = 0,
  miopen_f32 = 1,
  miopen_bf16 = 5,
  miopen_cross_correlation = 0,
  miopen_deterministic = 1,  // an attribute
};

/// miopenConvSolution_t
struct MiopenSolution {
  float milliseconds;
  size_t workspace;
  uint64_t id;
  int algorithm;
};

struct MiopenApi {
  std::string version;  // "3.2.0"
  int (*create)(void** handle) = nullptr;
  int (*set_stream)(void* handle, void* stream) = nullptr;
  int (*create_tensor)(void**) = nullptr;
  int (*set_tensor)(void*, int type, int dimensions, const int* extents, const int* strides) = nullptr;
  int (*destroy_tensor)(void*) = nullptr;
  int (*create_convolution)(void**) = nullptr;
  int (*set_convolution)(void*, int dimensions, const int* padding, const int* stride, const int* dilation,
                         int mode) = nullptr;
  int (*set_groups)(void*, int groups) = nullptr;
  int (*set_attribute)(void*, int attribute, int value) = nullptr;
  int (*destroy_convolution)(void*) = nullptr;

  /// The functions of one direction. `first`, `second` and `result` are w, x, y forward; y, w, x for the
  /// images' gradient; y, x, w for the weights' gradient.
  struct Direction {
    int (*count)(void* handle, void* first, void* second, void* convolution, void* result,
                 size_t* count) = nullptr;
    int (*solutions)(void* handle, void* first, void* second, void* convolution, void* result, size_t most,
                     size_t* count, MiopenSolution* solutions) = nullptr;
    int (*workspace)(void* handle, void* first, void* second, void* convolution, void* result, uint64_t id,
                     size_t* bytes) = nullptr;
    int (*compile)(void* handle, void* first, void* second, void* convolution, void* result,
                   uint64_t id) = nullptr;
    int (*run)(void* handle, void* first, const void* first_data, void* second, const void* second_data,
               void* convolution, void* result, void* result_data, void* workspace, size_t workspace_bytes,
               uint64_t id) = nullptr;
  };
  Direction forward, images, weights;
};

/// Throws Error(device) if the library lacks a function, for example because it is too old.
MiopenApi read_miopen(const os::Library& library);

/// Throws Error(device) if it cannot be used with the current device.
std::unique_ptr<gpu::KernelLibrary> make_miopen(const MiopenApi& api);

}  // namespace athanor::hip
