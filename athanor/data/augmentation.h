// Augmentation: random transforms of training images, given as a list in words.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/data/dataset.h"
#include "athanor/data/mixing.h"
#include "athanor/data/picture.h"
#include "athanor/data/random_stream.h"

namespace athanor {

/// A list of transforms, in the order in which they run. Parameters are chosen as by the classes of
/// torchvision.transforms.v2 with the same arguments, with other random numbers.
class Augmentation {
 public:
  /// "crop,flip,jitter=0.4:0.4:0.4:0.1": names of augmentation_kinds(), with numbers after "=" if they differ
  /// from the defaults. "" and "none" change nothing. Throws Error(usage) naming the wrong part.
  static Augmentation parse(const std::string& text);

  bool empty() const { return steps_.empty(); }
  /// Whether images of a batch are mixed (mixup, cutmix). Then labels are probabilities of classes.
  bool mixes() const;
  /// "crop=4, flip=0.5": with all numbers.
  std::string to_string() const;

  /// An image of the example's size from `stored`, as Dataset::picture() returns it; not normalised.
  Picture apply(const HostArray& stored, const ExampleSpec& spec, RandomStream& random) const;
  /// The same for an image and its mask. Transforms that move pixels apply to both. The mask is as
  /// resample_mask() returns it.
  std::pair<Picture, Picture> apply(const PictureAndMask& stored, const ExampleSpec& spec,
                                    RandomStream& random) const;
  /// The first transform that masks do not support; "" if they support all.
  std::string without_masks() const;
  /// Chooses the mixing for images of this size: mixup or cutmix; if both are in the list, one of them at
  /// random. At least one must be in the list.
  Mixing choose_mixing(int64_t height, int64_t width, RandomStream& random) const;
  /// Mixes a batch [B, C, H, W] with itself, moved by one, and makes labels i64 [B] probabilities, f32 [B,
  /// classes], if the list has mixup or cutmix.
  void mix(HostArray& inputs, HostArray& labels, int64_t classes, RandomStream& random) const;

  struct Step {
    size_t kind;  // in augmentation_kinds()
    std::vector<double> values;
  };
  const std::vector<Step>& steps() const { return steps_; }

 private:
  std::vector<Step> steps_;
};

struct AugmentationValue {
  std::string_view name;
  double usual, least, most;
};

struct AugmentationKind {
  std::string_view name, what;
  std::vector<AugmentationValue> values;
  /// Null for resized-crop, mixup and cutmix, which do not apply to an image by itself.
  Picture (*apply)(const Picture& picture, const std::vector<double>& values, RandomStream& random);
  /// Moves the pixels of a mask as apply() moves those of its image, given the same random numbers. Null if
  /// they stay.
  Picture (*apply_to_mask)(const Picture& mask, const std::vector<double>& values,
                           RandomStream& random) = nullptr;
};

const std::vector<AugmentationKind>& augmentation_kinds();

/// The meaning of "standard" for images like these: a crop, and a flip unless left and right matter, as for
/// digits and letters.
std::string standard_augmentation(const std::string& dataset, const ExampleSpec& spec);

/// `text` with "standard" replaced by its meaning for a dataset: "standard,cutmix" becomes
/// "crop,flip,cutmix".
std::string with_standard(const std::string& text, const std::string& standard);

}  // namespace athanor
