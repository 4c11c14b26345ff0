// The contents of a dataset.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "athanor/data/dataset.h"
#include "athanor/formats/image.h"

namespace athanor {

struct SplitSurvey {
  int64_t examples = 0;
  std::vector<int64_t> by_class;  // how many examples each class has
  // For image files:
  int64_t looked_at = 0;                   // how many were opened
  ImageExtents smallest, median, largest;  // by area, of the opened ones
  int64_t grey = 0;                        // how many of the opened ones have no colour
  std::vector<std::string> broken;         // why they cannot be read
  // For pictures with masks, counted over those that were opened:
  std::vector<int64_t> pixels_by_class;
  int64_t ignored_pixels = 0;  // that do not count
};

struct SurveyOptions {
  /// Decode every image, not only the headers of up to 2000, evenly spread.
  bool whole = false;
  int threads = 1;
  /// Called now and then with the number of opened images. May throw to end the survey.
  std::function<void(int64_t done, int64_t of)> progress = [](int64_t, int64_t) {};
};

/// Counts the examples of a split, and looks at its image files. Other examples are not read: they were
/// checked when the dataset was opened.
SplitSurvey survey(const Dataset& dataset, const SurveyOptions& options);

}  // namespace athanor
