// What a training step changes: a model, its optimizer, and the scale of the loss.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "athanor/compile/plan.h"
#include "athanor/train/checkpoint.h"
#include "athanor/train/class_counts.h"
#include "athanor/train/step_mark.h"
#include "athanor/train/task.h"
#include "athanor/train/training_step.h"
#include "athanor/train/weight_average.h"

namespace athanor {

/// A batch in a device's memory, in the parts of --accumulate.
struct Uploaded {
  std::vector<BatchPart> parts;
  int64_t counted = 0;  // targets that count
};

/// A batch of zeros, made on the device.
Uploaded batch_of_zeros(const Task& task, int64_t batch_size, int64_t parts, Device device);

class Learner {
 public:
  /// A new model of the task and its optimizer, on the device. `task` must outlive it.
  Learner(const Task& task, const TrainConfig& config, Device device);

  nn::Module& model() { return *model_; }
  const nn::Module& model() const { return *model_; }
  /// The message of load_initial_values(); "" without --init.
  const std::string& init_note() const { return init_note_; }
  /// The message of add_adapters(); "" without --lora.
  const std::string& adapter_note() const { return adapter_note_; }
  /// Why --offload has no effect on the device; "" if it has one or was not asked for.
  const std::string& offload_note() const { return offload_note_; }
  /// How many numbers are trained.
  int64_t trained_count() const;
  bool scales_loss() const { return scaler_.has_value(); }

  /// Builds and launches a step. If it is interrupted before it has changed anything, all is as before; see
  /// whole().
  PendingStep step(const Uploaded& batch, double lr);
  /// False if a step was given up and could not be undone.
  bool whole() const { return whole_; }
  /// The plan of a step. The step is not computed, and nothing changes.
  std::shared_ptr<const Plan> plan_of_a_step(int64_t batch_size) {
    return plan_of_a_step(batch_size, config_.accumulate);
  }
  /// The same for a batch in `parts` parts: the plan of the last one.
  std::shared_ptr<const Plan> plan_of_a_step(int64_t batch_size, int64_t parts);
  /// Sets the precision of products from now on; f16 only if TrainConfig::precision is f16.
  void set_precision(Precision precision) { precision_ = precision; }
  Precision precision() const { return precision_; }

  /// Sum of loss and count of right answers over the task's test batches, with the average of weights if
  /// there is one.
  TestResult test(int64_t batch_size, const std::function<bool(int64_t done)>& go_on);

  /// Task::sample(), with the average of weights if there is one.
  std::string sample(int64_t tokens, uint64_t seed);
  /// The values for using the model: state_dict(), with the averages of the weights if there are any.
  nn::StateDict best_values() const;

  /// The size of what a checkpoint holds.
  uint64_t bytes() const;
  /// Puts the whole state into a checkpoint, or takes it from one. load() throws Error(name|shape|value).
  void store(Checkpoint& checkpoint) const;
  void load(const Checkpoint& checkpoint);

 private:
  PendingStep build(const std::vector<BatchPart>& parts);
  /// The bytes on the device that the plans of a batch's first parts do not count.
  int64_t bytes_beside_parts() const;

  const Task& task_;
  const TrainConfig config_;
  const Device device_;
  Precision precision_;
  std::unique_ptr<nn::Module> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::GradScaler> scaler_;  // for f16
  std::optional<WeightAverage> average_;     // for --ema
  std::optional<StepMark> mark_;             // of the step under way
  bool whole_ = true;
  std::string init_note_, adapter_note_, offload_note_;
};

}  // namespace athanor
