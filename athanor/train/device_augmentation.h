// Augmentation as part of a training step's graph, on the device that computes it.
#pragma once
#include <string>

#include "athanor/data/augmentation.h"
#include "athanor/data/dataset.h"
#include "athanor/graph/tensor.h"

namespace athanor {

/// Applies the transforms of an Augmentation to a batch. Random parameters come from default_generator(), for
/// each image; those of mixing, for each batch. Unlike loader threads it does "jitter" in one order:
/// brightness, contrast, saturation, hue.
class DeviceAugmentation {
 public:
  /// Throws Error(usage) for kinds that only loader threads do: resized-crop, rand, trivial, and blur with a
  /// sigma above most_sigma.
  explicit DeviceAugmentation(const Augmentation& augmentation);

  /// Transforms normalised images [B, C, H, W], without mixing them.
  Tensor operator()(const Tensor& x, const Normalization& normalization) const;

  struct Mixed {
    Tensor inputs, targets;
  };
  /// Applies mixup or cutmix to images [B, C, H, W], as Augmentation::mix(): labels i64 [B] become f32 [B,
  /// classes]. If the list has neither, both are returned as they are.
  Mixed mix(const Tensor& x, const Tensor& targets, int64_t classes) const;

  std::string to_string() const { return augmentation_.to_string(); }

  static constexpr double most_sigma = 5;  // pixels: every pixel reads 21 neighbours along each axis

 private:
  Augmentation augmentation_;
};

}  // namespace athanor
