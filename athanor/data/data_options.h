// Options for opening a dataset.
#pragma once
#include <cstdint>
#include <optional>

#include "athanor/data/dataset.h"

namespace athanor {

enum class Split { train, test };

struct DataOptions {
  /// What a model was trained on: the examples get the same form, normalisation and classes. None: taken from
  /// the training examples.
  std::optional<ExampleSpec> like = {};
  /// Image files are cropped and scaled to this height and width; 0: to 224, or to their own size if it is
  /// the same for all, and at most 256.
  int64_t image_size = 0;
  /// Whether the targets are numbers (for regression) instead of classes.
  bool numbers = false;
  /// The column of a table with the class, or the columns with the numbers ("width,height"). "": the one
  /// called label, class, target or y, or else the last.
  std::string target = {};
  /// How many unreadable examples are skipped before it is an error.
  int64_t most_broken = 10;
};

}  // namespace athanor
