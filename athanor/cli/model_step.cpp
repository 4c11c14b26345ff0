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
#include "athanor/train/language_modelling.h"
#include "athanor/train/training_step.h"

namespace athanor::cli {
namespace {

constexpr int64_t largest_extent = 1 << 20;

/// What was not given is as 'athanor train' has it of this model: language models have another optimizer.
void take_defaults_of_model(const CLI::App& command, TrainConfig& config) {
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
                             names_of(nn::model_names()) + fmt::format(" (default {})", config.model)),
          nn::model_names())
      ->option_text("NAME");
  add_number(command, "--batch-size", config.batch_size,
             fmt::format("pictures or texts a step (default {}, for text 32)", config.batch_size))
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
  add_numbers(command, "--input", options.input, "channels,height,width of the pictures (default 1,28,28)")
      ->option_text("C,H,W");
  add_number(command, "--classes", options.classes, "or the vocabulary of a language model (default 10, 256)")
      ->option_text("N");
  add_number(command, "--context", config.context, "tokens that a language model sees (default: the model's)")
      ->option_text("N");
  add_number(command, "--threads", config.threads, "of the CPU's kernels (default: one for each core)")
      ->option_text("N");
  add_bytes(command, "--memory-limit", options.memory_limit,
            "what the step may take of the device, such as 2GiB: what does not fit is computed again");
  suggest(command.add_option("--offload", config.offload, "optimizer: keep its state in the host's memory"),
          {"optimizer"})
      ->option_text("NAME");
  command.add_flag("--inference", options.inference, "only the forward pass");
  command.add_flag("--deterministic", config.deterministic, "choose kernels without timing them");
  command.parse_complete_callback([&command, &config] { take_defaults_of_model(command, config); });
}

void add_device_option(CLI::App& command, ModelStepOptions& options) {
  suggest(command.add_option("--device", options.config.device,
                             "auto, cpu, gpu, opencl:0, ...: see 'athanor detect' (default auto)"),
          device_words)
      ->option_text("NAME");
  add_trust_option(command);
}

ModelStep::ModelStep(const ModelStepOptions& options, Device device) : options_(options), device_(device) {
  TrainConfig checked = options.config;
  if (nn::is_language_model(checked.model)) checked.validation = 0.1;  // of no data
  checked.validate();
  const auto implausible = [](int64_t extent) { return extent < 1 || extent > largest_extent; };
  if (options.input.size() != 3 || std::ranges::any_of(options.input, implausible))
    throw Error(ErrorCode::usage, fmt::format("'{}' is no shape of pictures", fmt::join(options.input, ",")),
                "--input", "Give channels, height and width: --input 3,32,32");
  compile_options().deterministic |= options.config.deterministic;
  const TrainConfig& config = options.config;
  const bool text = nn::is_language_model(config.model);
  ExampleSpec spec;
  spec.input = options.input;
  spec.classes = options.classes > 0 ? options.classes : text ? 256 : 10;
  if (text)
    spec.input = {config.context > 0 ? config.context : nn::default_context(config.model)};
  else if (!options.data.empty())
    spec = open_dataset(options.data, Split::train)->spec();
  set_cpu_threads(static_cast<int>(config.threads));
  model_ = nn::make_model(config.model, spec.input, spec.classes);
  model_->to(device_).train(!options.inference);
  optimizer_ = make_optimizer(config, model_->parameters());
  if (config.offload == "optimizer" && !backend_of(device_).shares_host_memory(device_.index))
    optimizer_->offload_state();
  require_precision(device_, parse_precision(config.precision));
  if (config.precision == "f16") scaler_.emplace(device_);
  inputs_ = {text ? DType::i64 : DType::f32, spec.input.insert(0, config.batch_size), device_};
  labels_ = {DType::i64, text ? inputs_.shape : Shape{config.batch_size}, device_};
  eval({});  // initial values are not part of the step
  compile_options().memory_limit = options.memory_limit;
}

std::vector<Tensor> ModelStep::outline() {
  return step_on(Tensor::placeholder(inputs_), Tensor::placeholder(labels_));
}

std::vector<Tensor> ModelStep::build() {
  return step_on(Tensor::from(HostArray(inputs_.dtype, inputs_.shape), device_),
                 Tensor::from(HostArray(labels_.dtype, labels_.shape), device_));
}

std::vector<Tensor> ModelStep::step_on(const Tensor& inputs, const Tensor& labels) {
  const Precision precision = parse_precision(options_.config.precision);
  if (!options_.inference) {
    const PendingStep step = training_step(
        *model_, *optimizer_, inputs, labels,
        {.loss = nn::is_language_model(options_.config.model) ? LossFunction(predict_next) : LossFunction(),
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
