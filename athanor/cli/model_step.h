// A step of a model, for commands that look at its plan: explain, fit, tune, kernels.
#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "athanor/cli/config_options.h"
#include "athanor/data/dataset.h"
#include "athanor/device/device.h"
#include "athanor/train/learner.h"
#include "athanor/train/memory_scope.h"

namespace CLI {
class App;
}

namespace athanor::cli {

struct ModelStepOptions : ConfigOptions {
  std::vector<int64_t> input;  // {}: nn::default_input()
  int64_t classes = 0;         // 0: nn::default_classes()
  bool inference = false;
  /// The fields of TrainConfig that were given. Without "data", there is no dataset.
  nlohmann::json given = nlohmann::json::object();
};

/// train's options that decide what a step is, and --input and --classes. When the command line has been
/// read, all fields of the options have values.
void add_step_options(CLI::App& command, ModelStepOptions& options, const std::string& device_help = {});

/// The examples that the options ask for: those of a dataset, or made up.
struct StepExamples {
  ExampleSpec spec;
  std::optional<int64_t> count;  // to train on, for a dataset
};
/// Checks the options, and applies them to compile_options(). Throws Error(usage) for options that make no
/// sense, and what opening the data throws.
StepExamples examples_of(const ModelStepOptions& options);

/// The model on a device that a run with these options would train.
class ModelStep {
 public:
  /// Throws Error(usage) for options that make no sense.
  ModelStep(const ModelStepOptions& options, Device device);
  /// The plan of a training step (with --accumulate, of its last part) or of the forward pass. Batches of any
  /// size can be looked at, because there is no data.
  std::shared_ptr<const Plan> plan();
  /// The default, unless the data has fewer examples.
  int64_t batch_size() const { return options_.config.batch_size; }
  /// The parts of the batch (--accumulate); the forward pass has one.
  int64_t parts() const { return options_.inference ? 1 : options_.config.accumulate; }
  /// What the precision costs on the device (kernels/precision_support.h).
  const std::string& precision_note() const { return precision_note_; }
  /// Computes that step on a batch of zeros.
  void run();

 private:
  Tensor answers(const Tensor& inputs);

  ModelStepOptions options_;
  Device device_;
  std::string precision_note_;
  std::unique_ptr<const Task> task_;
  std::optional<Learner> learner_;
  std::optional<MemoryScope> memory_;
};

}  // namespace athanor::cli
