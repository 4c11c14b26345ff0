// A librocblas.so with gemm_strided_batched_ex, on the host. Each argument is checked. $ATHANOR_FAKE_ROCBLAS:
// "refuses": makes no handle.
#include "fake_gpu.h"

namespace {

constexpr int bad_size = 4, bad_value = 11, size_increased = 9;
constexpr size_t scratch = 1000;

struct Handle {
  void *stream = nullptr, *workspace = nullptr;
  size_t bytes = 0;
  bool asked = false, atomics = true;  // asked: only the needed memory is asked for
};

int type_of(int type) {
  constexpr int half = 150, single = 151, twice = 152, bf16 = 168;
  return type == half     ? fake::r_16f
         : type == single ? fake::r_32f
         : type == twice  ? fake::r_64f
         : type == bf16   ? fake::r_16bf
                          : -1;
}

}  // namespace

extern "C" {

int rocblas_get_version_string(char* text, size_t bytes) {
  return std::snprintf(text, bytes, "4.2.1.0ad0c37"), 0;
}
int rocblas_create_handle(void** handle) {
  if (fake::behaves("ATHANOR_FAKE_ROCBLAS", "refuses")) return 6;
  return *handle = fake::kept<Handle>(), 0;
}
int rocblas_set_stream(void* handle, void* stream) {
  return static_cast<Handle*>(handle)->stream = stream, 0;
}
int rocblas_set_atomics_mode(void* handle, int allowed) {
  return static_cast<Handle*>(handle)->atomics = allowed != 0, 0;
}
int rocblas_set_workspace(void* handle, void* memory, size_t bytes) {
  auto& used = *static_cast<Handle*>(handle);
  return used.workspace = memory, used.bytes = bytes, 0;
}
int rocblas_start_device_memory_size_query(void* handle) {
  return static_cast<Handle*>(handle)->asked = true, 0;
}
int rocblas_stop_device_memory_size_query(void* handle, size_t* bytes) {
  return *bytes = scratch, static_cast<Handle*>(handle)->asked = false, 0;
}
int rocblas_gemm_strided_batched_ex(void* handle, int ta, int tb, int m, int n, int k, const void* alpha,
                                    const void* a, int a_type, int lda, int64_t stride_a, const void* b,
                                    int b_type, int ldb, int64_t stride_b, const void* beta, const void* c,
                                    int c_type, int ldc, int64_t stride_c, void* d, int d_type, int ldd,
                                    int64_t stride_d, int batch, int compute, int algorithm, int32_t solution,
                                    uint32_t flags) {
  const auto& used = *static_cast<const Handle*>(handle);
  constexpr int plain = 111, transpose = 112;
  const auto is_operation = [](int o) { return o == plain || o == transpose; };
  if (!is_operation(ta) || !is_operation(tb)) return fake::refuse("an operation", bad_value);
  const int type = type_of(d_type);
  if (type < 0 || a_type != d_type || b_type != d_type || c_type != d_type ||
      compute != (type == fake::r_64f ? 152 : 151))
    return fake::refuse("types", bad_value);
  if (algorithm != 0 || solution != 0 || flags != 0 || used.atomics)
    return fake::refuse("settings", bad_value);
  if (lda < (ta == plain ? m : k) || ldb < (tb == plain ? k : n) || ldd < m || ldc != ldd ||
      stride_c != stride_d)
    return fake::refuse("a leading dimension", bad_size);
  if (used.asked) return size_increased;
  const bool f64 = type == fake::r_64f;
  const double one = f64 ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
  const double zero = f64 ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  if (one != 1 || zero != 0 || c != d) return fake::refuse("alpha, beta or c", bad_value);
  if (used.workspace == nullptr || used.bytes < scratch ||
      reinterpret_cast<uintptr_t>(used.workspace) % 256 != 0)
    return fake::refuse("scratch memory", bad_value);
  const fake::Product p{m,
                        n,
                        k,
                        batch,
                        ta == transpose,
                        tb == transpose,
                        false,
                        false,
                        {type, ta == plain ? m : k, ta == plain ? k : m, lda, stride_a},
                        {type, tb == plain ? k : n, tb == plain ? n : k, ldb, stride_b},
                        {type, m, n, ldd, stride_d},
                        type};
  const std::vector<fake::Part> parts = {{a, p.a.bytes(batch), false},
                                         {b, p.b.bytes(batch), false},
                                         {d, p.c.bytes(batch), true},
                                         {used.workspace, scratch, true}};
  return fake::on_stream("libamdhip64.so", used.stream, parts, [p](const std::vector<std::byte*>& memory) {
    std::memset(memory[3], 0xff, scratch);
    fake::multiply(p, memory, false);
  });
}
}
