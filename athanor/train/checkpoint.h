// Checkpoints: all that a run is, in one safetensors file.
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

/// Where a run stands between two steps.
struct RunState {
  int64_t step = 0;                  // steps made; the schedule's position too
  LoaderState loader;                // the next batch
  Generator::State random;           // of default_generator()
  uint64_t metrics_bytes = 0;        // of metrics.jsonl that belong to the steps made
  MetricsSum epoch_sum;              // of the epoch under way
  std::vector<EpochMetrics> epochs;  // those that are done
  double train_seconds = 0;          // spent on steps, by all the processes that worked on the run
};

/// A model's file holds the tensors "model.NAME" and "optimizer.NAME"; the rest is JSON in its metadata. It
/// can be read with any safetensors library: safetensors.numpy.load_file(path)["model.fc1.weight"].
struct Checkpoint {
  TrainConfig config;
  std::string device = {};  // that the run was on, like "cpu": results depend on it
  int64_t threads = 0;      // that the kernels ran with: results depend on it
  ExampleSpec data;         // what the model was trained on: shape, classes, normalisation
  RunState state;
  std::map<std::string, std::string> kernels;  // the tuner's choices, for TuningCache::restore()
  nn::StateDict model, optimizer;
};

/// Writes it atomically: a crash leaves the checkpoint before or this one. Throws Error(io).
void write_checkpoint(const std::filesystem::path& path, Checkpoint checkpoint);

/// Throws Error(io), and Error(format) for a file that is truncated, corrupt or not a checkpoint of Athanor.
Checkpoint read_checkpoint(const std::filesystem::path& path);

/// The model of a checkpoint, with its values. Throws Error(format) when they do not fit it.
std::unique_ptr<nn::Module> restore_model(const Checkpoint& checkpoint, const std::filesystem::path& path);

}  // namespace athanor
