// cuDNN's functions for convolutions: those of version 7, which 8 and 9 still have. Types are those of
// cudnn_ops.h and cudnn_cnn.h, which need not be installed: handles and descriptors are pointers, enums are
// ints.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "athanor/backends/gpu/library.h"
#include "athanor/base/os/library.h"

namespace athanor::cuda {

enum CudnnNumber : int {
  cudnn_f32 = 0,
  cudnn_f64 = 1,
  cudnn_f16 = 2,
  cudnn_bf16 = 9,
  cudnn_channels_first = 0,
  cudnn_channels_last = 1,
  cudnn_cross_correlation = 1,
  cudnn_default_math = 0,  // tf32 for f32
  cudnn_matrix_units = 1,
  cudnn_fma_only = 3,
  cudnn_not_deterministic = 0,
};

/// cudnnConvolutionFwdAlgoPerf_t, and the same types of the other directions.
struct CudnnFound {
  int algorithm, status;
  float milliseconds;
  size_t workspace;
  int determinism, math;
  int reserved[3];
};

struct CudnnApi {
  std::string version;  // "9.13.0"
  int (*create)(void** handle) = nullptr;
  int (*set_stream)(void* handle, void* stream) = nullptr;
  int (*create_tensor)(void**) = nullptr;
  int (*set_tensor)(void*, int type, int dimensions, const int* extents, const int* strides) = nullptr;
  int (*destroy_tensor)(void*) = nullptr;
  int (*create_filter)(void**) = nullptr;
  int (*set_filter)(void*, int type, int format, int dimensions, const int* extents) = nullptr;
  int (*destroy_filter)(void*) = nullptr;
  int (*create_convolution)(void**) = nullptr;
  int (*set_convolution)(void*, int dimensions, const int* padding, const int* stride, const int* dilation,
                         int mode, int compute_type) = nullptr;
  int (*set_math)(void*, int math) = nullptr;
  int (*set_groups)(void*, int groups) = nullptr;
  int (*destroy_convolution)(void*) = nullptr;

  /// The functions of one direction. `first`, `second` and `result` are x, w, y forward; w, y, x for the
  /// images' gradient; x, y, w for the weights' gradient.
  struct Direction {
    int (*choose)(void* handle, void* first, void* second, void* convolution, void* result, int most,
                  int* count, void* found) = nullptr;
    int (*workspace)(void* handle, void* first, void* second, void* convolution, void* result, int algorithm,
                     size_t* bytes) = nullptr;
    int (*run)(void* handle, const void* alpha, void* first, const void* first_data, void* second,
               const void* second_data, void* convolution, int algorithm, void* workspace,
               size_t workspace_bytes, const void* beta, void* result, void* result_data) = nullptr;
  };
  Direction forward, images, weights;
};

/// Throws Error(device) if the library is too old or lacks a function.
CudnnApi read_cudnn(const os::Library& library);

/// `tf32`: whether the device multiplies in tf32. Throws Error(device) if the current device cannot be used.
std::unique_ptr<gpu::KernelLibrary> make_cudnn(const CudnnApi& api, bool tf32);

}  // namespace athanor::cuda
