// Which batches fit a device: planned memory and predicted time of steps that are not run.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/compile/step_times.h"
#include "athanor/nn/module.h"
#include "athanor/optim/grad_scaler.h"
#include "athanor/optim/optimizer.h"
#include "athanor/train/config.h"
#include "athanor/train/step_mark.h"

namespace athanor {

/// A way to compute a training step.
struct FitCase {
  int64_t batch_size = 0;
  int64_t parts = 1;   // of --accumulate
  bool again = false;  // computes again what does not fit
  Precision precision = Precision::f32;
  bool operator==(const FitCase&) const = default;
};

/// What it takes.
struct FitPoint {
  FitCase of;
  int64_t bytes = 0;   // planned
  double seconds = 0;  // predicted
  double share = 0;    // of it, for what is computed again
  double per_second() const { return static_cast<double>(of.batch_size) / seconds; }
};

/// Plans steps of one model on a device, of any size.
class StepPlanner {
 public:
  /// `input`: of one picture. Throws what making the model throws.
  StepPlanner(const TrainConfig& config, const Shape& input, int64_t classes, Device device);

  /// The plan of the step, or of its last part. `limit`: for what is computed again. Throws Error(usage)
  /// where it does not fit then.
  std::shared_ptr<const Plan> plan(const FitCase& of, int64_t limit);
  Device device() const { return device_; }
  /// Makes a step of zeros. Seconds, when it has been computed.
  double run(const FitCase& of, int64_t limit);

 private:
  template <class Make>
  Tensor step(const FitCase& of, const Make& make);

  TrainConfig config_;
  Shape input_;
  Device device_;
  std::unique_ptr<nn::Module> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::GradScaler> scaler_;
  std::optional<StepMark> mark_;
};

/// Finds what fits into `limit` bytes. Times are in proportion to the plans' predicted ones, and fixed by a
/// step of a small batch that is run for each precision.
class Fitter {
 public:
  Fitter(StepPlanner& planner, int64_t limit) : planner_(planner), limit_(limit) {}

  /// None where it does not fit.
  std::optional<FitPoint> look(const FitCase& of);
  /// In as few parts as fit: powers of two that divide the batch. None where no number does.
  std::optional<FitPoint> in_parts(FitCase of);
  /// The largest batch that fits, to a sixteenth; none where not one example does. `parts` is 1.
  std::optional<FitPoint> largest(FitCase of);

 private:
  double factor(Precision precision);

  StepPlanner& planner_;
  int64_t limit_;
  StepTimes times_;
  std::vector<std::pair<Precision, double>> factors_;  // measured by predicted
};

/// Memory and time by batch size, of cases that fit and those that would not, as a picture.
struct FitChart {
  std::string title, subtitle;
  int64_t limit = 0;
  struct Series {
    std::string name;
    std::vector<FitPoint> points;  // by batch size
  };
  std::vector<Series> series;
};
std::string draw_fit(const FitChart& chart);

}  // namespace athanor
