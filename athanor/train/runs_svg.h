// The curves of several runs in one chart.
#pragma once
#include <string>
#include <vector>

#include "athanor/train/metrics.h"

namespace athanor {

struct RunCurve {
  std::string name, note;  // "runs/a", "accuracy 91.2 %"
  std::vector<StepMetrics> steps;
  std::vector<EpochMetrics> epochs;
};

/// An SVG document that stands by itself, for light and dark pages: loss and accuracy of each run, the
/// running mean in training as a line and each test as a point, in the colour that the run has in the legend.
std::string draw_runs(const std::string& title, const std::vector<RunCurve>& runs);

}  // namespace athanor
