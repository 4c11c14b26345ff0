// Matrix products as BLAS libraries take them: column-major.
#pragma once
#include <cstdint>
#include <optional>

#include "athanor/kernels/kernel.h"

namespace athanor::gpu {

/// C = A B for `batch` matrices: A [m, k], B [k, n], C [m, n], columns one after the other. A row-major
/// product is this with its operands exchanged: C' = B' A'.
struct BlasProduct {
  struct Matrix {
    int buffer = 0;
    int64_t rows = 0, columns = 0;  // as stored: those of the transposed matrix, if it is one
    bool transposed = false;
    int64_t leading = 0;  // elements from one column to the next
    int64_t batch = 0;    // elements from one matrix to the next; 0: one for all
  };
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Matrix a, b, c;
  int bias_buffer = -1;  // a vector [m] that is added to each column; -1: none
};

/// The product that a batch_matmul computes, if all operands have the output's dtype. {} for other dtypes,
/// for strides or an epilogue that BLAS does not support, and if an extent does not fit 32 bits.
std::optional<BlasProduct> blas_product(const KernelRequest& request);

/// The number of a dtype in CUDA's and HIP's libraries (cudaDataType, hipDataType); -1 for other dtypes.
int data_type_number(DType dtype);

}  // namespace athanor::gpu
