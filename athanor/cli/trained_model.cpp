#include "athanor/cli/trained_model.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/threads.h"
#include "athanor/cli/doing.h"
#include "athanor/compile/options.h"
#include "athanor/kernels/trust.h"
#include "athanor/kernels/tuning_cache.h"
#include "athanor/nn/lora.h"
#include "athanor/nn/models.h"
#include "athanor/train/run_folder.h"
#include "athanor/train/run_threads.h"

namespace athanor::cli {

TrainedModel load_trained_model(const std::string& path, const std::string& device, int64_t threads) {
  check_threads(threads);
  const DeviceChoice choice = device_choice(device);
  const auto file = find_checkpoint(path);
  Checkpoint checkpoint = read_checkpoint(file);
  if (threads > 0)
    set_cpu_threads(static_cast<int>(threads));
  else
    use_threads(checkpoint.threads, checkpoint.most_threads);  // the kernels were chosen for these
  TuningCache::instance().restore(checkpoint.kernels);
  compile_options().deterministic |= checkpoint.config.deterministic;
  compile_options().tuning = Tuning::quick;  // using a model is too short for timing a GPU's kernels
  auto model = restore_model(checkpoint, file);
  nn::merge_lora(*model);  // adapters take time
  model->to(choice.device).eval();
  auto tokenizer = parse_tokenizer(checkpoint.tokenizer, file.string());
  return {.path = file,
          .config = std::move(checkpoint.config),
          .data = std::move(checkpoint.data),
          .tokenizer = std::move(tokenizer),
          .steps = checkpoint.state.step,
          .device = choice.device,
          .device_why = choice.why,
          .model = std::move(model)};
}

void require_pictures(const TrainedModel& trained) {
  if (!nn::is_language_model(trained.config.model)) return;
  throw Error(ErrorCode::usage, fmt::format("{} is a model of text", trained.config.model),
              trained.path.string(),
              nn::objective_of(trained.config.model) == nn::Objective::next_token
                  ? "Let it write with 'athanor sample'"
                  : "Test it on a text with 'athanor eval --data FILE.txt'");
}

void require_text(const TrainedModel& trained) {
  if (nn::objective_of(trained.config.model) == nn::Objective::next_token) return;
  if (nn::is_language_model(trained.config.model))
    throw Error(ErrorCode::usage,
                fmt::format("{} names hidden tokens, and writes no text", trained.config.model),
                trained.path.string(), "Test it on a text with 'athanor eval --data FILE.txt'");
  throw Error(ErrorCode::usage, fmt::format("{} is a model of images", trained.config.model),
              trained.path.string(), "Classify images with 'athanor predict'");
}

std::string device_line(const TrainedModel& trained) {
  return fmt::format("{}: {} ({})", to_string(trained.device), info_of(trained.device).name,
                     trained.device_why);
}

void check_threads(int64_t threads) {
  TrainConfig config;
  config.threads = threads;
  config.validate();
}

Device device_option(const std::string& name) { return device_choice(name).device; }

DeviceChoice device_choice(const std::string& name, bool runs) {
  DeviceChoice choice;
  try {
    Doing doing("choosing a device", Doing::Elsewhere::now_and_then);
    const ScopedWaitListener waits = shown_as(doing);
    choice = choose_device(name);
  } catch (const Error& error) {
    throw Error(ErrorCode::usage, error.problem(), "--device", error.hint());
  }
  runs ? require_examined(choice.device) : require_not_failed(choice.device);
  if (const std::string note = trust_note(choice.device); !note.empty())
    std::cerr << fmt::format("athanor: {} is {}\n", to_string(choice.device), note);
  return choice;
}

void add_trust_option(CLI::App& command) {
  command.add_flag_callback(
      "--trust", [] { set_trusting(true); }, "use the device without an examination, or although it failed");
}

}  // namespace athanor::cli
