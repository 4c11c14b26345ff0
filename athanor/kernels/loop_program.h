// Fused loops as data: what one elementwise or reduction kernel computes. Every backend can generate it.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "athanor/graph/dtype.h"
#include "athanor/graph/primitive.h"
#include "athanor/graph/shape.h"

namespace athanor {

/// Where the elements of one operand lie: the element of index (i0, i1, ...) is `offset + sum(strides[d] *
/// i_d)` elements into the buffer. A stride of 0 broadcasts; strides may be negative.
struct LoopOperand {
  int buffer = 0;  // number of the buffer among the kernel's buffers
  DType dtype = DType::f32;
  int64_t offset = 0;
  Ints strides;  // one per dimension of the space
  bool operator==(const LoopOperand&) const = default;
};

/// One step of the body. Step i defines register i (registers are numbered through body, then reductions,
/// then epilogue); a, b, c are registers or -1.
struct LoopStep {
  enum class Kind : uint8_t {
    load,      // operand `operand`, converted to `type`
    constant,  // `value`
    index,  // i64: an affine index, from `index_offset` and `index_strides` as for operands; reads no memory
    primitive,  // `prim` of registers a, b, c
  };
  Kind kind = Kind::primitive;
  Prim prim = Prim::none;
  /// The register's type: f64, f32, i64, i32, i8, u8 or b8. Never a narrow float: they are loaded to and
  /// stored from f32.
  DType type = DType::f32;
  int a = -1, b = -1, c = -1;
  int operand = -1;
  double value = 0;       // of a constant with a float or small integer type
  int64_t int_value = 0;  // of a constant with an integer type or bool
  int64_t index_offset = 0;
  Ints index_strides;
  bool operator==(const LoopStep&) const = default;
};

/// Combines register `source` over the reduced dimensions; defines a register of type `type`.
struct LoopReduction {
  Prim prim =
      Prim::sum;  // sum, prod, reduce_max, reduce_min or argmax (of the index over the reduced dimensions)
  int source = -1;
  DType type = DType::f32;  // the type of source, or i64 for argmax
  bool operator==(const LoopReduction&) const = default;
};

/// Writes a register to an operand, converted to the operand's dtype.
struct LoopStore {
  int source = -1;
  int operand = -1;
  bool operator==(const LoopStore&) const = default;
};

/// For every index of `space`: body, stores. Then, if there are reductions, for every index of the dimensions
/// that are not reduced: reductions, epilogue, epilogue stores. In the epilogue, loads, index steps and
/// stores see index 0 along reduced dimensions. A sum of no elements is 0, a product 1, a maximum -infinity
/// (or the lowest integer), a minimum +infinity.
///
/// An output may share its buffer with an input when both have the same offset and strides (an update in
/// place).
struct LoopProgram {
  Ints space;                 // extents, outermost first; {} runs once
  std::vector<bool> reduced;  // one per dimension; all false without reductions
  std::vector<LoopOperand> operands;
  std::vector<LoopStep> body;
  std::vector<LoopStore> stores;
  std::vector<LoopReduction> reductions;
  std::vector<LoopStep> epilogue;
  std::vector<LoopStore> epilogue_stores;
  int buffers = 0;  // number of the kernel's buffers

  int64_t iterations() const;
  /// Arithmetic steps times iterations (loads, stores, constants and index steps do not count).
  int64_t flops() const;
  /// The least memory that is read and written: each operand once, without repetitions by broadcasting.
  int64_t bytes() const;
  bool operator==(const LoopProgram&) const = default;
};

/// Merges neighbouring dimensions that every operand walks alike, drops those of extent 1, and orders the
/// others so that most operands are contiguous along the innermost one. The meaning stays the same: argmax
/// over several dimensions keeps their order.
LoopProgram simplify_loop(LoopProgram program);

/// A readable listing, for `explain` and tests: "r2 = mul r0 r1".
std::string to_string(const LoopProgram& program);

/// Gives a loop with other steps, but as many reductions, the epilogue of `from`. `operand` adds an operand
/// of `from` to the loop and returns its number there; `strides` are those of an index in the loop's space.
void add_epilogue(LoopProgram& loop, const LoopProgram& from, const std::function<int(int)>& operand,
                  const std::function<Ints(const Ints&)>& strides);

/// The name of a primitive: "add".
std::string_view to_string(Prim prim);

}  // namespace athanor
