// The chart of a run: loss and accuracy (or its Quality), step by step.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "athanor/train/metrics.h"
#include "athanor/train/scoring.h"

namespace athanor {

/// A test that is not at the end of an epoch.
struct TestPoint {
  int64_t step = 0;
  double loss = 0, accuracy = 0;
};

struct Curves {
  std::string title, subtitle;
  std::vector<StepMetrics> steps;
  std::vector<EpochMetrics> epochs;    // drawn as points: the test data
  std::optional<TestPoint> last_test;  // drawn as one more point
  int64_t steps_in_all = 0;            // the chart's width, if more than were made
  Quality quality = {};                // what the accuracies are
  std::string tested = "images";       // what the test data is made of
};

/// A self-contained SVG document, for light and dark pages (prefers-color-scheme). Each panel shows the value
/// of every batch, faintly, and its running mean.
std::string draw_curves(const Curves& curves);

}  // namespace athanor
