#include "athanor/cli/model_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/threads.h"
#include "athanor/cli/command_line.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/numbers.h"
#include "athanor/cli/trained_model.h"
#include "athanor/compile/options.h"
#include "athanor/data/open_dataset.h"
#include "athanor/kernels/kernel.h"
#include "athanor/kernels/precision_support.h"
#include "athanor/nn/models.h"
#include "athanor/runtime/eval_in_portions.h"
#include "athanor/train/param_groups.h"
#include "athanor/train/training_step.h"

namespace athanor::cli {
namespace {

constexpr int64_t largest_extent = 1 << 20;

/// What was not given is as 'athanor train' has it of this model: language models have another optimizer.
void take_defaults_of_model(const CLI::App& command, TrainConfig& config) {
  at_least_one(command, {"--batch-size", "--classes", "--context", "--lora", "--threads"});
  const nlohmann::json given = to_json(config), usual = to_json(TrainConfig());
  nlohmann::json all = to_json(default_config(config.model));
  for (const auto& [name, value] : given.items()) {
    const CLI::Option* option = command.get_option_no_throw(option_name(name));
    const bool by_command = value != usual[name];  // which has a default of its own
    if (by_command || (option != nullptr && option->count() > 0)) all[name] = value;
  }
  config = train_config_from_json(all, "options");
}

}  // namespace

void add_step_options(CLI::App& command, ModelStepOptions& options) {
  TrainConfig& config = options.config;
  suggest(command.add_option("--model", config.model,
                             names_of(nn::model_names()) +
                                 fmt::format(", or a library, as ./mine.so (default {})", config.model)),
          nn::model_names())
      ->option_text("NAME");
  add_number(command, "--batch-size", config.batch_size,
             fmt::format("images or texts in a step (default {}, for text 32)", config.batch_size))
      ->option_text("N");
  suggest(command.add_option("--optimizer", config.optimizer,
                             names_of(optim::optimizer_names()) +
                                 fmt::format(" (default {}; for text adamw)", config.optimizer)),
          optim::optimizer_names())
      ->option_text("NAME");
  suggest(command.add_option("--precision", config.precision,
                             "f32, tf32, bf16 or f16, as for train (default f32)"),
          precision_names())
      ->option_text("NAME");
  suggest(command.add_option("--data", options.data, "take shape and classes from a dataset, as for train"),
          dataset_names())
      ->option_text("NAME|DIR");
  add_numbers(command, "--input", options.input,
              "channels,height,width of the images (default 1,28,28; inception_v3 3,299,299)")
      ->option_text("C,H,W");
  add_number(command, "--classes", options.classes,
             "classes, or the vocabulary of a language model (default 10, or bytes)")
      ->option_text("N");
  add_number(command, "--context", config.context, "tokens that a language model sees (default: the model's)")
      ->option_text("N");
  add_number(command, "--threads", config.threads,
             "threads of the CPU's kernels (default: one for each core)")
      ->option_text("N");
  add_bytes(command, "--memory-limit", options.memory_limit,
            "the most device memory that the step may take, such as 2GiB; activations that do not fit are "
            "recomputed");
  suggest(command.add_option("--offload", config.offload, "optimizer: keep its state in host memory"),
          {"optimizer"})
      ->option_text("NAME");
  add_number(command, "--lora", config.lora, "train only adapters of this rank, as for train (default: none)")
      ->option_text("RANK");
  command.add_flag("--inference", options.inference, "only the forward pass");
  command.add_flag("--deterministic", config.deterministic, "choose kernels without timing them");
  command.parse_complete_callback([&command, &config] { take_defaults_of_model(command, config); });
}

void add_device_option(CLI::App& command, ModelStepOptions& options) {
  suggest(command.add_option("--device", options.config.device,
                             device_help() + ": see 'athanor detect' (default auto)"),
          device_words())
      ->option_text("NAME");
  add_trust_option(command);
}

ExampleSpec examples_of(const ModelStepOptions& options) {
  TrainConfig checked = options.config;
  const bool text = nn::is_language_model(checked.model);
  if (text) checked.validation = default_config(checked.model).validation;  // of no data
  checked.validate();
  const auto implausible = [](int64_t extent) { return extent < 1 || extent > largest_extent; };
  if (!options.input.empty() &&
      (options.input.size() != 3 || std::ranges::any_of(options.input, implausible)))
    throw Error(ErrorCode::usage,
                fmt::format("'{}' is not the shape of an image", fmt::join(options.input, ",")), "--input",
                "Give channels, height and width: --input 3,32,32");
  compile_options().deterministic |= checked.deterministic;
  if (!text && !options.data.empty()) return open_dataset(options.data, Split::train)->spec();
  ExampleSpec spec;
  spec.input = text || options.input.empty() ? nn::default_input(checked.model) : Shape(options.input);
  if (text && checked.context > 0) spec.input = {checked.context};
  spec.classes = options.classes > 0 ? options.classes : nn::default_classes(checked.model);
  return spec;
}

ModelStep::ModelStep(const ModelStepOptions& options, Device device) : options_(options), device_(device) {
  const ExampleSpec spec = examples_of(options);
  const TrainConfig& config = options.config;
  set_cpu_threads(static_cast<int>(config.threads));
  model_ = nn::make_model(config.model, spec.input, spec.classes);
  add_adapters(*model_, config);
  eval_in_portions();
  model_->to(device_).train(!options.inference);
  optimizer_ = make_optimizer(config, model_->parameters());
  if (config.offload == "optimizer" && !backend_of(device_).shares_host_memory(device_.index))
    optimizer_->offload_state();
  require_precision(device_, parse_precision(config.precision));
  if (config.precision == "f16") scaler_.emplace(device_);
  form_ = batch_form(config.model, spec.input, config.batch_size, device_);
  eval_in_portions();  // initial values are not part of the step
  compile_options().memory_limit = options.memory_limit;
}

std::vector<Tensor> ModelStep::outline() {
  return step_on(Tensor::placeholder(form_.inputs), Tensor::placeholder(form_.targets));
}

std::vector<Tensor> ModelStep::build() {
  const auto zeros = [&](const TensorType& type) {
    return Tensor::from(HostArray(type.dtype, type.shape), device_);
  };
  return step_on(zeros(form_.inputs), zeros(form_.targets));
}

std::vector<Tensor> ModelStep::step_on(const Tensor& inputs, const Tensor& labels) {
  const Precision precision = parse_precision(options_.config.precision);
  if (!options_.inference) {
    const PendingStep step = training_step(*model_, *optimizer_, inputs, labels,
                                           {.loss = form_.loss,
                                            .clip_norm = options_.config.clip_norm,
                                            .precision = precision,
                                            .scaler = scaler_ ? &*scaler_ : nullptr});
    return {step.loss, step.correct};
  }
  const Autocast scope(precision);
  const NoGrad no_history;
  return {(*model_)(inputs)};
}

}  // namespace athanor::cli
