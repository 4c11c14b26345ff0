#include "athanor/cli/model_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/base/threads.h"
#include "athanor/cli/numbers.h"
#include "athanor/compile/options.h"
#include "athanor/data/open_dataset.h"
#include "athanor/kernels/precision_support.h"
#include "athanor/nn/models.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/train/config_file.h"
#include "athanor/train/evaluation_mode.h"

namespace athanor::cli {
namespace {

constexpr int64_t largest_extent = 1 << 20;

/// Options that were not given are those of 'athanor train' for this model and task: some have another
/// optimizer.
void take_defaults(const CLI::App& command, ModelStepOptions& options) {
  at_least_one(command, {"--classes"});
  options.given = given_fields(command, options);
  const TrainConfig before = options.config;
  options.config = with_fields(defaults_of(options.given, before, false), options.given);
  if (!options.given.contains("device")) options.config.device = before.device;  // the command's own default
  options.config.batch_may_shrink = !options.given.contains("batch_size");
  // These have no effect on a step, so their files are not read.
  options.config.init.clear();
  options.config.choices.clear();
}

}  // namespace

void add_step_options(CLI::App& command, ModelStepOptions& options, const std::string& device_help) {
  add_config_options(command, options, OptionsFor::step, device_help);
  add_numbers(command, "--input", options.input,
              "channels,height,width of the images (default 1,28,28; inception_v3 3,299,299)")
      ->group("What to train")
      ->option_text("C,H,W");
  add_number(command, "--classes", options.classes,
             "classes, or the vocabulary of a language model (default 10, or bytes)")
      ->group("What to train")
      ->option_text("N");
  command.parse_complete_callback([&command, &options] { take_defaults(command, options); });
}

StepExamples examples_of(const ModelStepOptions& options) {
  TrainConfig checked = options.config;
  const bool text = nn::is_language_model(checked.model);
  if (text) checked.validation = default_config(checked.model).validation;  // valid; there is no data
  checked.validate();
  const auto implausible = [](int64_t extent) { return extent < 1 || extent > largest_extent; };
  if (!options.input.empty() &&
      (options.input.size() != 3 || std::ranges::any_of(options.input, implausible)))
    throw Error(ErrorCode::usage,
                fmt::format("'{}' is not the shape of an image", fmt::join(options.input, ",")), "--input",
                "Give channels, height and width: --input 3,32,32");
  compile_options().deterministic |= checked.deterministic;
  compile_options().check_nan |= checked.check_nan;
  const TaskKind kind = task_kind(checked);
  const bool has_data = options.given.contains("data");
  if (has_data) check_kind_of_data(checked);
  if (!text && has_data) {
    const auto data = open_dataset(checked.data, Split::train,
                                   {.image_size = checked.image_size,
                                    .numbers = kind == TaskKind::regression,
                                    .target = checked.target,
                                    .most_broken = checked.max_broken});
    return {data->spec(), data->size()};
  }
  ExampleSpec spec;
  spec.input = text || options.input.empty() ? nn::default_input(checked.model) : Shape(options.input);
  if (text && checked.context > 0) spec.input = {checked.context};
  if (text) return {{.input = spec.input, .classes = options.classes}, {}};  // 0: the tokenizer's
  const bool numbers = kind == TaskKind::regression;
  spec.classes = options.classes > 0 ? options.classes : numbers ? 1 : nn::default_classes(checked.model);
  if (numbers) spec.targets.resize(static_cast<size_t>(spec.classes));
  spec.pixels = kind == TaskKind::segmentation;
  spec.normalization = {{0}, {1}};
  return {spec, {}};
}

ModelStep::ModelStep(const ModelStepOptions& options, Device device) : options_(options), device_(device) {
  const StepExamples examples = examples_of(options);
  TrainConfig& config = options_.config;
  if (examples.count) shrink_batch(config, *examples.count);
  set_cpu_threads(static_cast<int>(config.threads));
  precision_note_ = require_precision(device_, parse_precision(config.precision));
  task_ = task_without_data(config, examples.spec);
  learner_.emplace(*task_, config, device_);
  memory_.emplace(config, *task_, device_);
}

Tensor ModelStep::answers(const Tensor& inputs) {
  const EvaluationMode mode(learner_->model());
  const Autocast scope(learner_->precision());
  const NoGrad no_history;
  return learner_->model()(inputs);
}

std::shared_ptr<const Plan> ModelStep::plan() {
  if (!options_.inference) return learner_->plan_of_a_step(options_.config.batch_size);
  TensorType inputs = task_->input_type(options_.config.batch_size);
  inputs.device = device_;
  return plan_for({answers(Tensor::placeholder(inputs))});
}

void ModelStep::run() {
  const TrainConfig& config = options_.config;
  const Uploaded zeros = batch_of_zeros(*task_, config.batch_size, parts(), device_);
  if (options_.inference)
    answers(zeros.parts[0].inputs).eval();
  else
    learner_->step(zeros, config.learning_rate()).loss.item();
}

}  // namespace athanor::cli
