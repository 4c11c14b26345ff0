#include "athanor/cli/runs_table.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <functional>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/data/open_dataset.h"
#include "athanor/train/scoring.h"

namespace athanor::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

using Table = std::vector<std::vector<std::string>>;

/// Columns as wide as their longest cell. Cells are ASCII in nearly all cases, so bytes are counted.
std::string aligned(const Table& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string started_text(int64_t seconds) {
  if (seconds == 0) return "-";
  return fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(static_cast<std::time_t>(seconds)));
}

std::string state_text(const RunStatus& status) {
  std::string name = to_string(status.state);
  if (status.state == RunStateName::finished || status.steps_in_all == 0) return name;
  return fmt::format("{} at {:.0f} %", name,
                     100 * static_cast<double>(status.steps) / static_cast<double>(status.steps_in_all));
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string value_text(const json& value) {
  if (value.is_null()) return "(default)";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool differ(const std::vector<std::string>& values) {
  return std::ranges::any_of(values, [&](const std::string& value) { return value != values.front(); });
}

struct ResultRow {
  std::string name, field;  // of summary.json
  std::function<std::string(const json&)> text;
};

std::string percent_text(const json& value) { return fmt::format("{:.2f} %", 100 * value.get<double>()); }
std::string number_text(const json& value) { return fmt::format("{:.4f}", value.get<double>()); }
std::string plain_text(const json& value) { return fmt::format("{:.5g}", value.get<double>()); }
std::string rate_text(const json& value) { return grouped(static_cast<int64_t>(value.get<double>())); }
std::string bytes_text(const json& value) { return format_bytes(value.get<uint64_t>()); }

const std::vector<ResultRow>& result_rows() {
  static const std::vector<ResultRow> rows{
      {"test accuracy", "test_accuracy", percent_text},
      {"mean IoU", "test_mean_iou", percent_text},
      {"R2", "test_r2", number_text},
      {"RMSE", "test_rmse", plain_text},
      {"MAE", "test_mae", plain_text},
      {"F1", "test_f1", percent_text},
      {"top-5", "test_top5_accuracy", percent_text},
      {"bits per byte", "test_bits_per_byte", number_text},
      {"perplexity", "test_perplexity", number_text},
      {"test loss", "test_loss", number_text},
      {"training loss", "train_loss", number_text},
      {"best epoch", "best_epoch", value_text},
      {"parameters", "parameters", [](const json& value) { return grouped(value.get<int64_t>()); }},
      {"ms a step", "step_ms_median",
       [](const json& value) { return fmt::format("{:.2f}", value.get<double>()); }},
      {"images a second", "images_per_second", rate_text},
      {"examples a second", "examples_per_second", rate_text},
      {"tokens a second", "tokens_per_second", rate_text},
      {"memory", "peak_memory_bytes", bytes_text},
      {"kernels", "kernels_total", value_text}};
  return rows;
}

std::string device_text(const RunStatus& status) {
  return or_dash(status.device) + (status.trust.empty() ? "" : ", on trust");
}

}  // namespace

json summary_of(const RunInfo& run) {
  try {
    json summary = json::parse(read_text_file(run.folder.summary()), nullptr, false);
    if (summary.is_object()) return summary;
  } catch (const Error&) {
    // A run that did not reach its end has none.
  }
  return json::object();
}

std::string runs_table(const std::vector<RunInfo>& runs) {
  Table rows{{"RUN", "MODEL", "DATA", "DEVICE", "TYPES", "BEST TEST", "TIME", "STARTED", "STATE"}};
  for (const RunInfo& run : runs) {
    const RunStatus& status = run.status;
    rows.push_back({run.folder.path.string(), run.config ? run.config->model : "?",
                    run.config ? dataset_title(run.config->data) : "?", device_text(status),
                    run.config ? run.config->precision : "?", or_dash(status.best),
                    status.train_seconds > 0 ? format_duration(status.train_seconds) : "-",
                    started_text(status.started), state_text(status)});
  }
  return aligned(rows);
}

ordered_json run_facts(const RunInfo& run) {
  const RunStatus& status = run.status;
  ordered_json facts{{"run", run.folder.path.string()}, {"state", to_string(status.state)}};
  if (run.config) {
    facts["model"] = run.config->model;
    facts["data"] = run.config->data;
    facts["precision"] = run.config->precision;
  }
  facts["device"] = status.device;
  facts["best"] = status.best;
  facts["best_epoch"] = status.best_epoch;
  facts["best_loss"] = status.best_loss;
  facts["best_" + status.quality] = status.best_accuracy;
  facts["steps"] = status.steps;
  facts["steps_in_all"] = status.steps_in_all;
  facts["train_seconds"] = status.train_seconds;
  facts["started"] = status.started;
  facts["bytes"] = run.bytes;
  if (!status.trust.empty()) facts["trust"] = status.trust;
  if (!status.error.empty()) facts["error"] = status.error;
  if (!run.problem.empty()) facts["problem"] = run.problem;
  return facts;
}

RunsComparison compare_runs(const std::vector<RunInfo>& runs, bool all_options) {
  RunsComparison comparison;
  std::vector<json> configs, summaries;
  for (const RunInfo& run : runs) {
    if (!run.config) throw Error(ErrorCode::format, run.problem, run.folder.path.string(), "Leave it out");
    comparison.runs.push_back(run.folder.path.string());
    configs.push_back(to_json(*run.config));
    summaries.push_back(summary_of(run));
  }
  for (const auto& [name, first] : configs.front().items()) {
    std::vector<std::string> values;
    for (const json& config : configs) values.push_back(value_text(config.at(name)));
    if (all_options || differ(values)) comparison.options.push_back({name, values});
  }
  RunsComparison::Row state{"state", {}}, best{"best test", {}}, device{"device", {}}, steps{"steps", {}},
      time{"time", {}};
  for (const RunInfo& run : runs) {
    state.values.push_back(state_text(run.status));
    best.values.push_back(or_dash(run.status.best));
    device.values.push_back(device_text(run.status));
    steps.values.push_back(grouped(run.status.steps));
    time.values.push_back(format_duration(run.status.train_seconds));
  }
  comparison.results = {state, best, device, steps, time};
  for (const ResultRow& row : result_rows()) {
    std::vector<std::string> values;
    bool any = false;
    for (const json& summary : summaries) {
      const bool has = summary.contains(row.field) && !summary.at(row.field).is_null();
      values.push_back(has ? row.text(summary.at(row.field)) : "-");
      any |= has;
    }
    if (any) comparison.results.push_back({row.name, values});
  }
  return comparison;
}

std::string to_text(const RunsComparison& comparison) {
  Table rows{{""}};
  rows.front().insert(rows.front().end(), comparison.runs.begin(), comparison.runs.end());
  const auto add = [&](const std::vector<RunsComparison::Row>& part) {
    for (const auto& row : part) {
      rows.push_back({"  " + row.name});
      for (const std::string& value : row.values) rows.back().push_back(value.empty() ? "(none)" : value);
    }
  };
  rows.push_back({"Options"});
  if (comparison.options.empty()) rows.push_back({"  all are the same"});
  add(comparison.options);
  rows.push_back({"Results"});
  add(comparison.results);
  return aligned(rows);
}

ordered_json to_json(const RunsComparison& comparison) {
  const auto rows = [&](const std::vector<RunsComparison::Row>& part) {
    ordered_json result = ordered_json::object();
    for (const auto& row : part) result[row.name] = row.values;
    return result;
  };
  return {{"runs", comparison.runs},
          {"options", rows(comparison.options)},
          {"results", rows(comparison.results)}};
}

}  // namespace athanor::cli
