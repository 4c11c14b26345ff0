// cuBLASLt and hipBLASLt as one table: hipBLASLt has cuBLASLt's functions under its own names, and other
// numbers. Types are those of cublasLt.h and hipblaslt.h, which need not be installed: handles and
// descriptors are pointers, enums are ints.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "athanor/backends/gpu/library.h"

namespace athanor::gpu {

struct BlasLtApi {
  std::string name;     // "cuBLASLt"
  std::string version;  // "13.1.0"

  // Numbers.
  int operation_none, operation_transpose;
  int compute_f32, compute_tf32, compute_f64;
  struct {
    int transpose_a, transpose_b, epilogue, bias_pointer, bias_type;
  } description;
  struct {
    int batch_count, batch_stride;
  } layout;
  struct {
    int workspace;
    int reductions = -1;   // which ways to add parts of k are allowed; -1: cannot be set
    int alignment_a = -1;  // those of b, c and d follow; -1: cannot be set
  } preference;
  int reduced_in_compute_type = 0;   // parts of k are added in scratch memory, in the compute type
  int invalid_value, not_supported;  // codes for a problem that it has no kernel for
  size_t algorithm_bytes;            // of an algorithm's description

  // Functions. They return 0 if all went well.
  int (*create)(void** handle) = nullptr;
  int (*describe)(void** description, int compute_type, int scale_type) = nullptr;
  int (*set)(void* description, int attribute, const void* value, size_t bytes) = nullptr;
  int (*forget_description)(void*) = nullptr;
  int (*make_layout)(void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading) = nullptr;
  int (*set_layout)(void* layout, int attribute, const void* value, size_t bytes) = nullptr;
  int (*forget_layout)(void*) = nullptr;
  int (*make_preference)(void**) = nullptr;
  int (*set_preference)(void*, int attribute, const void* value, size_t bytes) = nullptr;
  int (*forget_preference)(void*) = nullptr;
  int (*find)(void* handle, void* description, void* a, void* b, void* c, void* d, void* preference, int most,
              void* results, int* count) = nullptr;
  int (*multiply)(void* handle, void* description, const void* alpha, const void* a, void* a_layout,
                  const void* b, void* b_layout, const void* beta, const void* c, void* c_layout, void* d,
                  void* d_layout, const void* algorithm, void* workspace, size_t workspace_bytes,
                  void* stream) = nullptr;
  /// Reads the version, if the library needs a handle for that; else nullptr.
  std::function<std::string(void* handle)> read_version = nullptr;
  /// "algorithm 66 tile 20", the same in every process; nullptr: the position in the list is the name.
  std::string (*name_algorithm)(const BlasLtApi& api, const void* algorithm) = nullptr;
  int (*configuration)(const void* algorithm, int attribute, void* value, size_t bytes,
                       size_t* written) = nullptr;  // for name_algorithm
};

/// Throws Error(device) if the current device cannot be used. `tf32`: whether the device multiplies in tf32.
std::unique_ptr<KernelLibrary> make_blas_lt(const BlasLtApi& api, bool tf32);

}  // namespace athanor::gpu
