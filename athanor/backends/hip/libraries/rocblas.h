// rocBLAS's functions for products. Types are those of rocblas-types.h, which need not be installed: handles
// are pointers, enums are ints.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "athanor/backends/gpu/library.h"
#include "athanor/base/os/library.h"

namespace athanor::hip {

enum RocblasNumber : int {
  rocblas_f16 = 150,
  rocblas_f32 = 151,
  rocblas_f64 = 152,
  rocblas_bf16 = 168,
  rocblas_plain = 111,
  rocblas_transpose = 112,
  rocblas_no_atomics = 0,
  rocblas_standard_algorithm = 0,
};

struct RocblasApi {
  std::string version;  // "4.2.0"
  int (*create)(void** handle) = nullptr;
  int (*set_stream)(void* handle, void* stream) = nullptr;
  int (*set_atomics)(void* handle, int allowed) = nullptr;
  int (*set_workspace)(void* handle, void* memory, size_t bytes) = nullptr;
  int (*begin_size_query)(void* handle) = nullptr;
  int (*end_size_query)(void* handle, size_t* bytes) = nullptr;
  int (*multiply)(void* handle, int transpose_a, int transpose_b, int m, int n, int k, const void* alpha,
                  const void* a, int a_type, int lda, int64_t stride_a, const void* b, int b_type, int ldb,
                  int64_t stride_b, const void* beta, const void* c, int c_type, int ldc, int64_t stride_c,
                  void* d, int d_type, int ldd, int64_t stride_d, int batch, int compute_type, int algorithm,
                  int32_t solution, uint32_t flags) = nullptr;
};

/// Throws Error(device) if the library lacks a function.
RocblasApi read_rocblas(const os::Library& library);

/// Throws Error(device) if it cannot be used with the current device.
std::unique_ptr<gpu::KernelLibrary> make_rocblas(const RocblasApi& api);

}  // namespace athanor::hip
