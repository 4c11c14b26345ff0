#include "athanor/backends/cpu/generic/strided.h"

#include <cstring>

#include "athanor/backends/cpu/parallel.h"

namespace athanor::cpu {
namespace {

struct Axis {
  int64_t extent, source, destination;
};

// Drops axes of extent 1, and merges neighbouring axes if both sides can walk them as one.
std::vector<Axis> merged_axes(std::span<const int64_t> extents, std::span<const int64_t> source,
                              std::span<const int64_t> destination) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == 1) continue;
    const Axis axis{extents[i], source[i], destination[i]};
    if (!axes.empty() && axes.back().source == axis.source * axis.extent &&
        axes.back().destination == axis.destination * axis.extent)
      axes.back() = {axes.back().extent * axis.extent, axis.source, axis.destination};
    else
      axes.push_back(axis);
  }
  if (axes.empty()) axes.push_back({1, 1, 1});
  return axes;
}

template <class T>
void copy_row(const Axis& axis, const T* from, T* to) {
  if (axis.source == 1 && axis.destination == 1) {
    std::memcpy(to, from, static_cast<size_t>(axis.extent) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < axis.extent; ++i) to[i * axis.destination] = from[i * axis.source];
}

template <class T>
void copy_axes(const std::vector<Axis>& axes, const T* from, T* to) {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < axes.size(); ++i) rows *= axes[i].extent;
  parallel_for(rows, rows * axes.back().extent, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t rest = row, source = 0, destination = 0;
      for (size_t i = axes.size() - 1; i-- > 0;) {
        const int64_t at = rest % axes[i].extent;
        rest /= axes[i].extent;
        source += at * axes[i].source;
        destination += at * axes[i].destination;
      }
      copy_row(axes.back(), from + source, to + destination);
    }
  });
}

}  // namespace

void copy_strided(size_t element, std::span<const int64_t> extents, const void* source,
                  std::span<const int64_t> source_strides, void* destination,
                  std::span<const int64_t> destination_strides) {
  for (const int64_t extent : extents)
    if (extent == 0) return;
  const auto axes = merged_axes(extents, source_strides, destination_strides);
  const auto copy = [&]<class T>(T) {
    copy_axes(axes, static_cast<const T*>(source), static_cast<T*>(destination));
  };
  switch (element) {
    case 1:
      return copy(uint8_t{});
    case 2:
      return copy(uint16_t{});
    case 4:
      return copy(uint32_t{});
    default:
      return copy(uint64_t{});
  }
}

int64_t product(const Shape& shape, int begin, int end) {
  int64_t result = 1;
  for (int axis = begin; axis < end; ++axis) result *= shape[axis];
  return result;
}

MergedInput::MergedInput(const KernelRequest& request, int index, const std::vector<int>& cuts,
                         size_t& scratch)
    : index_(static_cast<size_t>(index)),
      scratch_buffer_(request.inputs.size() + 1),
      operand_(request.inputs[static_cast<size_t>(index)]) {
  const Shape& shape = operand_.shape;
  std::vector<int> bounds = cuts;
  bounds.insert(bounds.begin(), 0);
  bounds.push_back(shape.rank());
  bool mergeable = true;
  for (size_t group = 0; group + 1 < bounds.size(); ++group) {
    int64_t stride = 0, extent = 1;
    for (int axis = bounds[group + 1]; axis-- > bounds[group];) {
      if (shape[axis] == 1) continue;
      const int64_t own = operand_.strides[static_cast<size_t>(axis)];
      if (extent == 1)
        stride = own;
      else if (own != stride * extent)
        mergeable = false;
      extent *= shape[axis];
    }
    extents_.push_back(product(shape, bounds[group], bounds[group + 1]));
    strides_.push_back(stride);
  }
  if (cuts.empty() && strides_[0] != 1 && shape.size() > 1) mergeable = false;  // the caller expects it dense
  if (mergeable || shape.size() == 0 || operand_.layout.block != 0) return;
  int64_t stride = 1;
  for (size_t i = strides_.size(); i-- > 0; stride *= extents_[i]) strides_[i] = stride;
  copy_offset_ = aligned(scratch);
  scratch = *copy_offset_ + static_cast<size_t>(shape.size()) * size_of(operand_.dtype);
}

const void* MergedInput::resolve(Buffers buffers) const {
  if (!copy_offset_) return buffers[index_];
  void* copy = static_cast<std::byte*>(buffers[scratch_buffer_]) + *copy_offset_;
  copy_strided(size_of(operand_.dtype), operand_.shape.dims(), buffers[index_], operand_.strides, copy,
               contiguous_strides(operand_.shape));
  return copy;
}

}  // namespace athanor::cpu
