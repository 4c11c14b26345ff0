// batch_matmul: [B, M, K] x [B, K, N] -> [B, M, N], any strides.
#include "athanor/backends/cpu/generic/gemm.h"
#include "athanor/backends/cpu/kernels.h"

namespace athanor::cpu {

static Candidate batch_matmul_kernel(const KernelRequest& request) {
  const GemmShape shape(request);
  return visit_dtype(request.output().dtype, [&]<class T>(T) {
    const Gemm<T> gemm(shape, cpu_workers());
    return function_candidate(
        "generic gemm", gemm.scratch_bytes(), [gemm, bias = shape.bias](Buffers buffers) {
          const size_t output = bias ? 3 : 2;
          static_cast<void>(gemm.run(static_cast<const T*>(buffers[0]), static_cast<const T*>(buffers[1]),
                                     bias ? static_cast<const T*>(buffers[2]) : nullptr,
                                     static_cast<T*>(buffers[output]), buffers[output + 1]));
        });
  });
}

namespace {

[[maybe_unused]] const bool batch_matmul_registered = register_kernels(
    {.ops = {"batch_matmul"}, .candidates = only<batch_matmul_kernel>, .serves = serves_all});

}  // namespace

}  // namespace athanor::cpu
