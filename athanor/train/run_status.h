// state.json: the state of a run, for `athanor runs` and for people.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "athanor/train/metrics.h"
#include "athanor/train/run_folder.h"

namespace athanor {

enum class RunStateName { running, finished, stopped, failed, crashed };
/// "running", "crashed".
std::string to_string(RunStateName state);

struct RunStatus {
  /// Never `crashed` in the file: a process that dies leaves "running".
  RunStateName state = RunStateName::running;
  std::string error;                 // why it failed
  std::string version;               // of Athanor
  std::string device, device_name;   // "cpu", "AMD Ryzen 9 7950X"
  std::string trust;                 // why the device's numbers may be wrong; "" if they are not
  std::string data;                  // "60,000 training and 10,000 test images of 1x28x28, 10 classes"
  std::string quality = "accuracy";  // Quality::field
  int64_t threads = 0, parameters = 0;
  int64_t started = 0, ended = 0;  // seconds since 1970; when a process last began and ended work; 0: unknown
  int64_t steps = 0, steps_in_all = 0;
  double train_seconds = 0;                 // spent on steps, by all the processes that worked on the run
  std::vector<EpochMetrics> epochs;         // the completed ones
  int64_t best_epoch = 0;                   // 0: none is done
  std::string best;                         // the best test in words: "accuracy 91.2 %"; "" before the first
  double best_loss = 0, best_accuracy = 0;  // of that test; or its Quality
};

nlohmann::ordered_json to_json(const RunStatus& status);
/// Throws nlohmann's exceptions for another form.
RunStatus run_status_from_json(const nlohmann::json& json);

/// A run, as its folder describes it.
struct RunInfo {
  RunFolder folder;
  std::optional<TrainConfig> config;  // none if it cannot be read: `problem` says why
  std::string problem;
  RunStatus status;    // for older runs, what is known
  uint64_t bytes = 0;  // of all its files
};

/// Never throws for what is in the folder.
RunInfo read_run_info(const RunFolder& folder);

}  // namespace athanor
