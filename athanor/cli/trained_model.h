// A model from a checkpoint, ready for use.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "athanor/formats/tokenizer.h"
#include "athanor/kernels/choose_device.h"
#include "athanor/train/checkpoint.h"

namespace CLI {
class App;
}

namespace athanor::cli {

struct TrainedModel {
  std::filesystem::path path;  // of the checkpoint
  TrainConfig config;
  ExampleSpec data;
  std::shared_ptr<const Tokenizer> tokenizer;  // of a language model
  int64_t steps = 0;
  Device device;
  std::string device_why;             // "asked for", "the only device here"
  std::unique_ptr<nn::Module> model;  // in evaluation mode
};

/// The model at `path` (see find_checkpoint) on a device. Threads and kernels are the run's, unless `threads`
/// is not 0, so that it computes the same numbers as in the run. Throws Error.
TrainedModel load_trained_model(const std::string& path, const std::string& device, int64_t threads);

/// Throws Error(usage) for a model of another kind than a command uses, with the command to use.
void require_pictures(const TrainedModel& trained);
void require_text(const TrainedModel& trained);

/// "cpu: AMD Ryzen 9 7950X, 16 cores (the only device here)"
std::string device_line(const TrainedModel& trained);

/// Checks the value of `--threads`. Throws Error(usage).
void check_threads(int64_t threads);
/// choose_device() for the value of `--device`. Shows progress if it takes time. The device is examined if it
/// was not before (kernels/trust.h); with `runs` false, because nothing will run on it, it is only refused if
/// it is known to be wrong. Says on standard error if a device is trusted that may be wrong. Throws
/// Error(usage), and Error(device) for a device that computes wrongly.
DeviceChoice device_choice(const std::string& name, bool runs = true);
Device device_option(const std::string& name);
/// --trust, for every command with --device.
void add_trust_option(CLI::App& command);

}  // namespace athanor::cli
