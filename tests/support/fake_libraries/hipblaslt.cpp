// A libhipblaslt.so: see blas_lt.h.
#include "blas_lt.h"

namespace {

constexpr fake::LtNumbers numbers = {.driver = "libamdhip64.so",
                                     .invalid = 3,
                                     .unsupported = 7,
                                     .none = 111,
                                     .transpose = 112,
                                     .f32 = 2,
                                     .tf32 = 6,
                                     .f64 = 7,
                                     .transpose_a = 0,
                                     .transpose_b = 1,
                                     .epilogue = 2,
                                     .bias_pointer = 3,
                                     .bias_type = 4,
                                     .batch_count = 0,
                                     .batch_stride = 1,
                                     .workspace = 1,
                                     .reductions = -1,
                                     .alignment_a = -1,
                                     .algorithm_bytes = 24};
const fake::BlasLt lt(numbers);

}  // namespace

extern "C" {

int hipblasLtGetVersion(void* handle, int* version) {
  return *version = 1000 * (handle == nullptr) + 1002, 0;
}
int hipblasLtCreate(void** handle) { return lt.create(handle); }
int hipblasLtMatmulDescCreate(void** made, int compute, int scale) {
  return lt.describe(made, compute, scale);
}
int hipblasLtMatmulDescSetAttribute(void* d, int attribute, const void* value, size_t bytes) {
  return lt.set(d, attribute, value, bytes);
}
int hipblasLtMatmulDescDestroy(void* d) { return delete static_cast<fake::LtDescription*>(d), 0; }
int hipblasLtMatrixLayoutCreate(void** made, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  return lt.make_layout(made, type, rows, columns, leading);
}
int hipblasLtMatrixLayoutSetAttribute(void* l, int attribute, const void* value, size_t bytes) {
  return lt.set_layout(l, attribute, value, bytes);
}
int hipblasLtMatrixLayoutDestroy(void* l) { return delete static_cast<fake::LtLayout*>(l), 0; }
int hipblasLtMatmulPreferenceCreate(void** made) { return fake::BlasLt::make_preference(made); }
int hipblasLtMatmulPreferenceSetAttribute(void* p, int attribute, const void* value, size_t bytes) {
  return lt.set_preference(p, attribute, value, bytes);
}
int hipblasLtMatmulPreferenceDestroy(void* p) { return delete static_cast<fake::LtPreference*>(p), 0; }
int hipblasLtMatmulAlgoGetHeuristic(void* handle, void* description, void* a, void* b, void* c, void* d,
                                    void* preference, int most, void* results, int* count) {
  return lt.find(handle, description, a, b, c, d, preference, most, results, count);
}
int hipblasLtMatmul(void* handle, void* description, const void* alpha, const void* a, void* a_layout,
                    const void* b, void* b_layout, const void* beta, const void* c, void* c_layout, void* d,
                    void* d_layout, const void* algorithm, void* workspace, size_t bytes, void* stream) {
  return lt.multiply(handle, description, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout,
                     algorithm, workspace, bytes, stream);
}
}
