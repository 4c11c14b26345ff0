// Strided operands, reduced to few dimensions.
#pragma once
#include <optional>
#include <vector>

#include "athanor/backends/cpu/function_kernel.h"

namespace athanor::cpu {

/// Copies a strided array with elements of `element` bytes to a place with other strides (in elements).
void copy_strided(size_t element, std::span<const int64_t> extents, const void* source,
                  std::span<const int64_t> source_strides, void* destination,
                  std::span<const int64_t> destination_strides);

/// An input whose axes are merged into a few: with cuts {1, 3}, axes 0 | 1 2 | 3 4... become three. If its
/// strides do not allow that, it is first copied, dense, to scratch memory that the constructor reserves.
class MergedInput {
 public:
  /// `index`: which input of the request. `cuts`: in ascending order; {} means one axis, dense. `scratch` is
  /// increased by the size of the copy.
  MergedInput(const KernelRequest& request, int index, const std::vector<int>& cuts, size_t& scratch);

  /// The extents and strides (in elements) of the merged axes: cuts.size() + 1 of them.
  int64_t extent(int i) const { return extents_[static_cast<size_t>(i)]; }
  int64_t stride(int i) const { return strides_[static_cast<size_t>(i)]; }
  /// Where the copy is in scratch memory, if one is needed.
  std::optional<size_t> copy_offset() const { return copy_offset_; }
  /// The address of the first element. Makes the copy first, if one is needed.
  const void* resolve(Buffers buffers) const;
  template <class T>
  const T* resolve(Buffers buffers) const {
    return static_cast<const T*>(resolve(buffers));
  }

 private:
  Ints extents_, strides_;
  size_t index_, scratch_buffer_;
  std::optional<size_t> copy_offset_;
  OperandDesc operand_;
};

/// The product of the extents of axes [begin, end).
int64_t product(const Shape& shape, int begin, int end);

/// `size` rounded up, so that the next block of scratch memory is aligned too.
constexpr size_t aligned(size_t size) { return (size + 63) / 64 * 64; }

}  // namespace athanor::cpu
