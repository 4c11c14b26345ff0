// batch_matmul: [B, M, K] x [B, K, N] -> [B, M, N], any strides.
#include "athanor/backends/cpu/amx/products.h"
#include "athanor/backends/cpu/generic/gemm.h"
#include "athanor/backends/cpu/kernels.h"

namespace athanor::cpu {
namespace {

template <class T, class G>
bool run(const G& gemm, bool bias, Buffers buffers) {
  const size_t output = bias ? 3 : 2;
  return gemm.run(static_cast<const T*>(buffers[0]), static_cast<const T*>(buffers[1]),
                  bias ? static_cast<const T*>(buffers[2]) : nullptr, static_cast<T*>(buffers[output]),
                  buffers[output + 1]);
}

#if ATHANOR_HAS_AMX
template <class T>
Candidate amx_gemm(const GemmShape& shape) {
  const Gemm<T, AmxProducts<T>> gemm(shape, cpu_workers());
  if constexpr (AmxProducts<T>::parts == 1)
    return function_candidate("AMX gemm", gemm.scratch_bytes(),
                              [gemm, bias = shape.bias](Buffers buffers) { run<T>(gemm, bias, buffers); });
  else {
    const Gemm<T> vectors(shape, cpu_workers());
    return function_candidate("AMX gemm, 3 bf16 parts",
                              std::max(gemm.scratch_bytes(), vectors.scratch_bytes()),
                              [gemm, vectors, bias = shape.bias](Buffers buffers) {
                                if (!run<T>(gemm, bias, buffers)) run<T>(vectors, bias, buffers);
                              });
  }
}
#endif

}  // namespace

static std::vector<Candidate> batch_matmul_kernels(const KernelRequest& request) {
  const GemmShape shape(request);
  return visit_dtype(request.output().dtype, [&]<class T>(T) {
    std::vector<Candidate> candidates;
#if ATHANOR_HAS_AMX
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, bf16>)
      if (has_amx()) candidates.push_back(amx_gemm<T>(shape));
#endif
    const Gemm<T> gemm(shape, cpu_workers());
    candidates.push_back(
        function_candidate("generic gemm", gemm.scratch_bytes(),
                           [gemm, bias = shape.bias](Buffers buffers) { run<T>(gemm, bias, buffers); }));
    return candidates;
  });
}

namespace {

[[maybe_unused]] const bool batch_matmul_registered =
    register_kernels({.ops = {"batch_matmul"}, .candidates = batch_matmul_kernels, .serves = serves_all});

}  // namespace

}  // namespace athanor::cpu
