// A matrix multiplication: extents, strides, epilogue.
#pragma once
#include "athanor/backends/cpu/generic/epilogue.h"
#include "athanor/kernels/kernel.h"

namespace athanor::cpu {

/// [batch, m, k] x [batch, k, n] -> [batch, m, n]; the result is dense.
struct GemmShape {
  struct Strides {
    int64_t batch, row, column;  // in elements
  };
  int64_t batch, m, n, k;
  Strides a, b;
  bool bias;
  Activation activation;

  /// One product, whose factors' strides are for the Products to know.
  GemmShape(int64_t rows, int64_t columns, int64_t depth, const SimpleEpilogue& epilogue)
      : batch(1),
        m(rows),
        n(columns),
        k(depth),
        a{},
        b{},
        bias(epilogue.bias),
        activation(epilogue.activation) {}

  /// The shape of a batch_matmul. If the whole batch shares b, as in a linear layer, it becomes one taller
  /// matrix.
  explicit GemmShape(const KernelRequest& request)
      : batch(request.output().shape[0]),
        m(request.output().shape[1]),
        n(request.output().shape[2]),
        k(request.inputs[0].shape[2]),
        a{strides_of(request.inputs[0])},
        b{strides_of(request.inputs[1])} {
    const SimpleEpilogue epilogue = simple_epilogue(request).value();
    bias = epilogue.bias;
    activation = epilogue.activation;
    if (batch > 1 && b.batch == 0 && a.batch == m * a.row) {
      m *= batch;
      batch = 1;
    }
  }

 private:
  static Strides strides_of(const OperandDesc& operand) {
    return {operand.strides[0], operand.strides[1], operand.strides[2]};
  }
};

}  // namespace athanor::cpu
