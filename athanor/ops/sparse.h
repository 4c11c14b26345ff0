// Sparse matrices times dense ones.
#pragma once
#include "athanor/graph/tensor.h"

namespace athanor {

/// A matrix [rows, columns] of which only some elements are stored, row after row (compressed sparse rows).
/// The elements of row i are at [row_starts[i], row_starts[i + 1]).
struct CsrMatrix {
  Tensor row_starts;      // integers [rows + 1], from 0 to the number of elements
  Tensor columns;         // integers [elements]
  Tensor values;          // floats [elements]
  int64_t columns_total;  // the matrix's number of columns
};

/// The matrix times a dense [columns, N]: [rows, N]. Gradients flow to the values and to the dense matrix.
/// Throws Error(shape) if they do not fit, Error(value) for an index out of range (here if the host has the
/// indices, else when the result is read), and Error(dtype).
Tensor csr_matmul(const CsrMatrix& matrix, Operand dense);

}  // namespace athanor
