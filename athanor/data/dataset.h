// Labelled images, by index.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "athanor/graph/host_array.h"
#include "athanor/graph/shape.h"

namespace athanor {

/// How the pixels of channel c (0 to 255) become a network's inputs: (pixel / 255 - mean[c]) / stddev[c].
struct Normalization {
  std::vector<float> mean, stddev;  // one for each channel, or one for all
};

/// How a column of a table becomes inputs: A number becomes (x - mean) / stddev, and 0 (the mean) if it is
/// missing; if numbers were missing in training, a second input marks missing ones. A category becomes one
/// input for each known category: 1 for its own and 0 for the others; a missing or unknown category is 0 in
/// all.
struct ColumnEncoding {
  std::string name;
  double mean = 0, stddev = 1;
  bool may_miss = false;
  std::vector<std::string> categories = {};  // sorted; {} for a number
};

/// A number to predict. A network outputs (number - mean) / stddev.
struct TargetScale {
  double mean = 0, stddev = 1;
  bool operator==(const TargetScale&) const = default;
};

/// The properties that all examples of a dataset have in common.
struct ExampleSpec {
  Shape input;                           // [C, H, W]; for tables [1, 1, F], for text [T]
  int64_t classes = 0;                   // labels are in [0, classes); for text the vocabulary
  std::vector<std::string> class_names;  // one for each class, or empty
  Normalization normalization;           // already applied by read()
  std::vector<ColumnEncoding> columns;   // of a table; {} for images
  std::string fingerprint = {};          // of the data; other data may have equal values above
  /// If the targets are numbers: a scale for each of the `classes`, whose names are class_names. Labels are
  /// then 0.
  std::vector<TargetScale> targets = {};
  bool pixels = false;  // whether each pixel has a class of its own. Labels are then 0
};

/// An image as it is stored, u8 [height, width, 1 or 3], and the class of each pixel, u8 [height, width, 1]
/// (255: ignored).
struct PictureAndMask {
  HostArray picture, mask;
};

/// Examples that can be read in any order, from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  virtual const ExampleSpec& spec() const = 0;
  /// Writes the image to the spec().input.size() floats at `image_out`, and its label. `index` is in [0,
  /// size()).
  virtual void read(int64_t index, float* image_out, int64_t& label_out) const = 0;
  /// The image as it is stored, before it is fitted and normalised: u8 [height, width, 1 or 3] of its own
  /// size, and its label. Throws Error(usage) if the examples are not images.
  virtual HostArray picture(int64_t index, int64_t& label_out) const;
  /// Throws Error(usage) if pixels have no classes.
  virtual PictureAndMask picture_and_mask(int64_t index) const;
  /// Writes the targets to the spec().targets.size() floats at `out`, scaled. Throws Error(usage) if targets
  /// are not numbers.
  virtual void numbers(int64_t index, float* out) const;
  /// The label as it is stored, if possible without reading the example.
  virtual int64_t label(int64_t index) const;
  /// The examples that could not be read so far, each with the reason. Other examples took their place.
  virtual std::vector<std::string> broken() const { return {}; }
};

}  // namespace athanor
