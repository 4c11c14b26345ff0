// The curves of several runs in one chart.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "athanor/train/loss_svg.h"
#include "athanor/train/metrics.h"

namespace athanor {

struct RunCurve {
  std::string name, note;  // "runs/a", "accuracy 91.2 %"
  std::vector<StepMetrics> steps;
  std::vector<EpochMetrics> epochs;
  std::optional<TestPoint> last_test;  // in the middle of an epoch, where --max-steps ended the run
};

/// A self-contained SVG document, for light and dark pages: loss and accuracy of each run, the running mean
/// in training as a line and each test as a point, in the colour that the run has in the legend.
std::string draw_runs(const std::string& title, const std::vector<RunCurve>& runs);

}  // namespace athanor
