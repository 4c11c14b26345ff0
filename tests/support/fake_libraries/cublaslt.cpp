// A libcublasLt.so: see blas_lt.h. $ATHANOR_FAKE_BLAS_LT_VERSION: the version that it reports.
#include "blas_lt.h"

namespace {

constexpr fake::LtNumbers numbers = {.driver = "libcuda.so.1",
                                     .invalid = 7,
                                     .unsupported = 15,
                                     .none = 0,
                                     .transpose = 1,
                                     .f32 = 68,
                                     .tf32 = 77,
                                     .f64 = 70,
                                     .transpose_a = 3,
                                     .transpose_b = 4,
                                     .epilogue = 7,
                                     .bias_pointer = 8,
                                     .bias_type = 26,
                                     .batch_count = 5,
                                     .batch_stride = 6,
                                     .workspace = 1,
                                     .reductions = 3,
                                     .alignment_a = 5,
                                     .algorithm_bytes = 64};
const fake::BlasLt lt(numbers);

}  // namespace

extern "C" {

size_t cublasLtGetVersion() {
  const char* version = fake::setting("ATHANOR_FAKE_BLAS_LT_VERSION");
  return *version == 0 ? 120903 : std::strtoull(version, nullptr, 10);
}
int cublasLtCreate(void** handle) { return lt.create(handle); }
int cublasLtMatmulDescCreate(void** made, int compute, int scale) {
  return lt.describe(made, compute, scale);
}
int cublasLtMatmulDescSetAttribute(void* d, int attribute, const void* value, size_t bytes) {
  return lt.set(d, attribute, value, bytes);
}
int cublasLtMatmulDescDestroy(void* d) { return delete static_cast<fake::LtDescription*>(d), 0; }
int cublasLtMatrixLayoutCreate(void** made, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  return lt.make_layout(made, type, rows, columns, leading);
}
int cublasLtMatrixLayoutSetAttribute(void* l, int attribute, const void* value, size_t bytes) {
  return lt.set_layout(l, attribute, value, bytes);
}
int cublasLtMatrixLayoutDestroy(void* l) { return delete static_cast<fake::LtLayout*>(l), 0; }
int cublasLtMatmulPreferenceCreate(void** made) { return fake::BlasLt::make_preference(made); }
int cublasLtMatmulPreferenceSetAttribute(void* p, int attribute, const void* value, size_t bytes) {
  return lt.set_preference(p, attribute, value, bytes);
}
int cublasLtMatmulPreferenceDestroy(void* p) { return delete static_cast<fake::LtPreference*>(p), 0; }
int cublasLtMatmulAlgoGetHeuristic(void* handle, void* description, void* a, void* b, void* c, void* d,
                                   void* preference, int most, void* results, int* count) {
  return lt.find(handle, description, a, b, c, d, preference, most, results, count);
}
#ifndef LACKS_MULTIPLY
int cublasLtMatmul(void* handle, void* description, const void* alpha, const void* a, void* a_layout,
                   const void* b, void* b_layout, const void* beta, const void* c, void* c_layout, void* d,
                   void* d_layout, const void* algorithm, void* workspace, size_t bytes, void* stream) {
  return lt.multiply(handle, description, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout,
                     algorithm, workspace, bytes, stream);
}
#endif
int cublasLtMatmulAlgoConfigGetAttribute(const void* algorithm, int attribute, void* value, size_t bytes,
                                         size_t* written) {
  constexpr int id = 0, tile = 1, inner = 7, cluster = 8;
  const bool narrow = attribute == inner || attribute == cluster;
  if (bytes != (narrow ? 2 : 4)) return fake::refuse("an attribute of another size", numbers.invalid);
  fake::LtAlgorithm way{};
  std::memcpy(&way, algorithm, sizeof way);
  const uint32_t answer = attribute == id ? 60 : attribute == tile ? way.number : 0;
  std::memcpy(value, &answer, bytes);
  return *written = bytes, 0;
}
}
