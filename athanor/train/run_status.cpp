#include "athanor/train/run_status.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "athanor/base/error.h"
#include "athanor/base/file.h"

namespace athanor {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 5> state_names{"running", "finished", "stopped", "failed", "crashed"};
constexpr uint64_t longest_file = uint64_t{64} << 20;

RunStateName state_named(const std::string& name) {
  for (size_t i = 0; i < state_names.size(); ++i)
    if (state_names[i] == name) return static_cast<RunStateName>(i);
  return RunStateName::stopped;  // a state of a newer Athanor
}

std::optional<json> read_object(const std::filesystem::path& path) {
  try {
    json read = json::parse(read_text_file(path, longest_file), nullptr, false);
    if (read.is_object()) return read;
  } catch (const Error&) {
    // It is not there.
  }
  return std::nullopt;
}

/// The status of a run that an older Athanor made.
RunStatus status_by_summary(const json& summary) {
  RunStatus status;
  status.state = RunStateName::finished;
  status.device = summary.value("device", "");
  status.trust = summary.value("trust", "");
  status.threads = summary.value("threads", int64_t{0});
  status.parameters = summary.value("parameters", int64_t{0});
  status.steps = status.steps_in_all = summary.value("steps", int64_t{0});
  status.train_seconds = summary.value("train_seconds", 0.0);
  status.best_epoch = summary.value("best_epoch", int64_t{0});
  if (summary.contains("epoch_metrics"))
    for (const json& epoch : summary.at("epoch_metrics"))
      status.epochs.push_back(epoch_metrics_from_json(epoch));
  if (summary.contains("test_perplexity"))
    status.best = fmt::format("perplexity {:.2f}", summary.at("test_perplexity").get<double>());
  else if (summary.contains("test_accuracy"))
    status.best = fmt::format("accuracy {:.1f} %", 100 * summary.value("test_accuracy", 0.0));
  status.best_loss = summary.value("test_loss", 0.0);
  status.best_accuracy = summary.value("test_accuracy", 0.0);
  return status;
}

uint64_t bytes_in(const RunFolder& folder) {
  uint64_t bytes = 0;
  for (const auto& file : folder.files()) {
    std::error_code missing;
    const auto size = std::filesystem::file_size(file, missing);
    if (!missing) bytes += size;
  }
  return bytes;
}

}  // namespace

std::string to_string(RunStateName state) { return std::string(state_names.at(static_cast<size_t>(state))); }

nlohmann::ordered_json to_json(const RunStatus& status) {
  auto epochs = nlohmann::ordered_json::array();
  for (const auto& epoch : status.epochs) epochs.push_back(nlohmann::ordered_json(to_json(epoch)));
  nlohmann::ordered_json json{{"state", to_string(status.state)},
                              {"version", status.version},
                              {"device", status.device},
                              {"device_name", status.device_name},
                              {"threads", status.threads},
                              {"data", status.data},
                              {"parameters", status.parameters},
                              {"started", status.started},
                              {"ended", status.ended},
                              {"steps", status.steps},
                              {"steps_in_all", status.steps_in_all},
                              {"train_seconds", status.train_seconds},
                              {"best_epoch", status.best_epoch},
                              {"best", status.best},
                              {"best_loss", status.best_loss},
                              {"best_" + status.quality, status.best_accuracy},
                              {"epoch_metrics", epochs}};
  if (!status.trust.empty()) json["trust"] = status.trust;
  if (!status.error.empty()) json["error"] = status.error;
  return json;
}

RunStatus run_status_from_json(const json& json) {
  RunStatus status;
  status.state = state_named(json.at("state"));
  status.version = json.at("version");
  status.device = json.at("device");
  status.device_name = json.at("device_name");
  status.threads = json.at("threads");
  status.data = json.at("data");
  status.parameters = json.at("parameters");
  status.started = json.at("started");
  status.ended = json.at("ended");
  status.steps = json.at("steps");
  status.steps_in_all = json.at("steps_in_all");
  status.train_seconds = json.at("train_seconds");
  status.best_epoch = json.at("best_epoch");
  status.best = json.at("best");
  status.best_loss = json.at("best_loss");
  status.quality = json.contains("best_r2") ? "r2" : "accuracy";
  status.best_accuracy = json.at("best_" + status.quality);
  status.trust = json.value("trust", "");
  status.error = json.value("error", "");
  for (const auto& epoch : json.at("epoch_metrics")) status.epochs.push_back(epoch_metrics_from_json(epoch));
  return status;
}

RunInfo read_run_info(const RunFolder& folder) {
  RunInfo info{.folder = folder, .config = {}, .problem = {}, .status = {}, .bytes = bytes_in(folder)};
  try {
    info.config = read_config(folder);
  } catch (const Error& error) {
    info.problem = error.problem();
  }
  const auto summary = read_object(folder.summary());
  info.status.state = RunStateName::stopped;
  try {
    if (const auto stored = read_object(folder.state()))
      info.status = run_status_from_json(*stored);
    else if (summary)
      info.status = status_by_summary(*summary);
    else if (folder.is_locked())
      info.status.state = RunStateName::running;
  } catch (const json::exception&) {
    info.problem = "state.json or summary.json is not as it was written";
  }
  if (info.status.state == RunStateName::running && !folder.is_locked())
    info.status.state = RunStateName::crashed;
  return info;
}

}  // namespace athanor
