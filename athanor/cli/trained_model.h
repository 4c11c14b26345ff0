// A model from a checkpoint, ready for use.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "athanor/train/checkpoint.h"

namespace athanor::cli {

struct TrainedModel {
  std::filesystem::path path;  // of the checkpoint
  TrainConfig config;
  ExampleSpec data;
  int64_t steps = 0;
  Device device;
  std::unique_ptr<nn::Module> model;  // in evaluation mode
};

/// The model at `path` (see find_checkpoint) on a device. Threads and kernels are the run's, so that it
/// computes the very numbers that it did there, unless `threads` is not 0. Throws Error.
TrainedModel load_trained_model(const std::string& path, const std::string& device, int64_t threads);

/// Checks what `--threads` was given. Throws Error(usage).
void check_threads(int64_t threads);
/// parse_device() of what `--device` was given. Throws Error(usage).
Device device_option(const std::string& name);

}  // namespace athanor::cli
