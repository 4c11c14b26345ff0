// athanor train
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/base/text.h"
#include "athanor/base/writable.h"
#include "athanor/cli/command_line.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/doing.h"
#include "athanor/cli/examine.h"
#include "athanor/cli/numbers.h"
#include "athanor/cli/terminal.h"
#include "athanor/data/augmentation.h"
#include "athanor/data/open_dataset.h"
#include "athanor/kernels/trace.h"
#include "athanor/kernels/trust.h"
#include "athanor/nn/models.h"
#include "athanor/optim/optimizer.h"
#include "athanor/optim/schedule.h"
#include "athanor/train/config_file.h"
#include "athanor/train/lr_finder.h"
#include "athanor/train/progress.h"
#include "athanor/train/trainer.h"

namespace athanor::cli {
namespace {

struct TrainOptions {
  TrainConfig config;
  std::string checkpoint_every, config_file, out, trace, find_lr;
  bool resume = false, json = false, quiet = false;
};

/// Keeps only the summary.
struct KeepSummary : Reporter {
  nlohmann::ordered_json summary;
  void ended(const Summary& ended_summary) override { summary = to_json(ended_summary); }
};

std::vector<std::string> augmentation_words() {
  std::vector<std::string> words{"none", "standard"};
  for (const AugmentationKind& kind : augmentation_kinds()) words.emplace_back(kind.name);
  return words;
}

void add_options(CLI::App& command, TrainOptions& options) {
  TrainConfig& config = options.config;
  const auto group = [&](CLI::Option* option, const char* name) {
    return option->group(name)->option_text(" ");
  };
  const auto option = [&](const char* name, auto& value, const char* type, const std::string& text,
                          const char* section) {
    if constexpr (std::is_same_v<decltype(value), std::string&>)
      return group(command.add_option(name, value, text), section)->option_text(type);
    else
      return group(add_number(command, name, value, text), section)->option_text(type);
  };
  suggest(option("--model", config.model, "NAME",
                 names_of(nn::model_names()) +
                     fmt::format(", or your own model in a library, such as ./mine.so (default {})",
                                 config.model),
                 "What to train"),
          nn::model_names());
  suggest(option("--data", config.data, "NAME|DIR",
                 "fashion-mnist, mnist, cifar-10, ..., a folder of images by class, IDX or .npy files, a "
                 "folder with images/ and masks/ (unet-small), a table (CSV), or a text file (gpt2, bert), "
                 "see docs/data.md (default fashion-mnist)",
                 "What to train"),
          dataset_names());
  suggest(option("--task", config.task, "NAME",
                 "auto (by the model), classification, segmentation (default model unet-small), or "
                 "regression: numbers of a table or of arrays (default model mlp) (default auto)",
                 "What to train"),
          task_names());
  option("--target", config.target, "COLUMN",
         "the table's column to predict; for regression also several: 'a,b' (default: label, class, target "
         "or y, else the last)",
         "What to train");
  option(
      "--image-size", config.image_size, "N",
      "crop and scale image files to N x N (default: 224, or their own size if all have the same up to 256)",
      "What to train");
  option("--max-broken", config.max_broken, "N",
         fmt::format("skip up to N images that cannot be read (default {})", config.max_broken),
         "What to train");
  suggest(option("--augment", config.augment, "LIST",
                 "augmentation of training images: standard, or a list such as crop,flip,trivial, see "
                 "docs/data.md (default none)",
                 "What to train"),
          augmentation_words());
  suggest(option("--augment-on", config.augment_on, "WHERE",
                 "where images are augmented: loader (its threads) or device (in the step), see docs/data.md "
                 "(default loader)",
                 "What to train"),
          {"loader", "device"});
  option("--context", config.context, "N",
         "tokens that a language model sees (default 128; gpt2-mini 256, gpt2-small 1024)", "What to train");
  option("--tokenizer", config.tokenizer, "FILE",
         "a tokenizer.json of byte-level BPE or WordPiece, or a BERT's vocab.txt (default: each byte is a "
         "token)",
         "What to train");
  option("--validation", config.validation, "X",
         "hold back this share of the training data and test on it (default 0, for text 0.1)",
         "What to train");
  option("--init", config.init, "FILE",
         "start from the weights in a safetensors file: of torchvision, timm, Hugging Face or a run",
         "What to train");
  option("--freeze", config.freeze, "PATTERN", "do not train these parameters: 'conv1.*,layer1.*'",
         "What to train");
  option("--lora", config.lora, "RANK",
         "train only adapters of this rank beside a transformer's layers (default: none)", "What to train");
  option("--lora-alpha", config.lora_alpha, "X", "scale adapters by X / RANK (default: by 1)",
         "What to train");
  suggest(option("--device", config.device, "NAME", device_help() + ": see 'athanor detect' (default auto)",
                 "What to train"),
          device_words());
  group(command.add_flag_callback(
            "--trust", [] { set_trusting(true); },
            "use the device without examining it, or although it failed"),
        "What to train");
  option("--threads", config.threads, "N",
         "threads of the CPU's kernels (default: one for each core that other programs leave)",
         "What to train");
  option("--seed", config.seed, "N",
         "the same seed, kernels and threads give the same numbers, see --choices (default 0)",
         "What to train");

  option("--epochs", config.epochs, "N",
         fmt::format("passes over the data (default {}; for text 10, of at least 100 steps each)",
                     config.epochs),
         "How to train");
  option(
      "--batch-size", config.batch_size, "N",
      fmt::format("images, or windows of text, in a step (default {}; for text 32, for the largest models 8)",
                  config.batch_size),
      "How to train");
  option("--accumulate", config.accumulate, "N",
         "compute each batch in N parts, one after the other, in less memory (default 1)", "How to train");
  suggest(option("--precision", config.precision, "NAME",
                 "f32, tf32, bf16 or f16: what products are computed in; weights stay f32 (default f32)",
                 "How to train"),
          precision_names());
  option("--max-steps", config.max_steps, "N", "stop after N steps in all; this does not change the schedule",
         "How to train");
  option("--eval-examples", config.eval_examples, "N",
         "test only on the first N test images, or windows of text (default: all)", "How to train");
  option("--patience", config.patience, "N",
         "stop after N epochs in a row without a better test (default: never)", "How to train");
  suggest(option("--optimizer", config.optimizer, "NAME",
                 names_of(optim::optimizer_names()) +
                     fmt::format(" (default {}; for text adamw)", config.optimizer),
                 "How to train"),
          optim::optimizer_names());
  option("--lr", config.lr, "X",
         fmt::format("largest learning rate (default {:g} for sgd, {:g} for others; transformers and "
                     "inception_v3 have their own)",
                     default_lr("sgd"), default_lr("adam")),
         "How to train");
  suggest(option("--schedule", config.schedule, "NAME",
                 names_of(optim::schedule_names()) + fmt::format(" (default {})", config.schedule),
                 "How to train"),
          optim::schedule_names());
  option("--warm-up", config.warm_up, "N", "steps in which the rate rises to --lr (not with one-cycle)",
         "How to train");
  option("--momentum", config.momentum, "X",
         fmt::format("Nesterov momentum of sgd (default {:g})", config.momentum), "How to train");
  option("--weight-decay", config.weight_decay, "X",
         fmt::format("weight decay (default {:g}, for text 0.1)", config.weight_decay), "How to train");
  suggest(option("--weight-decay-on", config.weight_decay_on, "NAME",
                 "all, or weights: not biases and norms (default all, for text weights)", "How to train"),
          weight_decay_names());
  option("--ema", config.ema, "X",
         "test and keep an average of the weights with this decay, such as 0.999 (default: none)",
         "How to train");
  option("--label-smoothing", config.label_smoothing, "X",
         "share of a label spread over all classes (default 0)", "How to train");
  suggest(
      option("--loss", config.loss, "NAME", "of regression: mse, l1 or huber (default mse)", "How to train"),
      loss_names());
  option("--clip-norm", config.clip_norm, "X",
         "largest norm of all gradients together (default: not clipped, for text 1)", "How to train");

  option("--config", options.config_file, "FILE",
         "take options from a TOML file, such as a run's config.toml; those of the command line override it",
         "The run");
  option("--out", options.out, "DIR", "the run's folder (default runs/MODEL-DATA-TIME)", "The run");
  group(command.add_flag("--resume", options.resume, "continue the run in --out, with the same numbers"),
        "The run");
  option("--checkpoint-every", options.checkpoint_every, "N|Ns",
         "save every N steps or N seconds (default 30s); also after each epoch", "The run");
  option("--sample", config.sample, "N",
         "tokens of text that gpt2-... shows after each epoch and at the end (default 100)", "The run");
  option("--workers", config.workers, "N",
         fmt::format("threads that make batches (default {})", config.workers), "The run");
  suggest(option("--tune", config.tune, "NAME",
                 "when kernels are timed: off (never), quick (between steps, for at most a tenth of the time "
                 "and 30 s), full (all before the first step) (default quick)",
                 "The run"),
          tuning_names());
  option("--choices", config.choices, "RUN",
         "repeat the kernels of another run, step by step, for the same numbers", "The run");
  group(add_bytes(command, "--memory-limit", config.memory_limit,
                  "the most device memory that the run may take, such as 2GiB; activations that do not fit "
                  "are recomputed"),
        "The run")
      ->option_text("SIZE");
  suggest(option("--offload", config.offload, "NAME",
                 "optimizer: keep its state in host memory; no effect on devices that share it", "The run"),
          {"optimizer"});
  group(command.add_flag("--tensorboard", config.tensorboard,
                         "write event files for TensorBoard into the run's folder"),
        "The run");
  group(command.add_flag("--deterministic", config.deterministic,
                         "choose kernels by nothing that was ever timed"),
        "The run");
  group(command.add_flag("--check-nan", config.check_nan,
                         "name the first operation that gives NaN or infinity (slow)"),
        "The run");
  group(command.add_flag("--json", options.json, "print only the summary, as one line of JSON"), "Output");
  option("--trace", options.trace, "FILE",
         "write what ran when, on host and device, for ui.perfetto.dev or chrome://tracing", "Output");
  group(command.add_flag("--quiet", options.quiet, "print only errors"), "Output");
  option("--find-lr", options.find_lr, "FILE",
         "no run: try learning rates from too small to too large, suggest one, and draw FILE (SVG)",
         "How to train");
}

std::string resume_command(const RunFolder& folder) {
  return fmt::format("athanor train --resume --out {}", folder.path.string());
}

/// What to do about a folder to go on in that holds no run: it is most often mistyped.
Error no_run_error(const RunFolder& folder) {
  const auto parent =
      folder.path.has_filename() ? folder.path.parent_path() : folder.path.parent_path().parent_path();
  std::vector<std::string> names;
  for (const RunFolder& run : runs_in(parent.empty() ? "." : parent))
    names.push_back(run.path.filename().string());
  const std::string wanted =
      (folder.path.has_filename() ? folder.path : folder.path.parent_path()).filename().string();
  const std::string near = nearest(wanted, {names.begin(), names.end()});
  std::string hint = near.empty() ? "" : fmt::format("Did you mean '{}'? ", (parent / near).string());
  if (const auto newest = newest_run(); near.empty() && newest)
    hint = fmt::format("The newest run here is '{}'. ", newest->path.string());
  return {ErrorCode::usage, "there is no run to continue in the folder", folder.path.string(),
          hint + "To start a new one there, leave out --resume"};
}

/// The options that were given on the command line, or in a file and not on the command line.
nlohmann::json given_fields(const CLI::App& command, const TrainOptions& options) {
  nlohmann::json fields =
      options.config_file.empty() ? nlohmann::json::object() : read_config_file(options.config_file);
  const nlohmann::json all = to_json(options.config);
  for (const auto& [name, value] : all.items())
    if (const CLI::Option* option = command.get_option_no_throw(option_name(name));
        option != nullptr && option->count() > 0)
      fields[name] = value;
  return fields;
}

/// The defaults of the run, new or gone on with: they hang on its model and its task.
TrainConfig defaults_of(const nlohmann::json& given, const TrainOptions& options) {
  const RunFolder folder{options.out};
  const bool goes_on = options.resume && !options.out.empty() && folder.has_run();
  TrainConfig known = goes_on ? stored_config(folder) : options.config;
  if (given.contains("task")) known.task = given["task"];
  if (given.contains("model"))
    known.model = given["model"];
  else if (!goes_on && known.task == "regression")
    known.model = "mlp";
  else if (!goes_on && known.task == "segmentation")
    known.model = "unet-small";
  return default_config(known.model, known.task);
}

/// The folder and the options of the run: a new one, or the one that is gone on with.
RunFolder choose_run(const nlohmann::json& given, TrainOptions& options) {
  if (!options.resume) {
    if (options.out.empty()) return new_run_folder(options.config);
    RunFolder folder{options.out};
    if (folder.has_steps())
      throw Error(ErrorCode::usage, "the folder holds a run already", options.out,
                  fmt::format("Continue it with '{}', or choose another --out", resume_command(folder)));
    return folder;
  }
  if (options.out.empty()) {
    const auto newest = newest_run();
    throw Error(
        ErrorCode::usage, "--resume needs the run's folder", {},
        newest ? fmt::format("The newest one here: {}", resume_command(*newest)) : "Give it with --out DIR");
  }
  RunFolder folder{options.out};
  if (!folder.has_run()) throw no_run_error(folder);
  const auto was_given = [&](const std::string& field) { return given.contains(field); };
  options.config = resume_config(stored_config(folder), options.config, was_given, folder.path);
  return folder;
}

int report_finished(const RunFolder& folder, const TrainOptions& options) {
  if (options.json) {
    std::cout << nlohmann::ordered_json::parse(read_text_file(folder.summary())).dump() << '\n';
  } else if (!options.quiet) {
    std::cout << fmt::format("The run in '{}' is finished: nothing to do. See {}\n", folder.path.string(),
                             folder.summary().string());
  }
  return 0;
}

/// Says where an interrupted run stands; the exit code.
int report_interrupted(const RunFolder& folder, int64_t steps, bool saved) {
  const std::string go_on = folder.has_run() ? fmt::format("Go on with: {}", resume_command(folder))
                                             : "There is no run yet: the same command begins one";
  if (steps == 0)
    std::cerr << fmt::format("athanor: stopped before a step was made. {}\n", go_on);
  else if (saved)
    std::cerr << fmt::format("athanor: stopped and saved after step {}. {}\n", steps, go_on);
  else
    std::cerr << fmt::format("athanor: stopped after step {}, saved at the last checkpoint. {}\n", steps,
                             go_on);
  return 128 + interrupt_signal();
}

// If the device fails, what was saved is as good as before.
RunEnd run_trainer(Trainer& trainer, const RunFolder& folder) {
  try {
    return trainer.run();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::device || !std::filesystem::exists(folder.checkpoint())) throw;
    throw Error(error.code(), error.problem(), error.where(),
                fmt::format("{} What was saved goes on with '{}', on another device with --device.",
                            error.hint(), resume_command(folder)));
  }
}

/// Options that contradict one another.
void check_tuning(const nlohmann::json& given, TrainConfig& config) {
  const bool tunes = given.contains("tune") && config.tune != "off";
  if (config.deterministic && tunes)
    throw Error(ErrorCode::usage, "--deterministic chooses kernels without timing them", "--tune",
                "Leave one of the two out");
  if (config.choices.empty()) return;
  if (config.deterministic || tunes)
    throw Error(ErrorCode::usage, "the kernels are those of another run, and are not chosen", "--choices",
                "Leave out --tune and --deterministic");
  config.choices = std::filesystem::absolute(config.choices).lexically_normal().string();
  std::error_code failed;
  if (!std::filesystem::exists(config.choices, failed) && !failed)
    throw Error(ErrorCode::usage, "there is no such run", config.choices,
                "Give the folder of a run, or its metrics.jsonl");
}

/// Sweeps through learning rates; makes no run.
int find_lr(const TrainOptions& options) {
  if (options.resume || !options.out.empty())
    throw Error(ErrorCode::usage, "a search for a learning rate makes no run and goes on with none",
                "--find-lr", "Leave out --out and --resume");
  const InterruptScope interrupts;
  const TrainConfig& config = options.config;
  Doing doing("searching for a learning rate", Doing::Elsewhere::now_and_then);
  const ScopedWaitListener waits = shown_as(doing);
  const LrSweep sweep = sweep_learning_rates(
      config, [&](int64_t done, int64_t of) { doing.say(fmt::format("step {} of {}", done, of), ""); });
  const std::string title = fmt::format("{} on {}: learning rates", config.model, dataset_title(config.data));
  write_file_atomically(options.find_lr,
                        draw_lr_sweep(sweep, title,
                                      fmt::format("{}, batch {}, {} steps, each with a larger rate",
                                                  config.optimizer, config.batch_size, sweep.points.size())));
  if (const std::string note = trust_note(sweep.device); !note.empty())
    std::cerr << fmt::format("athanor: {} is {}\n", to_string(sweep.device), note);
  if (options.json) {
    nlohmann::ordered_json result{{"suggested", nullptr},
                                  {"steepest", nullptr},
                                  {"grows", nullptr},
                                  {"points", nlohmann::ordered_json::array()}};
    if (sweep.suggested) result["suggested"] = *sweep.suggested;
    if (sweep.steepest) result["steepest"] = *sweep.steepest;
    if (sweep.grows) result["grows"] = *sweep.grows;
    for (const LrPoint& point : sweep.points)
      result["points"].push_back({point.lr, point.loss, point.smooth});
    add_trust_note(result, sweep.device);
    std::cout << result.dump() << '\n';
    return 0;
  }
  if (options.quiet) return 0;
  if (sweep.suggested)
    std::cout << fmt::format(
        "The loss falls fastest at a learning rate of {:.2g}{}. Try --lr {:.2g}\n", *sweep.steepest,
        sweep.grows ? fmt::format(" and grows above {:.2g}", *sweep.grows) : "", *sweep.suggested);
  else
    std::cout << fmt::format("In {} steps no learning rate made the loss fall: there is nothing to suggest\n",
                             sweep.points.size());
  std::cout << fmt::format("{}: loss by learning rate, for a browser\n", options.find_lr);
  return 0;
}

int train(const CLI::App& command, TrainOptions options) {
  if (!options.checkpoint_every.empty())
    options.config.checkpoint_every = parse_checkpoint_interval(options.checkpoint_every);
  at_least_one(command, {"--epochs", "--image-size", "--batch-size", "--accumulate", "--threads",
                         "--max-steps", "--eval-examples", "--context", "--patience", "--lora"});
  const nlohmann::json given = given_fields(command, options);
  options.config = with_fields(defaults_of(given, options), given);
  check_tuning(given, options.config);
  options.config.validate();
  if (nn::is_own_model(options.config.model))
    options.config.model = std::filesystem::absolute(options.config.model).lexically_normal().string();
  options.config.data = from_any_folder(options.config.data);
  options.config.tokenizer = from_any_folder(options.config.tokenizer);
  options.config.init = from_any_folder(options.config.init);
  for (const std::string& file : {options.find_lr, options.trace})
    if (!file.empty()) check_writable(file);
  if (!options.find_lr.empty()) return find_lr(options);
  const RunFolder folder = choose_run(given, options);

  Progress progress(std::cout, screen_of_stdout());
  KeepSummary silent;
  Reporter& reporter = options.json || options.quiet ? static_cast<Reporter&>(silent) : progress;
  const InterruptScope interrupts;
  std::optional<Trainer> opened;
  try {
    opened.emplace(options.config, folder, options.resume, reporter);
  } catch (const Interrupted&) {
    return report_interrupted(folder, 0, true);
  }
  Trainer& trainer = *opened;
  if (trainer.finished()) return report_finished(folder, options);
  std::optional<Trace> trace;
  if (!options.trace.empty()) trace.emplace();
  const RunEnd end = run_trainer(trainer, folder);
  if (trace) write_file_atomically(options.trace, trace->json());
  progress.clear();
  if (end == RunEnd::interrupted) return report_interrupted(folder, trainer.steps(), trainer.saved());
  if (options.json) std::cout << silent.summary.dump() << '\n';
  return 0;
}

}  // namespace

void add_train(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand("train", "Train a model and keep the run in a folder");
  const auto options = std::make_shared<TrainOptions>();
  add_options(*command, *options);
  command->footer(
      "Ctrl-C, SIGTERM, a closed terminal and a closed output pipe save the run after its last whole step\n"
      "and exit with 128 + the signal's number (Ctrl-C: 130). A second signal ends it at once.");
  command->callback([command, options, &exit_code] { exit_code = train(*command, *options); });
}

std::string names_of(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace athanor::cli
