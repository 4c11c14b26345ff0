// What a run reports while it runs.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "athanor/device/device.h"
#include "athanor/runtime/tuning_session.h"
#include "athanor/train/config.h"
#include "athanor/train/metrics.h"
#include "athanor/train/run_folder.h"
#include "athanor/train/scoring.h"
#include "athanor/train/summary.h"

namespace athanor {

/// Known before the first step.
struct RunFacts {
  TrainConfig config;
  RunFolder folder;
  DeviceInfo device;
  std::string device_why;           // "the only device"
  std::string precision_note = {};  // what the precision costs on the device; "" if it costs nothing
  std::string batch_note = {};      // why the batch is smaller than its default; "" if it is not
  std::string trust;                // why the device's numbers may be wrong; "" if they are not
  int64_t threads = 0, parameters = 0;
  int64_t trained = 0;            // of the parameters
  std::string init_note = {};     // where the first values are from; "" if they are random
  std::string adapter_note = {};  // Learner::adapter_note()
  std::string offload_note = {};  // Learner::offload_note()
  std::string data;               // "60,000 training and 10,000 test images of 1x28x28, 10 classes"
  int64_t test_count = 0;         // images, or tokens
  std::shared_ptr<const Scoring> scoring = std::make_shared<ClassScoring>();
  int64_t steps_before = 0;    // made earlier by the run that is resumed
  int64_t skipped_before = 0;  // of these, with loss scaling
  int64_t steps_in_epoch = 0;
  int64_t steps_in_all = 0;  // if nothing stops it
};

/// Known after the first step.
struct StepFacts {
  double compile_seconds = 0;  // choosing and making kernels
  double timing_seconds = 0;   // of them, timing candidates
  int64_t problems_timed = 0;  // whose candidates were timed
  int64_t kernels = 0, planned_memory_bytes = 0;
  std::vector<std::string> libraries = {};  // Plan::libraries
};

/// Tuning during a run.
struct TuningFacts {
  int64_t step = 0;                   // the next one
  std::vector<KernelChange> changes;  // from this step on
  TuningState state;
};

/// A new number of CPU threads, because other programs use more or fewer cores.
struct ThreadFacts {
  int64_t step = 0;               // the next one
  int64_t threads = 0, most = 0;  // from this step on, and on a quiet machine
  int64_t part_time = 0;          // further threads that help on the cores of other programs
  double others = 0;              // cores that other programs use
};

/// Calls come from the training thread, which waits for them.
class Reporter {
 public:
  virtual ~Reporter() = default;
  /// The run waits, for example for "timing kernels", "2 of 4 for conv2d". May be called before started().
  virtual void waiting(const std::string& /*what*/, const std::string& /*how_far*/) {}
  virtual void started(const RunFacts&) {}
  virtual void compiled(const StepFacts&) {}
  /// A problem was timed, or kernels change.
  virtual void tuned(const TuningFacts&) {}
  virtual void threads_changed(const ThreadFacts&) {}
  virtual void stepped(const StepMetrics&, double /*seconds*/) {}
  virtual void tested(int64_t /*done*/, int64_t /*of*/) {}
  virtual void epoch_ended(const EpochMetrics&) {}
  /// Text that a language model wrote, after this many steps.
  virtual void sampled(int64_t /*step*/, const std::string& /*text*/) {}
  virtual void ended(const Summary&) {}
};

}  // namespace athanor
