// Which batch sizes fit a device: planned memory and predicted time of steps that are not run.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/compile/step_times.h"
#include "athanor/train/config.h"
#include "athanor/train/learner.h"

namespace athanor {

/// A way to compute a training step.
struct FitCase {
  int64_t batch_size = 0;
  int64_t parts = 1;   // of --accumulate
  bool again = false;  // recomputes activations that do not fit
  Precision precision = Precision::f32;
  bool operator==(const FitCase&) const = default;
};

/// The memory and time of a case.
struct FitPoint {
  FitCase of;
  int64_t bytes = 0;   // planned
  double seconds = 0;  // predicted
  double share = 0;    // of the time, for recomputing
  double per_second() const { return static_cast<double>(of.batch_size) / seconds; }
};

/// Plans a model's training steps on a device, as a run of `config` makes them, with any batch size. Until a
/// step is run, no kernel is compiled, and the device need not have been examined.
class StepPlanner {
 public:
  /// Throws what making the model throws.
  StepPlanner(std::unique_ptr<const Task> task, const TrainConfig& config, Device device);

  /// The plan of the step, or of its last part. `limit`: the memory limit for recomputing. Throws
  /// Error(usage) if the step does not fit.
  std::shared_ptr<const Plan> plan(const FitCase& of, int64_t limit);
  /// A memory limit that is enough, and near the least, with all computed again that can be.
  int64_t least_bytes(FitCase of);
  /// The bytes of device memory of a run: this plan of the step, and the batches that wait.
  int64_t bytes(const Plan& plan, const FitCase& of) const;
  /// Runs a step on zeros, with the memory of a run: on a GPU the next batch is there. Returns its seconds.
  double run(const FitCase& of, int64_t limit);

 private:
  int64_t beside(const FitCase& of) const;

  Device device_;
  std::unique_ptr<const Task> task_;
  Learner learner_;
};

/// Finds what fits into `limit` bytes. Times are the sums of the plans' steps: the kernel's time where it was
/// measured, else the prediction by the device's best rates, scaled. The scale is that of one step of at most
/// 64 examples, which is run for each precision; without it times are the least possible.
class Fitter {
 public:
  struct Options {
    int64_t most_examples = int64_t{1} << 20;  // the largest batch to look at
    bool runs = true;                          // run a step, for the scale
  };
  Fitter(StepPlanner& planner, int64_t limit, const Options& options)
      : planner_(planner), limit_(limit), options_(options) {}
  Fitter(StepPlanner& planner, int64_t limit) : Fitter(planner, limit, Options{}) {}

  /// False if nothing was timed on the device and no step is run: times then only compare cases.
  bool knows_times() const { return options_.runs || times_.known(); }

  /// The smallest batch that the model takes in training, a power of two: batch norm needs more than one
  /// value of a channel. If no batch of up to 8 works, throws the model's error.
  int64_t least_batch();

  /// None if it does not fit.
  std::optional<FitPoint> look(const FitCase& of);
  /// Divides the batch into the fewest parts that fit: 2, 4, 8, ... times as many as `of` has, equal, each of
  /// at least least_batch() examples. None if no number fits.
  std::optional<FitPoint> in_parts(FitCase of);
  /// The largest batch in `of.parts` parts that fits, to a sixteenth; none if not even parts of least_batch()
  /// fit.
  std::optional<FitPoint> largest(FitCase of);

 private:
  double factor(Precision precision);

  StepPlanner& planner_;
  int64_t limit_;
  Options options_;
  int64_t least_batch_ = 0;  // 0: not known yet
  StepTimes times_;
  std::vector<std::pair<Precision, double>> factors_;  // measured time / predicted time
};

/// Batches whose examples a second differ by no more than this share count as equally fast.
inline constexpr double alike_in_speed = 0.05;

/// Of the batches in `parts` parts of a power of two, with all activations kept: the largest that is about as
/// fast for each example as the fastest of them. None if there is no such batch in `points`.
std::optional<FitPoint> largest_fast_batch(const std::vector<FitPoint>& points, int64_t parts,
                                           Precision precision);

/// The fastest way to compute a batch of this size, in the precision that comes first in `points` with it.
/// None if no point has this size.
std::optional<FitPoint> fastest_way(const std::vector<FitPoint>& points, int64_t batch_size);

/// The fastest way to compute the advised batch in another precision; none if that is not faster.
std::optional<FitPoint> faster_precision(const FitPoint& advised, const std::vector<FitPoint>& points);

/// How the speed of batches that are computed as `advised` changes with their size.
struct FitSpeeds {
  int64_t alike_from = 0;      // batches from this size up to the advised one are about as fast as that
  bool larger_slower = false;  // larger batches fit, but all of them are slower
};
FitSpeeds speeds_around(const FitPoint& advised, const std::vector<FitPoint>& points);

/// A chart of memory and time by batch size, of cases that fit and those that do not.
struct FitChart {
  std::string title, subtitle;
  int64_t limit = 0;
  bool knows_times = true;  // false: only their ratios
  struct Series {
    std::string name;
    std::vector<FitPoint> points;  // by batch size
  };
  std::vector<Series> series;
};
std::string draw_fit(const FitChart& chart);

}  // namespace athanor
