#include "athanor/cli/model_step.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "athanor/backends/cpu/threads.h"
#include "athanor/base/error.h"
#include "athanor/cli/commands.h"
#include "athanor/compile/options.h"
#include "athanor/data/open_dataset.h"
#include "athanor/nn/models.h"
#include "athanor/train/training_step.h"

namespace athanor::cli {

void add_step_options(CLI::App& command, StepOptions& options) {
  TrainConfig& config = options.config;
  command
      .add_option("--model", config.model,
                  names_of(nn::model_names()) + fmt::format(" (default {})", config.model))
      ->option_text("NAME");
  command
      .add_option("--batch-size", config.batch_size,
                  fmt::format("pictures a step (default {})", config.batch_size))
      ->option_text("N");
  command
      .add_option("--optimizer", config.optimizer,
                  names_of(optim::optimizer_names()) + fmt::format(" (default {})", config.optimizer))
      ->option_text("NAME");
  command.add_option("--data", options.data, "take shape and classes from a dataset, as for train")
      ->option_text("NAME|DIR");
  command.add_option("--input", options.input, "channels,height,width of the pictures (default 1,28,28)")
      ->delimiter(',')
      ->expected(1, 3)
      ->option_text("C,H,W");
  command.add_option("--classes", options.classes, "(default 10)")->option_text("N");
  command.add_option("--threads", config.threads, "of the CPU's kernels (default: one for each core)")
      ->option_text("N");
  command.add_flag("--inference", options.inference, "only the forward pass");
  command.add_flag("--deterministic", config.deterministic, "choose kernels without timing them");
}

void add_device_option(CLI::App& command, StepOptions& options) {
  command
      .add_option("--device", options.config.device,
                  "auto, cpu, gpu, opencl:0, ...: see 'athanor detect' (default auto)")
      ->option_text("NAME");
}

ModelStep::ModelStep(const StepOptions& options, Device device) : options_(options), device_(device) {
  options.config.validate();
  if (options.input.size() != 3 ||
      std::ranges::any_of(options.input, [](int64_t extent) { return extent < 1; }) || options.classes < 1)
    throw Error(ErrorCode::usage, "the shape of the pictures makes no sense", "--input and --classes",
                "Give channels, height and width ('--input 3,32,32') and at least one class");
  compile_options().deterministic |= options.config.deterministic;
  const TrainConfig& config = options.config;
  ExampleSpec spec;
  spec.input = options.input;
  spec.classes = options.classes;
  if (!options.data.empty()) spec = open_dataset(options.data, Split::train)->spec();
  set_cpu_threads(static_cast<int>(config.threads));
  model_ = nn::make_model(config.model, spec.input, spec.classes);
  model_->to(device_).train(!options.inference);
  optimizer_ = make_optimizer(config, model_->parameters());
  pictures_ = HostArray(DType::f32, spec.input.insert(0, config.batch_size));
  labels_ = HostArray(DType::i64, {config.batch_size});
  eval({});  // initial values are not part of the step
}

std::vector<Tensor> ModelStep::build() {
  const Tensor pictures = Tensor::from(pictures_, device_);
  if (!options_.inference) {
    const PendingStep step = training_step(*model_, *optimizer_, pictures, Tensor::from(labels_, device_));
    return {step.loss, step.correct};
  }
  const NoGrad no_history;
  return {(*model_)(pictures)};
}

}  // namespace athanor::cli
