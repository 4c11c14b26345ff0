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
#include "athanor/base/wrap.h"
#include "athanor/base/writable.h"
#include "athanor/cli/command_line.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/config_options.h"
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

struct TrainOptions : ConfigOptions {
  std::string out, trace, find_lr;
  bool resume = false, json = false, quiet = false;
};

/// Keeps only the summary.
struct KeepSummary : Reporter {
  nlohmann::ordered_json summary;
  void ended(const Summary& ended_summary) override { summary = to_json(ended_summary); }
};

void add_options(CLI::App& command, TrainOptions& options) {
  add_config_options(command, options, OptionsFor::run);
  const auto option = [&](const char* name, auto& value, const char* type, const std::string& text,
                          const char* section) {
    if constexpr (std::is_same_v<decltype(value), bool&>)
      command.add_flag(name, value, text)->group(section)->option_text(type);
    else
      command.add_option(name, value, text)->group(section)->option_text(type);
  };
  option("--out", options.out, "DIR", "the run's folder (default runs/MODEL-DATA-TIME)", "The run");
  option("--resume", options.resume, "", "continue the run in --out, with the same numbers", "The run");
  option("--find-lr", options.find_lr, "FILE",
         "no run: try learning rates from too small to too large, suggest one, and draw FILE (SVG)",
         "How to train");
  option("--json", options.json, "", "print only the summary, as one line of JSON", "Output");
  option("--trace", options.trace, "FILE",
         "write what ran when, on host and device, for ui.perfetto.dev or chrome://tracing", "Output");
  option("--quiet", options.quiet, "", "print only errors", "Output");
}
std::string resume_command(const RunFolder& folder) {
  return fmt::format("athanor train --resume --out {}", folder.path.string());
}

/// What to do if the folder to resume holds no run: its name is most often mistyped.
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

/// The folder and the options of the run: a new one, or the one that is resumed.
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
  const TrainConfig& config = options.config;
  if (was_given("tune") && config.tune != "off" && (config.deterministic || !config.choices.empty()))
    throw Error(ErrorCode::usage,
                fmt::format("the run in '{}' was begun with {}, so no kernels are timed",
                            folder.path.string(), config.deterministic ? "--deterministic" : "--choices"),
                "--tune", "Leave out --tune to continue it");
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

/// Says how far an interrupted run is; returns the exit code.
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

// If the device fails, the last checkpoint is still good.
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

/// Where the command line says which kernels a run takes, what a file says about that has no effect.
void drop_tuning_of_file(const CLI::App& command, const TrainConfig& of_line, nlohmann::json& given) {
  if (!of_line.deterministic && of_line.choices.empty()) return;
  for (const char* name : {"tune", "choices", "deterministic"})
    if (command.get_option(option_name(name))->count() == 0) given.erase(name);
}

/// Refuses options that contradict one another.
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
                                                  config.optimizer, sweep.batch_size, sweep.points.size())));
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
    if (!sweep.precision_note.empty()) result["precision_note"] = sweep.precision_note;
    add_trust_note(result, sweep.device);
    std::cout << result.dump() << '\n';
    return 0;
  }
  if (options.quiet) return 0;
  if (!sweep.precision_note.empty())
    std::cout << wrapped(fmt::format("--precision {}: {}.", config.precision, sweep.precision_note),
                         report_columns(), 0)
              << '\n';
  if (sweep.suggested)
    std::cout << fmt::format(
        "The loss falls fastest at a learning rate of {:.2g}{}. Try --lr {:.2g}\n", *sweep.steepest,
        sweep.grows
            ? fmt::format(" and grows at {:.2g}", *sweep.grows)
            : fmt::format("; it never grew up to {:.2g}, where the range ended", sweep.points.back().lr),
        *sweep.suggested);
  else
    std::cout << fmt::format("In {} steps no learning rate made the loss fall: there is nothing to suggest\n",
                             sweep.points.size());
  std::cout << fmt::format("{}: loss by learning rate, for a browser\n", options.find_lr);
  return 0;
}

int train(const CLI::App& command, TrainOptions options) {
  nlohmann::json given = given_fields(command, options);
  drop_tuning_of_file(command, options.config, given);
  const RunFolder known{options.out};
  const bool goes_on = options.resume && !options.out.empty() && known.has_run();
  options.config =
      with_fields(defaults_of(given, goes_on ? stored_config(known) : options.config, goes_on), given);
  options.config.batch_may_shrink = !given.contains("batch_size");
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

  Screen screen = screen_of_stdout();
  screen.columns = report_columns();
  Progress progress(std::cout, screen);
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
      "Examples:\n"
      "  athanor train               cnn on fashion-mnist\n"
      "  athanor train --data pics/  images, in a folder for each class\n"
      "  athanor train --data a.csv  a table\n"
      "  athanor train --data a.txt  a language model of a text\n"
      "  athanor train --resume --out runs/NAME\n\n"
      "Ctrl-C, SIGTERM, a closed terminal and a closed output pipe save the run after its last whole step "
      "and exit with 128 + the signal's number (Ctrl-C: 130). A second signal ends it at once.");
  command->callback([command, options, &exit_code] { exit_code = train(*command, *options); });
}

std::string names_of(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace athanor::cli
