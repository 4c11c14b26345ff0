// The functions of cuBLASLt or hipBLASLt, as described in their documentation, for products on the host.
// Every argument is checked. The two libraries have different names and numbers:
//
//   struct Numbers { none, transpose, f32, tf32, f64; description, layout and preference attributes; ...}
//
// $ATHANOR_FAKE_BLAS_LT: "refuses": makes no handle; "wrong": adds 1 to results; "fails": cannot multiply.
#pragma once
#include <map>

#include "fake_gpu.h"

namespace fake {

struct LtNumbers {
  const char* driver;
  int invalid, unsupported;
  int none, transpose, f32, tf32, f64;
  int transpose_a, transpose_b, epilogue, bias_pointer, bias_type;
  int batch_count, batch_stride;
  int workspace, reductions, alignment_a;
  size_t algorithm_bytes;
};

struct LtDescription {
  int compute = 0, scale = 0, transpose_a = -1, transpose_b = -1, bias_type = -1;
  uint32_t epilogue = 1;
  const void* bias = nullptr;
};
struct LtLayout {
  Matrix matrix;
  int32_t count = 1;
};
struct LtPreference {
  uint64_t workspace = 0;
  uint32_t reductions = 0, alignment[4] = {256, 256, 256, 256};
};
/// The first bytes of an algorithm's structure.
struct LtAlgorithm {
  uint32_t magic = 0, number = 0;
  uint64_t workspace = 0;
  uint32_t alignment[4] = {};
};
constexpr uint32_t lt_magic = 0x17a160;

template <class T>
int assign(T& place, const void* value, size_t bytes, int invalid) {
  if (value == nullptr || bytes != sizeof(T)) return refuse("an attribute of another size", invalid);
  return std::memcpy(&place, value, bytes), 0;
}

class BlasLt {
 public:
  explicit BlasLt(const LtNumbers& numbers) : n_(numbers) {}

  int create(void** handle) const {
    if (behaves("ATHANOR_FAKE_BLAS_LT", "refuses")) return 1;
    return *handle = const_cast<LtNumbers*>(&n_), 0;
  }
  int describe(void** made, int compute, int scale) const {
    if (compute != n_.f32 && compute != n_.tf32 && compute != n_.f64)
      return refuse("a compute type", n_.invalid);
    if (scale != (compute == n_.f64 ? r_64f : r_32f)) return refuse("a scale type", n_.invalid);
    auto* description = new LtDescription;
    description->compute = compute;
    description->scale = scale;
    description->transpose_a = description->transpose_b = n_.none;
    return *made = description, 0;
  }
  int set(void* description, int attribute, const void* value, size_t bytes) const {
    auto& d = *static_cast<LtDescription*>(description);
    if (attribute == n_.transpose_a) return assign(d.transpose_a, value, bytes, n_.invalid);
    if (attribute == n_.transpose_b) return assign(d.transpose_b, value, bytes, n_.invalid);
    if (attribute == n_.epilogue) return assign(d.epilogue, value, bytes, n_.invalid);
    if (attribute == n_.bias_pointer) return assign(d.bias, value, bytes, n_.invalid);
    if (attribute == n_.bias_type) return assign(d.bias_type, value, bytes, n_.invalid);
    return refuse("an unknown attribute of a product", n_.invalid);
  }
  int make_layout(void** made, int type, uint64_t rows, uint64_t columns, int64_t leading) const {
    auto* layout = new LtLayout;
    layout->matrix = {type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading, 0};
    *made = layout;
    return layout->matrix.is_right() ? 0 : refuse("a leading dimension shorter than a column", n_.invalid);
  }
  int set_layout(void* layout, int attribute, const void* value, size_t bytes) const {
    auto& l = *static_cast<LtLayout*>(layout);
    if (attribute == n_.batch_count) return assign(l.count, value, bytes, n_.invalid);
    if (attribute == n_.batch_stride) return assign(l.matrix.batch, value, bytes, n_.invalid);
    return refuse("an unknown attribute of a matrix", n_.invalid);
  }
  static int make_preference(void** made) { return *made = new LtPreference, 0; }
  int set_preference(void* preference, int attribute, const void* value, size_t bytes) const {
    auto& p = *static_cast<LtPreference*>(preference);
    if (attribute == n_.workspace) return assign(p.workspace, value, bytes, n_.invalid);
    if (attribute == n_.reductions) return assign(p.reductions, value, bytes, n_.invalid);
    const int which = attribute - n_.alignment_a;
    if (n_.alignment_a >= 0 && which >= 0 && which < 4)
      return assign(p.alignment[which], value, bytes, n_.invalid);
    return refuse("an unknown attribute of a preference", n_.invalid);
  }

  /// Finds one algorithm without scratch memory, and one with it if that is allowed.
  int find(void* handle, void* description, void* a, void* b, void* c, void* d, void* preference, int most,
           void* results, int* count) const {
    Product product{};
    if (const int code = product_of(handle, description, a, b, c, d, product); code != 0) return code;
    const auto& wish = *static_cast<LtPreference*>(preference);
    if (n_.reductions >= 0 && wish.reductions != 2) return refuse("sums in another type", n_.invalid);
    *count = 0;
    for (const uint64_t workspace : {uint64_t{0}, uint64_t{1000}}) {
      if (*count == most || workspace > wish.workspace) break;
      LtAlgorithm algorithm{lt_magic, static_cast<uint32_t>(*count + 1), workspace, {}};
      std::copy_n(wish.alignment, 4, algorithm.alignment);
      auto* at = static_cast<std::byte*>(results) + static_cast<size_t>(*count) * (n_.algorithm_bytes + 32);
      std::memcpy(at, &algorithm, std::min(sizeof algorithm, n_.algorithm_bytes));
      std::memcpy(at + n_.algorithm_bytes, &workspace, 8);
      ++*count;
    }
    return 0;
  }

  int multiply(void* handle, void* description, const void* alpha, const void* a, void* a_layout,
               const void* b, void* b_layout, const void* beta, const void* c, void* c_layout, void* d,
               void* d_layout, const void* algorithm, void* workspace, size_t workspace_bytes,
               void* stream) const {
    if (behaves("ATHANOR_FAKE_BLAS_LT", "fails")) return 13;
    Product p{};
    if (const int code = product_of(handle, description, a_layout, b_layout, c_layout, d_layout, p);
        code != 0)
      return code;
    const auto& what = *static_cast<LtDescription*>(description);
    const double one =
        what.scale == r_64f ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
    const double zero =
        what.scale == r_64f ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
    if (one != 1 || zero != 0 || c != d) return refuse("alpha, beta or c", n_.invalid);
    LtAlgorithm way{};
    std::memcpy(&way, algorithm, std::min(sizeof way, n_.algorithm_bytes));
    if (way.magic != lt_magic) return refuse("an algorithm that was not found here", n_.invalid);
    if (workspace_bytes < way.workspace || (way.workspace > 0 && workspace == nullptr))
      return refuse("too little scratch memory", n_.invalid);
    if (reinterpret_cast<uintptr_t>(workspace) % 16 != 0)
      return refuse("unaligned scratch memory", n_.invalid);
    const void* operands[] = {a, b, c, d};
    if (n_.alignment_a >= 0)
      for (int i = 0; i < 4; ++i)
        if (reinterpret_cast<uintptr_t>(operands[i]) % way.alignment[i] != 0)
          return refuse("an operand that is not aligned as was said", n_.invalid);
    const bool bias = (what.epilogue & 4U) != 0;
    std::vector<Part> parts = {
        {a, p.a.bytes(p.count), false}, {b, p.b.bytes(p.count), false}, {d, p.c.bytes(p.count), true}};
    if (bias) parts.push_back({what.bias, static_cast<size_t>(p.m) * size_of_type(what.bias_type), false});
    if (way.workspace > 0) parts.push_back({workspace, way.workspace, true});
    return on_stream(n_.driver, stream, parts, [p, bias, way](const std::vector<std::byte*>& memory) {
      if (way.workspace > 0) std::memset(memory.back(), 0xff, way.workspace);  // it may have any content
      multiply_on_host(p, memory, bias);
    });
  }

 private:
  static void multiply_on_host(const Product& p, const std::vector<std::byte*>& memory, bool bias) {
    fake::multiply(p, memory, bias);
    if (behaves("ATHANOR_FAKE_BLAS_LT", "wrong"))
      store(memory[2], p.c.type, 0, load(memory[2], p.c.type, 0) + 1 + 0.1 * static_cast<double>(p.k));
  }

  int product_of(void* handle, void* description, void* a_layout, void* b_layout, void* c_layout,
                 void* d_layout, Product& p) const {
    if (handle != &n_) return refuse("no handle", n_.invalid);
    const auto& what = *static_cast<LtDescription*>(description);
    const auto &a = *static_cast<LtLayout*>(a_layout), &b = *static_cast<LtLayout*>(b_layout),
               &d = *static_cast<LtLayout*>(d_layout);
    if (c_layout != d_layout) return refuse("c and d differ", n_.invalid);
    if (a.count != d.count || b.count != d.count) return refuse("batches differ", n_.invalid);
    const auto is_operation = [&](int o) { return o == n_.none || o == n_.transpose; };
    if (!is_operation(what.transpose_a) || !is_operation(what.transpose_b))
      return refuse("an operation", n_.invalid);
    const bool ta = what.transpose_a == n_.transpose, tb = what.transpose_b == n_.transpose;
    p = {ta ? a.matrix.columns : a.matrix.rows,
         tb ? b.matrix.rows : b.matrix.columns,
         ta ? a.matrix.rows : a.matrix.columns,
         d.count,
         ta,
         tb,
         (what.epilogue & 2U) != 0,
         what.compute == n_.tf32,
         a.matrix,
         b.matrix,
         d.matrix,
         what.bias_type};
    if ((tb ? b.matrix.columns : b.matrix.rows) != p.k || d.matrix.rows != p.m || d.matrix.columns != p.n)
      return refuse("extents do not fit", n_.invalid);
    const int type = d.matrix.type;
    const bool types = a.matrix.type == type && b.matrix.type == type &&
                       (what.compute == n_.f64) == (type == r_64f) && (!p.tf32 || type == r_32f);
    if (!types) return refuse("types", n_.unsupported);
    if ((what.epilogue & 4U) != 0 && (what.bias == nullptr || what.bias_type != type))
      return refuse("a bias without place or type", n_.invalid);
    if (p.count > 1 && d.matrix.batch < d.matrix.leading * d.matrix.columns)
      return refuse("results lie in each other", n_.invalid);
    return 0;
  }

  const LtNumbers& n_;
};

}  // namespace fake
