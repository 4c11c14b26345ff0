// The results of a run: summary.json, and the last lines that `athanor train` prints.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "athanor/train/class_counts.h"
#include "athanor/train/config.h"
#include "athanor/train/metrics.h"
#include "athanor/train/scoring.h"

namespace athanor {

struct Summary {
  TrainConfig config;
  std::string device;                       // "cpu"
  std::string trust;                        // why its numbers may be wrong (trust_note); "" if they are not
  int64_t threads = 0;                      // of CPU kernels
  int64_t steps = 0;                        // made in all
  int64_t parameters = 0;                   // trained numbers
  double train_loss = 0;                    // mean over the last epoch, or over its completed part
  double test_loss = 0, test_accuracy = 0;  // after the last step
  std::vector<Measure> measures = {};       // of the test
  Quality quality = {};                     // what test_accuracy is
  std::vector<Measure> more = {};           // those that only a test has
  std::optional<ClassCounts> classes = {};  // of the test, if the task has classes
  std::vector<std::string> class_names = {};
  Unit unit = {};                         // what is counted
  std::vector<EpochMetrics> epochs;       // those that were completed
  int64_t best_epoch = 0;                 // the epoch with the best test; 0: none was completed
  bool stopped_early = false;             // by --patience
  std::optional<double> loss_scale = {};  // of the last step, with f16
  int64_t skipped_steps = 0;              // because gradients overflowed

  // Over the steps that this process made, waiting for data included, without those that compiled a plan.
  double per_second = 0;  // images, or tokens
  double step_ms_median = 0;
  double rebuild_ms_median = 0;          // building the graph's key and looking the plan up
  double train_seconds = 0;              // spent on steps in all, by all the processes that worked on the run
  double loader_wait_seconds = 0;        // of this process's steps, waiting for batches to be made
  double loader_wait_share = 0;          // of the steps' time
  std::vector<std::string> broken = {};  // examples that could not be read, with the reasons
  double first_steps_seconds = 0;        // spent on steps that compiled a plan, by this process

  // Spent timing kernels before the plans first ran, and between steps, by this process; and the problems
  // that were timed, and those left.
  double first_tuning_seconds = 0, tuning_seconds = 0;
  int64_t tuned_first = 0, tuned = 0, left_to_be_tuned = 0;

  uint64_t peak_memory_bytes = 0;                     // held on the device at once, as counted
  int64_t planned_memory_bytes = 0;                   // of a training step and its batches
  int64_t kernels_total = 0, kernels_off_device = 0;  // of that plan
  int64_t plans_compiled = 0;
  double compile_seconds = 0;
  double examination_seconds = 0;  // of the device before its first use: 0 if it was known
  int64_t compilations = 0;        // kernels compiled from source: 0 if all came from the cache
};

nlohmann::ordered_json to_json(const Summary& summary);

/// The middle value; for an even number of values, the mean of the two middle ones. 0 for none.
double median(std::vector<double> values);

}  // namespace athanor
