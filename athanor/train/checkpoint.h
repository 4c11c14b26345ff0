// Checkpoints: the whole state of a run, in one safetensors file.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "athanor/data/dataloader.h"
#include "athanor/data/dataset.h"
#include "athanor/nn/module.h"
#include "athanor/ops/random.h"
#include "athanor/train/config.h"
#include "athanor/train/metrics.h"

namespace athanor {

/// The state of a run between two steps.
struct RunState {
  int64_t step = 0;                  // steps made so far; also the position in the schedule
  LoaderState loader;                // the next batch
  Generator::State random;           // of default_generator()
  int64_t skipped_steps = 0;         // steps without an update, because gradients overflowed in f16
  uint64_t metrics_bytes = 0;        // length of metrics.jsonl for the steps made so far
  MetricsSum epoch_sum;              // of the current epoch
  std::vector<EpochMetrics> epochs;  // the completed ones
  double train_seconds = 0;          // spent on steps, by all processes that worked on the run
};

/// The file has the tensors "model.NAME" and "optimizer.NAME", with f16 "scaler.NAME", and with --ema
/// "average.NAME"; the rest is JSON in its metadata. Any safetensors library can read it:
/// safetensors.numpy.load_file(path)["model.fc1.weight"].
struct Checkpoint {
  TrainConfig config;
  std::string device = {};   // the run's device, like "cpu": results depend on it
  int64_t threads = 0;       // the kernels' number of threads: results depend on it
  int64_t most_threads = 0;  // threads on a quiet machine
  ExampleSpec data;          // what the model was trained on: shape, classes, normalisation
  RunState state;
  std::map<std::string, std::string> kernels;           // the tuner's choices, for TuningCache::restore()
  std::map<int64_t, StepKernels> kernels_to_come = {};  // recorded changes still to come, by step
  std::map<int64_t, int64_t> threads_to_come = {};      // likewise
  nn::StateDict model, optimizer;
  nn::StateDict scaler = {};   // of the loss scale; {} without one
  nn::StateDict average = {};  // of the parameters over steps (--ema); {} without one
  std::string tokenizer = {};  // Tokenizer::source(), for text
};

/// Writes the file atomically: after a crash there is either the old checkpoint or this one. Throws
/// Error(io).
void write_checkpoint(const std::filesystem::path& path, Checkpoint checkpoint);

/// Throws Error(io), and Error(format) for a file that is truncated, corrupt or not a checkpoint of Athanor.
Checkpoint read_checkpoint(const std::filesystem::path& path);

/// The model of a checkpoint, with its averages of the weights if it has them, otherwise with its weights.
/// Throws Error(format) if they do not fit the model.
std::unique_ptr<nn::Module> restore_model(const Checkpoint& checkpoint, const std::filesystem::path& path);

}  // namespace athanor
