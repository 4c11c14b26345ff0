// Labelled pictures, by index.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "athanor/graph/shape.h"

namespace athanor {

/// How the pixels of channel c (0 to 255) become a network's inputs: (pixel / 255 - mean[c]) / stddev[c].
struct Normalization {
  std::vector<float> mean, stddev;  // one for each channel, or one for all
};

/// What all examples of a dataset have in common.
struct ExampleSpec {
  Shape input;                           // [C, H, W]
  int64_t classes = 0;                   // labels are in [0, classes)
  std::vector<std::string> class_names;  // one for each class, or empty
  Normalization normalization;           // already applied by read()
};

/// Examples that can be read in any order, from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  virtual const ExampleSpec& spec() const = 0;
  /// Writes the picture to the spec().input.size() floats at `image_out`, and its label. `index` is in [0,
  /// size()).
  virtual void read(int64_t index, float* image_out, int64_t& label_out) const = 0;
};

}  // namespace athanor
