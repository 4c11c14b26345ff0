// The vectorised loops that compute a tile, one for each primitive and type, chosen for the CPU at run time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "athanor/graph/dtype.h"
#include "athanor/graph/primitive.h"

namespace athanor::loops {

/// What a step computes: an elementwise primitive (in the order of Prim), or one of the fusions that lowering
/// finds.
enum class Opcode : uint8_t {
  neg,
  exp,
  log,
  sin,
  cos,
  tanh,
  erf,
  sqrt,
  floor,
  abs,
  cast,
  add,
  sub,
  mul,
  div,
  mod,
  pow,
  max,
  min,
  less,
  equal,
  bit_and,
  bit_or,
  bit_xor,
  where,
  random_uniform,
  fma,         // a * b + c, rounded once
  fms,         // a * b - c
  fnma,        // c - a * b
  copy,        // a
  where_less,  // a < b ? c : d, all of one type
};
constexpr Opcode op_of(Prim prim) {
  return static_cast<Opcode>(static_cast<int>(prim) - static_cast<int>(Prim::neg));
}
static_assert(op_of(Prim::random_uniform) == Opcode::random_uniform && op_of(Prim::add) == Opcode::add);

constexpr int max_sources = 4;

/// The most lanes of one byte in a vector. A uniform operand contains this many equal elements.
constexpr size_t uniform_lanes = 64;

/// dst[i] = op(src[0][i], src[1][i], ...) for i < n. Bit k of `uniform` says that source k is the same for
/// every i (it then contains uniform_lanes copies). dst may be the same as a source. Nothing has to be
/// aligned or padded.
using StepFn = void (*)(void* dst, const void* const* src, size_t n, unsigned uniform);

/// The loop for an op; nullptr if the primitive is not defined for the type. `in` is the type of the (last)
/// source, `out` that of the result; they differ only for casts, comparisons and random_uniform. Narrow
/// floats exist only for casts from and to f32, and for copies.
StepFn find_step(Opcode op, DType in, DType out);

/// Two steps in one: source `place` of the second is the result of the first. The pair's sources are those of
/// the first, then the others of the second.
struct StepPair {
  Opcode first, second;
  int place;
};
/// The loop for a pair that computes in `type`; nullptr if there is none. Its bits are those of one step
/// after the other, but for the payloads of NaN. Where the order does not matter (factors, terms of add),
/// `place` must be 0.
StepFn find_pair(const StepPair& pair, DType type);

/// The loops of a reduction. Sums and products of f32 have partial results in f64; `wide` is the type of
/// partial results.
struct ReduceFns {
  DType wide = DType::f32;
  /// acc[r] = acc[r] op (src[r * len] op ... op src[r * len + len - 1]), acc of the wide type, for r < rows.
  /// For argmax, `index` holds the indices of the elements of src, and acc_index those of acc.
  void (*fold_rows)(void* acc, int64_t* acc_index, const void* src, const int64_t* index, size_t rows,
                    size_t len) = nullptr;
  /// acc[i] = acc[i] op src[i] for i < n, both of the source's type.
  void (*accumulate)(void* acc, int64_t* acc_index, const void* src, const int64_t* index,
                     size_t n) = nullptr;
  /// The same, both of the wide type.
  void (*accumulate_wide)(void* acc, int64_t* acc_index, const void* src, const int64_t* index,
                          size_t n) = nullptr;
  /// Sums of a[i] * b[i], without an array of the products; nullptr if there is no such loop.
  void (*fold_product_rows)(void* acc, const void* a, const void* b, size_t rows, size_t len) = nullptr;
  void (*accumulate_product)(void* acc, const void* a, const void* b, size_t n) = nullptr;
  /// wide[i] = wide[i] op acc[i], then acc[i] = identity. nullptr if the wide type is the source's.
  void (*flush)(void* wide, void* acc, size_t n) = nullptr;
};
/// fold_rows is nullptr if the reduction is not defined for the type.
ReduceFns find_reduce(Prim prim, DType type);

/// The instruction set that find_step chooses from: "avx512", "avx2", ..., "scalar".
const char* isa();
/// Limits the choice, for tests: "scalar" or "avx2"; "" for the best again. Kernels made earlier do not
/// change.
void limit_isa(std::string_view name);

}  // namespace athanor::loops
