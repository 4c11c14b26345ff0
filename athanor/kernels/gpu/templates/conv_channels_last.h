// Copies that convolutions by tiles read: images with channels last and their padding, and weights in the
// same order.
#pragma once
#include "athanor/kernels/gpu/operand_prologue.h"
#include "athanor/kernels/gpu/templates/conv.h"

namespace athanor::gpu {

/// Images [N, groups C, H, W], with any strides, as [N, rows, columns, groups, channels], with zeros outside
/// the image and for the channels that a group lacks.
struct ChannelsLast {
  const OperandDesc& images;
  int64_t groups, channels;  // of a group, in the copy
  Pair low, extent;          // the first row and column; how many
  Pair step = 1;             // from one to the next in the images
  DType type;                // of the copy
  /// What computes the images' elements on their way, from those in its memory.
  const OperandPrologue* computed = nullptr;

  int64_t column() const { return groups * channels; }
  int64_t row() const { return extent.width * column(); }
  int64_t image() const { return extent.height * row(); }
  int64_t elements() const { return images.shape[0] * image(); }
  GpuLaunch launch(GpuLaunch::Argument from, GpuLaunch::Argument to, const GpuTraits& traits) const;

 private:
  /// Whether the images have their channels last already, and vectors of 16 bytes can be copied.
  bool has_vectors() const;
  DType read() const { return computed != nullptr ? computed->dtype : images.dtype; }
  GpuLaunch copy_vectors(GpuLaunch::Argument from, GpuLaunch::Argument to, const GpuTraits& traits) const;
};

/// The channels of a group in a copy. They are padded so that a vector has channels of one tap or, with few
/// channels, whole taps.
int64_t padded_channels(int64_t channels, DType type);

/// Weights as [groups, m, taps, channels], with zeros for the channels that a group lacks.
struct PackedWeights {
  int64_t groups, m;
  Pair taps;
  int64_t channels, padded;  // in the weights, and in the copy
  // The first element and the strides of the weights.
  int64_t first, group_stride, m_stride;
  Pair tap_stride;
  int64_t channel_stride;
  DType from, type;
  const OperandPrologue* computed = nullptr;  // as for images

  int64_t k() const { return taps.height * taps.width * padded; }
  int64_t elements() const { return groups * m * k(); }
  GpuLaunch launch(GpuLaunch::Argument weights, GpuLaunch::Argument to, const GpuTraits& traits) const;
};

}  // namespace athanor::gpu
