// What a run measures about its learning, for each step and each epoch.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace athanor {

/// Kernels by the requests that they compute: "conv2d f32[128, 32, 14, 14] ..." -> "taps 8x32".
using StepKernels = std::map<std::string, std::string>;

/// One line of metrics.jsonl. Nothing in it depends on time, so two runs with the same numbers have the same
/// file, byte for byte. Times of steps are in summary.json.
struct StepMetrics {
  int64_t step = 0;     // from 1
  int64_t epoch = 0;    // from 1
  double loss = 0;      // of the step's batch, before the update
  double accuracy = 0;  // share of the batch that was correct, before the update; or its Quality
  double lr = 0;        // learning rate of the update
  // With loss scaling (f16):
  std::optional<double> loss_scale = {};  // what the loss was multiplied by
  bool skipped = false;                   // a gradient overflowed: there was no update
  int64_t threads = 0;  // of the CPU from this step on, if the step before had others; in step 1: always
  std::string quality = "accuracy";  // Quality::field: the name under which `accuracy` is stored
  StepKernels kernels = {};          // that change at this step; in step 1: all
  bool operator==(const StepMetrics&) const = default;
};

/// {"step":1,"epoch":1,"loss":2.3025851249694824,...}: numbers with all digits, so that reading them gives
/// the same values.
std::string to_line(const StepMetrics& metrics);
/// The lines of a metrics.jsonl. Throws Error(io), and Error(format) naming the line.
std::vector<StepMetrics> read_metrics(const std::filesystem::path& path);
/// The readable lines after this many bytes: steps that were made after the last checkpoint, and are made
/// again. {} if there are none.
std::vector<StepMetrics> read_lost_steps(const std::filesystem::path& path, uint64_t after_bytes);

/// Sums over steps, for means.
struct MetricsSum {
  double loss = 0;     // weighted by the counted examples
  double correct = 0;  // how many are right: a whole number, except for regression (Quality)
  int64_t count = 0;   // of images, or of tokens
  void add(double mean_loss, double correct_ones, int64_t counted);
  double mean_loss() const { return count > 0 ? loss / static_cast<double>(count) : 0; }
  double accuracy() const { return count > 0 ? correct / static_cast<double>(count) : 0; }
  bool operator==(const MetricsSum&) const = default;
};

/// An epoch's means over the training data during training, and the result on the test data after it.
struct EpochMetrics {
  int64_t epoch = 0, step = 0;  // its number, from 1, and its last step
  double train_loss = 0, train_accuracy = 0, test_loss = 0, test_accuracy = 0;
  std::map<std::string, double> test_more = {};  // that only a test has: {"f1", 0.91}
  std::string quality = "accuracy";              // as in StepMetrics
  bool operator==(const EpochMetrics&) const = default;
};

nlohmann::json to_json(const MetricsSum& sum);
nlohmann::json to_json(const EpochMetrics& epoch);
/// Throw nlohmann's exceptions for another form.
MetricsSum metrics_sum_from_json(const nlohmann::json& json);
EpochMetrics epoch_metrics_from_json(const nlohmann::json& json);

}  // namespace athanor
