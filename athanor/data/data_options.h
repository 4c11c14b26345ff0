// What may be said about a dataset when it is opened.
#pragma once
#include <cstdint>
#include <optional>

#include "athanor/data/dataset.h"

namespace athanor {

enum class Split { train, test };

struct DataOptions {
  /// What a model was trained on: the examples get the same form, normalisation and classes. None: what the
  /// training examples say.
  std::optional<ExampleSpec> like = {};
  /// Picture files are cut and scaled to this height and width; 0: to 224, or to their own size where all are
  /// of one size up to 256.
  int64_t image_size = 0;
  /// Whether the targets are numbers, which regression predicts, and not classes.
  bool numbers = false;
  /// The column of a table with the class, or the columns with the numbers ("width,height"). "": called
  /// label, class, target or y, or the last.
  std::string target = {};
  /// How many examples that cannot be read are passed over before it is an error.
  int64_t most_broken = 10;
};

}  // namespace athanor
