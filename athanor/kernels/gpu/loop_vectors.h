// Neighbouring elements of a loop that a work-item computes together. If an operand's elements lie together
// along the innermost dimension, the item moves them as one vector; others are broadcast, or moved one by
// one.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/loop_code.h"

namespace athanor::gpu {

/// Rows of vectors: how a loop's innermost dimension is cut. A row's vectors begin where its operands are
/// aligned, so its first elements may be the last ones of a vector.
struct VectorRows {
  int64_t width = 1;   // elements of a vector
  int64_t blocks = 1;  // vectors of a row
  bool whole = true;   // no vector is cut off
  /// How many elements before a row its first vector begins: `offset` and `strides` as for operands, modulo
  /// the width.
  int64_t offset = 0;
  Ints strides;
  bool begins_before() const;
};
/// The ways to move all elements by vectors, or nearly all; longest vectors first. {} if single elements are
/// better. Buffers are whole values, not views, and begin at multiples of 64 bytes: allocators and plans
/// (compile/memory.cpp) see to that. Views begin at an operand's offset. `held`: the operands that an item
/// reads once for many elements, so that they may be wider than a vector; {}: none.
std::vector<VectorRows> vector_rows(const LoopProgram& program, const GpuTraits& traits,
                                    const std::vector<bool>& held = {});

/// Writes what else is done with the element at an index, besides the loop's body.
using WithElement = std::function<void(const std::vector<std::string>& index)>;

/// Lines that load the elements of the `held` operands for a vector whose first element has this index, and
/// which is not cut off. Returns `known` for the functions below.
std::vector<std::string> write_loads(Code& code, const LoopProgram& program, int64_t width,
                                     const std::vector<std::string>& index, const std::vector<bool>& held);

/// Lines that compute the elements of vector `block` of the row with this index. `known`: for each operand,
/// the C expression of all its elements in the row, if it is not loaded from memory; "" if it is.
void write_block(Code& code, const LoopProgram& program, const VectorRows& rows, std::string_view index_type,
                 std::vector<std::string> index, const std::string& block, const WithElement& also = {},
                 const std::vector<std::string>& known = {});

/// The same for the vector whose first element has this index, in a row of `extent` elements.
struct VectorPlace {
  int64_t width = 1;
  std::string extent;
  bool may_begin_before = false, may_end_behind = true;
};
void write_vector(Code& code, const LoopProgram& program, const VectorPlace& place,
                  std::string_view index_type, std::vector<std::string> index, const WithElement& also = {},
                  const std::vector<std::string>& known = {});

}  // namespace athanor::gpu
