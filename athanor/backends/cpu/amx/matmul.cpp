// batch_matmul of f32 and bf16 with AMX.
#include <algorithm>

#include "athanor/backends/cpu/amx/products.h"
#include "athanor/backends/cpu/generic/gemm.h"
#include "athanor/backends/cpu/kernels.h"

#if ATHANOR_HAS_AMX
namespace athanor::cpu {
namespace {

template <class T, class Products>
[[nodiscard]] bool run(const Gemm<T, Products>& gemm, bool bias, Buffers buffers) {
  const size_t output = bias ? 3 : 2;
  return gemm.run(static_cast<const T*>(buffers[0]), static_cast<const T*>(buffers[1]),
                  bias ? static_cast<const T*>(buffers[2]) : nullptr, static_cast<T*>(buffers[output]),
                  buffers[output + 1]);
}

Candidate bf16_gemm(const GemmShape& shape) {
  const Gemm<bf16, AmxProducts<bf16>> gemm(shape, cpu_workers());
  return function_candidate("AMX gemm", gemm.scratch_bytes(), [gemm, bias = shape.bias](Buffers buffers) {
    static_cast<void>(run(gemm, bias, buffers));
  });
}

Candidate f32_gemm(const GemmShape& shape) {
  const Gemm<float, AmxProducts<float>> gemm(shape, cpu_workers());
  const Gemm<float> vectors(shape, cpu_workers());  // for numbers that have no parts
  return function_candidate("AMX gemm, 3 bf16 parts", std::max(gemm.scratch_bytes(), vectors.scratch_bytes()),
                            [gemm, vectors, bias = shape.bias](Buffers buffers) {
                              if (!run(gemm, bias, buffers)) static_cast<void>(run(vectors, bias, buffers));
                            });
}

}  // namespace

static std::vector<Candidate> amx_matmul(const KernelRequest& request) {
  if (!has_amx()) return {};
  if (request.output().dtype == DType::f32) return {f32_gemm(GemmShape(request))};
  if (request.output().dtype == DType::bf16) return {bf16_gemm(GemmShape(request))};
  return {};
}

namespace {

ProductsBy bf16_by_tiles(DType dtype) {
  return dtype == DType::bf16 && has_amx() ? ProductsBy::tiles : ProductsBy::conversion;
}

[[maybe_unused]] const bool amx_matmul_registered = register_kernels({.source = KernelSource::matrix_unit,
                                                                      .ops = {"batch_matmul"},
                                                                      .candidates = amx_matmul,
                                                                      .serves = serves_none,
                                                                      .products_by = bf16_by_tiles});

}  // namespace

}  // namespace athanor::cpu
#endif
