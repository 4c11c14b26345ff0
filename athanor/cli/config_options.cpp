#include "athanor/cli/config_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "athanor/cli/command_line.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/numbers.h"
#include "athanor/cli/trained_model.h"
#include "athanor/compile/options.h"
#include "athanor/data/augmentation.h"
#include "athanor/data/open_dataset.h"
#include "athanor/graph/precision.h"
#include "athanor/nn/models.h"
#include "athanor/optim/optimizer.h"
#include "athanor/optim/schedule.h"
#include "athanor/train/config_file.h"

namespace athanor::cli {
namespace {

std::vector<std::string> augmentation_words() {
  std::vector<std::string> words{"none", "standard"};
  for (const AugmentationKind& kind : augmentation_kinds()) words.emplace_back(kind.name);
  return words;
}

/// Adds options to a command: all, or only those of a step.
class OptionTable {
 public:
  OptionTable(CLI::App& command, OptionsFor use) : command_(command), use_(use) {}
  void begin(const char* section) { section_ = section; }

  /// An option that decides what a step computes.
  template <class T>
  OptionTable& step(const char* name, T& value, const char* type, const std::string& text) {
    return keep(add(name, value, text), type);
  }
  /// An option that decides something else about a run.
  template <class T>
  OptionTable& run(const char* name, T& value, const char* type, const std::string& text) {
    added_ = nullptr;
    return use_ == OptionsFor::run ? step(name, value, type, text) : *this;
  }
  OptionTable& bytes(const char* name, int64_t& value, const std::string& text) {
    return keep(add_bytes(command_, name, value, text), "SIZE");
  }
  /// The values that the option that was just added may have.
  void of(const std::vector<std::string>& choices) {
    if (added_ != nullptr) suggest(added_, choices);
  }

 private:
  template <class T>
  CLI::Option* add(const char* name, T& value, const std::string& text) {
    if constexpr (std::is_same_v<T, bool>)
      return command_.add_flag(name, value, text);
    else if constexpr (std::is_same_v<T, std::string>)
      return command_.add_option(name, value, text);
    else
      return add_number(command_, name, value, text);
  }
  OptionTable& keep(CLI::Option* option, const char* type) {
    added_ = option->group(section_)->option_text(type);
    return *this;
  }

  CLI::App& command_;
  OptionsFor use_;
  const char* section_ = "";
  CLI::Option* added_ = nullptr;
};

// The model without --model and --task. `otherwise`: for images.
std::string model_for(DataKind kind, const std::string& otherwise) {
  switch (kind) {
    case DataKind::table:
      return "mlp";
    case DataKind::masks:
      return "unet-small";
    case DataKind::text:
      return "gpt2-nano";
    case DataKind::images:
      break;
  }
  return otherwise;
}

void add_subject(OptionTable& table, TrainConfig& config, OptionsFor use) {
  table.begin("What to train");
  table
      .step("--model", config.model, "NAME",
            names_of(nn::model_names()) +
                fmt::format(
                    ", or your own model in a library, such as ./mine.so (default {}; of a table {}, of "
                    "images with masks {}, of a text {})",
                    config.model, model_for(DataKind::table, ""), model_for(DataKind::masks, ""),
                    model_for(DataKind::text, "")))
      .of(nn::model_names());
  table
      .step("--data", config.data, "NAME|DIR",
            use == OptionsFor::run
                ? "fashion-mnist, mnist, cifar-10, ..., a folder of images by class, IDX or .npy files, a "
                  "folder with images/ and masks/ (unet-small), a table (CSV), or a text file (gpt2, bert), "
                  "see docs/data.md (default fashion-mnist)"
                : "take shape and classes from a dataset, as for train (default: those of the model)")
      .of(dataset_names());
  table
      .step("--task", config.task, "NAME",
            "classification, segmentation, regression (numbers of a table or of arrays), or auto: by the "
            "model; "
            "without --model, segmentation takes unet-small, and regression mlp (default auto)")
      .of(task_names());
  table.step("--target", config.target, "COLUMN",
             "the table's column to predict; for regression also several: 'a,b' (default: label, class, "
             "target or y, else the last)");
  table.step("--image-size", config.image_size, "N",
             "crop and scale image files to N x N (default: 224, or their own size if all have the same up "
             "to 256)");
  table.run("--max-broken", config.max_broken, "N",
            fmt::format("skip up to N images that cannot be read (default {})", config.max_broken));
  table
      .step("--augment", config.augment, "LIST",
            "augmentation of training images: standard, or a list such as crop,flip,trivial, see "
            "docs/data.md (default none)")
      .of(augmentation_words());
  table
      .step("--augment-on", config.augment_on, "WHERE",
            "where images are augmented: loader (its threads) or device (in the step), see docs/data.md "
            "(default loader)")
      .of({"loader", "device"});
  table.step("--context", config.context, "N",
             "tokens that a language model sees (default 128; gpt2-mini 256, gpt2-small 1024)");
  table.step("--tokenizer", config.tokenizer, "FILE",
             "a tokenizer.json of byte-level BPE or WordPiece, or a BERT's vocab.txt (default: each byte is "
             "a token)");
  table.run("--validation", config.validation, "X",
            "hold back this share of the training data and test on it (default 0, for text 0.1)");
  table.run("--init", config.init, "FILE",
            "start from the weights in a safetensors file: of torchvision, timm, Hugging Face or a run");
  table.step("--freeze", config.freeze, "PATTERN", "do not train these parameters: 'conv1.*,layer1.*'");
  table.step("--lora", config.lora, "RANK",
             "train only adapters of this rank beside a transformer's layers (default: none)");
  table.step("--lora-alpha", config.lora_alpha, "X", "adapters are scaled by X / RANK (default: by 1)");
}

void add_training(OptionTable& table, TrainConfig& config) {
  table.begin("How to train");
  table.run("--epochs", config.epochs, "N",
            fmt::format("passes over the data (default {}; for text 10, of at least 100 steps each)",
                        config.epochs));
  table.step("--batch-size", config.batch_size, "N",
             fmt::format("images, or windows of text, in a step (default {}; for text 32, for the largest "
                         "models 8)",
                         config.batch_size));
  table.step("--accumulate", config.accumulate, "N",
             "compute each batch in N parts, one after the other, in less memory (default 1)");
  table
      .step("--precision", config.precision, "NAME",
            "f32, tf32, bf16 or f16: what products are computed in; weights stay f32 (default f32)")
      .of(precision_names());
  table.run("--max-steps", config.max_steps, "N",
            "stop after N steps in all; this does not change the schedule");
  table.run("--eval-examples", config.eval_examples, "N",
            "test only on the first N test images, or windows of text (default: all)");
  table.run("--patience", config.patience, "N",
            "stop after N epochs in a row without a better test (default: never)");
  table
      .step(
          "--optimizer", config.optimizer, "NAME",
          names_of(optim::optimizer_names()) + fmt::format(" (default {}; for text adamw)", config.optimizer))
      .of(optim::optimizer_names());
  table.run("--lr", config.lr, "X",
            fmt::format("largest learning rate (default {:g} for sgd, {:g} for others; transformers and "
                        "inception_v3 have their own)",
                        default_lr("sgd"), default_lr("adam")));
  table
      .run("--schedule", config.schedule, "NAME",
           names_of(optim::schedule_names()) + fmt::format(" (default {})", config.schedule))
      .of(optim::schedule_names());
  table.run("--warm-up", config.warm_up, "N", "steps in which the rate rises to --lr (not with one-cycle)");
  table.step("--momentum", config.momentum, "X",
             fmt::format("Nesterov momentum of sgd (default {:g})", config.momentum));
  table.step("--weight-decay", config.weight_decay, "X",
             fmt::format("weight decay (default {:g}, for text 0.1)", config.weight_decay));
  table
      .step("--weight-decay-on", config.weight_decay_on, "NAME",
            "all, or weights: not biases and norms (default all, for text weights)")
      .of(weight_decay_names());
  table.step("--ema", config.ema, "X",
             "test and keep an average of the weights with this decay, such as 0.999 (default: none)");
  table.step("--label-smoothing", config.label_smoothing, "X",
             "share of a label spread over all classes (default 0)");
  table.step("--loss", config.loss, "NAME", "of regression: mse, l1 or huber (default mse)").of(loss_names());
  table.step("--clip-norm", config.clip_norm, "X",
             "largest norm of all gradients together (default: not clipped, for text 1)");
}

void add_running(OptionTable& table, ConfigOptions& options) {
  TrainConfig& config = options.config;
  table.begin("The run");
  table.step("--config", options.config_file, "FILE",
             "take options from a TOML file, such as a run's config.toml; those of the command line override "
             "it");
  table.run("--checkpoint-every", options.checkpoint_every, "N|Ns",
            "save every N steps or N seconds (default 30s); also after each epoch");
  table.run("--sample", config.sample, "N",
            "tokens of text that gpt2-... shows after each epoch and at the end (default 100)");
  table.run("--seed", config.seed, "N",
            "the same seed, kernels and threads give the same numbers, see --choices (default 0)");
  table.step("--threads", config.threads, "N",
             "threads of the CPU's kernels (default: one for each core that other programs leave)");
  table.run("--workers", config.workers, "N",
            fmt::format("threads that make batches (default {})", config.workers));
  table
      .run("--tune", config.tune, "NAME",
           "when kernels are timed: off (never), quick (the CPU's for at most 3 s before a plan first runs, "
           "the "
           "rest between steps, for at most a tenth of the time and 30 s), full (all before the first step) "
           "(default quick)")
      .of(tuning_names());
  table.run("--choices", config.choices, "RUN",
            "repeat the kernels of another run, step by step, for the same numbers");
  table.bytes("--memory-limit", config.memory_limit,
              "the most device memory that the run may take, such as 2GiB; activations that do not fit are "
              "recomputed");
  table
      .step("--offload", config.offload, "NAME",
            "optimizer: keep its state in host memory; no effect on devices that share it")
      .of({"optimizer"});
  table.run("--tensorboard", config.tensorboard, "",
            "write event files for TensorBoard into the run's folder");
  table.step("--deterministic", config.deterministic, "",
             "choose kernels without timing any, and without what was timed before");
  table.step("--check-nan", config.check_nan, "",
             "name the first operation that gives NaN or infinity (slow)");
}

}  // namespace

void add_config_options(CLI::App& command, ConfigOptions& options, OptionsFor use,
                        const std::string& device_text) {
  OptionTable table(command, use);
  add_subject(table, options.config, use);
  table
      .step("--device", options.config.device, "NAME",
            device_text.empty() ? device_help() + ": see 'athanor detect' (default auto)" : device_text)
      .of(device_words());
  add_trust_option(command);
  command.get_option("--trust")->group("What to train");
  add_training(table, options.config);
  add_running(table, options);
}

nlohmann::json given_fields(const CLI::App& command, ConfigOptions& options) {
  for (const char* name : {"--epochs", "--image-size", "--batch-size", "--accumulate", "--threads",
                           "--max-steps", "--eval-examples", "--context", "--patience", "--lora"})
    if (command.get_option_no_throw(name) != nullptr) at_least_one(command, {name});
  if (!options.checkpoint_every.empty())
    options.config.checkpoint_every = parse_checkpoint_interval(options.checkpoint_every);
  nlohmann::json fields =
      options.config_file.empty() ? nlohmann::json::object() : read_config_file(options.config_file);
  const nlohmann::json all = to_json(options.config);
  for (const auto& [name, value] : all.items())
    if (const CLI::Option* option = command.get_option_no_throw(option_name(name));
        option != nullptr && option->count() > 0)
      fields[name] = value;
  return fields;
}

TrainConfig defaults_of(const nlohmann::json& given, const TrainConfig& known, bool goes_on) {
  std::string model = known.model, task = known.task;
  if (given.contains("task")) task = given["task"];
  if (given.contains("model"))
    model = given["model"];
  else if (!goes_on && task == "regression")
    model = "mlp";
  else if (!goes_on && task == "segmentation")
    model = "unet-small";
  else if (!goes_on && given.contains("data"))
    model = model_for(kind_of_data(given["data"]), model);
  return default_config(model, task);
}

}  // namespace athanor::cli
