// Runs as tables.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "athanor/train/run_status.h"

namespace athanor::cli {

/// A line for each run under a line of headings.
std::string runs_table(const std::vector<RunInfo>& runs);
/// The same facts of one run, for programs.
nlohmann::ordered_json run_facts(const RunInfo& run);

/// summary.json; {} for a run that did not reach its end.
nlohmann::json summary_of(const RunInfo& run);

/// Rows of names with a value for each run.
struct RunsComparison {
  struct Row {
    std::string name;
    std::vector<std::string> values;
  };
  std::vector<std::string> runs;
  std::vector<Row> options, results;
};

/// The options in which the runs differ, or all of them; and their results.
RunsComparison compare_runs(const std::vector<RunInfo>& runs, bool all_options);
std::string to_text(const RunsComparison& comparison);
nlohmann::ordered_json to_json(const RunsComparison& comparison);

}  // namespace athanor::cli
