// A dataset in memory.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "athanor/data/dataset.h"
#include "athanor/graph/host_array.h"

namespace athanor {

/// Mean and standard deviation of the pixels (over 255) of `images`, channel by channel. Counts exactly, so
/// the result depends neither on the order nor on the machine. A constant channel gets stddev 1.
Normalization measure_normalization(const HostArray& images);

/// A hint for arrays of element types that a dataset cannot take.
inline constexpr const char* pictures_hint =
    "Save them as bytes from 0 to 255: images.astype('uint8'), or (255 * images).astype('uint8') where they "
    "are from 0 to 1";
inline constexpr const char* labels_hint =
    "Save them as whole numbers: labels.astype('int64'), or for names np.unique(labels, "
    "return_inverse=True)[1]";

struct ArrayDatasetOptions {
  std::vector<std::string> class_names;
  int64_t classes = 0;  // 0: the number of names, or without names the largest label + 1
  std::optional<Normalization> normalization;  // none: measured on these images
};

/// Images as bytes. They are converted to floats when they are read.
class ArrayDataset final : public Dataset {
 public:
  /// `images` is u8: [N, H, W], [N, C, H, W] or [N, H, W, C] with C 1 or 3 (if both fit: C first). `labels`
  /// is [N] of an integer type.
  ///
  /// Throws Error(dtype), Error(shape) for other arrays or when their counts differ, Error(value) when there
  /// are none, and for a label that is negative or not below the number of classes.
  ArrayDataset(HostArray images, const HostArray& labels, ArrayDatasetOptions options = {});

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  const ExampleSpec& spec() const override { return spec_; }
  void read(int64_t index, float* image_out, int64_t& label_out) const override;
  HostArray picture(int64_t index, int64_t& label_out) const override;
  int64_t label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }

 private:
  ExampleSpec spec_;
  HostArray images_;
  std::vector<int64_t> labels_;
  bool channels_last_ = false;
  std::vector<std::array<float, 256>> floats_;  // [channel][pixel]
};

}  // namespace athanor
