// A step of a model, for commands that look at its plan: explain, tune, kernels.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/data/dataset.h"
#include "athanor/device/device.h"
#include "athanor/nn/module.h"
#include "athanor/optim/grad_scaler.h"
#include "athanor/optim/optimizer.h"
#include "athanor/train/batch_form.h"
#include "athanor/train/config.h"

namespace CLI {
class App;
}

namespace athanor::cli {

struct ModelStepOptions {
  TrainConfig config;
  std::string data;
  std::vector<int64_t> input;  // {}: nn::default_input()
  int64_t classes = 0;         // 0: nn::default_classes()
  int64_t memory_limit = 0;
  bool inference = false;
};

/// --model, --batch-size, --optimizer, --precision, --data, --input, --classes, --threads, --inference,
/// --deterministic.
void add_step_options(CLI::App& command, ModelStepOptions& options);
/// --device and --trust
void add_device_option(CLI::App& command, ModelStepOptions& options);

/// The examples that the options ask for: those of a dataset, or made up. Checks the options, and applies
/// them to compile_options(). Throws Error(usage) for options that make no sense.
ExampleSpec examples_of(const ModelStepOptions& options);

/// A model on a device, and batches for it.
class ModelStep {
 public:
  /// Throws Error(usage) for options that make no sense.
  ModelStep(const ModelStepOptions& options, Device device);
  /// The results of one step, not computed: those that training asks for, or the logits. To be planned only:
  /// of the batch there is nothing but its type, so that any size can be looked at.
  std::vector<Tensor> outline();
  /// The same of a batch of zeros, to be computed.
  std::vector<Tensor> build();

 private:
  std::vector<Tensor> step_on(const Tensor& inputs, const Tensor& labels);
  const ModelStepOptions& options_;
  Device device_;
  std::unique_ptr<nn::Module> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::GradScaler> scaler_;  // for f16
  BatchForm form_;
};

}  // namespace athanor::cli
