// athanor runs
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/os/terminal.h"
#include "athanor/base/text.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/runs_table.h"
#include "athanor/data/open_dataset.h"
#include "athanor/train/remove_run.h"
#include "athanor/train/report.h"
#include "athanor/train/run_status.h"
#include "athanor/train/runs_svg.h"

namespace athanor::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct RunsOptions {
  std::vector<std::string> paths;
  std::string out;
  bool json = false, yes = false, all = false;
};

/// The run in a folder. Throws Error(usage), which names the most similar run, if there is none.
RunInfo the_run(const std::string& path) {
  const RunFolder folder{path};
  if (folder.has_run()) return read_run_info(folder);
  std::vector<std::string> names;
  const fs::path clean = folder.path.has_filename() ? folder.path : folder.path.parent_path();
  for (const RunFolder& run : runs_in(clean.parent_path().empty() ? "." : clean.parent_path()))
    names.push_back(run.path.string());
  const std::string near = nearest(path, {names.begin(), names.end()});
  throw Error(ErrorCode::usage, "there is no run in this folder", path,
              near.empty() ? "See 'athanor runs ls'" : fmt::format("Did you mean '{}'?", near));
}

std::vector<RunInfo> runs_of(const std::vector<std::string>& paths) {
  std::vector<RunInfo> runs;
  for (const std::string& path : paths) runs.push_back(the_run(path));
  return runs;
}

/// The runs in folders of runs, or those folders themselves, oldest first.
std::vector<RunInfo> listed(std::vector<std::string> paths) {
  if (paths.empty()) paths.emplace_back("runs");
  std::vector<RunInfo> runs;
  for (const std::string& path : paths) {
    if (RunFolder{path}.has_run()) {
      runs.push_back(read_run_info({path}));
      continue;
    }
    std::error_code failed;
    if (path != "runs" && !fs::is_directory(path, failed))
      throw Error(ErrorCode::usage, "there is no such folder", path, "Give a folder of runs, or a run's");
    for (const RunFolder& folder : runs_in(path)) runs.push_back(read_run_info(folder));
  }
  std::ranges::stable_sort(runs, {}, [](const RunInfo& run) { return run.status.started; });
  return runs;
}

int list(const RunsOptions& options) {
  const std::vector<RunInfo> runs = listed(options.paths);
  if (options.json) {
    auto all = ordered_json::array();
    for (const RunInfo& run : runs) all.push_back(run_facts(run));
    std::cout << all.dump() << '\n';
    return 0;
  }
  if (runs.empty()) {
    std::cout << "There are no runs here. 'athanor train' makes one.\n";
    return 0;
  }
  std::cout << runs_table(runs);
  for (const RunInfo& run : runs)
    if (!run.problem.empty())
      std::cout << fmt::format("{}: {}\n", run.folder.path.string(), run.problem);
    else if (run.status.state == RunStateName::failed)
      std::cout << fmt::format("{} failed: {}\n", run.folder.path.string(),
                               run.status.error.substr(0, run.status.error.find('\n')));
    else if (run.status.state == RunStateName::crashed || run.status.state == RunStateName::stopped)
      std::cout << fmt::format("Continue: athanor train --resume --out {}\n", run.folder.path.string());
  return 0;
}

int compare(const RunsOptions& options) {
  const std::vector<RunInfo> runs = runs_of(options.paths);
  const RunsComparison comparison = compare_runs(runs, options.all);
  std::cout << (options.json ? to_json(comparison).dump() + "\n" : to_text(comparison));
  return 0;
}

/// The test at the end of a run that ended in the middle of an epoch.
std::optional<TestPoint> last_test_of(const RunInfo& run) {
  const auto summary = summary_of(run);
  const std::string quality = "test_" + run.status.quality;
  const int64_t tested = run.status.epochs.empty() ? 0 : run.status.epochs.back().step;
  if (run.status.steps <= tested || !summary.contains("test_loss") || !summary.contains(quality))
    return std::nullopt;
  return TestPoint{run.status.steps, summary["test_loss"], summary[quality]};
}

int plot(const RunsOptions& options) {
  std::vector<RunCurve> curves;
  std::vector<std::string> titles;
  for (const RunInfo& run : runs_of(options.paths)) {
    curves.push_back({.name = run.folder.path.string(),
                      .note = run.status.best,
                      .steps = fs::exists(run.folder.metrics()) ? read_metrics(run.folder.metrics())
                                                                : std::vector<StepMetrics>(),
                      .epochs = run.status.epochs,
                      .last_test = last_test_of(run)});
    if (!run.config) continue;
    const std::string title = fmt::format("{} on {}", run.config->model, dataset_title(run.config->data));
    if (std::ranges::find(titles, title) == titles.end()) titles.push_back(title);
  }
  const std::string file = options.out.empty() ? "runs.svg" : options.out;
  write_file_atomically(
      file, draw_runs(titles.size() == 1 ? titles.front() : fmt::format("{} runs", curves.size()), curves));
  std::cout << fmt::format("{}: curves of {} run{}, for a browser\n", file, curves.size(),
                           curves.size() == 1 ? "" : "s");
  return 0;
}

int report(const RunsOptions& options) {
  const RunFolder folder = the_run(options.paths.front()).folder;
  const fs::path file = options.out.empty() ? folder.report() : fs::path(options.out);
  write_file_atomically(file, html_report(folder));
  std::cout << fmt::format("{}: the report of the run, for a browser\n", file.string());
  return 0;
}

bool confirmed(const std::vector<RunInfo>& runs) {
  uint64_t bytes = 0;
  for (const RunInfo& run : runs) bytes += run.bytes;
  std::cout << fmt::format("Remove {} run{}, {}? [y/N] ", runs.size(), runs.size() == 1 ? "" : "s",
                           format_bytes(bytes))
            << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return !answer.empty() && (answer[0] == 'y' || answer[0] == 'Y');
}

int remove(const RunsOptions& options) {
  // All are checked before one is removed.
  std::vector<RunInfo> runs;
  for (const std::string& path : options.paths) {
    check_removable({path});
    runs.push_back(read_run_info({path}));
  }
  if (!options.yes) {
    if (!os::terminal_of_stdout())
      throw Error(ErrorCode::usage, "cannot ask, because the output is not a terminal", "--yes",
                  "Add --yes to remove runs without a question");
    std::cout << runs_table(runs);
    if (!confirmed(runs)) {
      std::cout << "Nothing was removed.\n";
      return 0;
    }
  }
  for (const RunInfo& run : runs) {
    const auto left = remove_run(run.folder);
    std::cout << fmt::format("removed {} ({})\n", run.folder.path.string(), format_bytes(run.bytes));
    if (left.empty()) continue;
    std::vector<std::string> names;
    for (const fs::path& file : left) names.push_back(file.filename().string());
    std::cout << fmt::format("  the folder is kept, because it has files that no run wrote: {}\n",
                             join(names));
  }
  return 0;
}

}  // namespace

void add_runs(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand("runs", "List, compare, plot, report on or remove runs");
  command->require_subcommand(1);
  const auto options = std::make_shared<RunsOptions>();
  const auto paths = [&](CLI::App* to, const char* what) {
    return to->add_option("RUN", options->paths, what)->option_text("...");
  };
  CLI::App* ls = command->add_subcommand("ls", "List runs: model, data, device, best test, time, state");
  paths(ls, "folders of runs, or runs (default runs)");
  ls->add_flag("--json", options->json, "print it as JSON");
  ls->callback([options, &exit_code] { exit_code = list(*options); });
  CLI::App* same = command->add_subcommand("compare", "Show in which options and results runs differ");
  paths(same, "folders of runs")->required();
  same->add_flag("--all", options->all, "also show options that are the same");
  same->add_flag("--json", options->json, "print it as JSON");
  same->callback([options, &exit_code] { exit_code = compare(*options); });
  CLI::App* drawing = command->add_subcommand("plot", "Draw the curves of several runs in one chart (SVG)");
  paths(drawing, "folders of runs")->required();
  drawing->add_option("--out", options->out, "the SVG file (default runs.svg)")->option_text("FILE");
  drawing->callback([options, &exit_code] { exit_code = plot(*options); });
  CLI::App* telling = command->add_subcommand("report", "Write an HTML report of a run, in one file");
  paths(telling, "a run's folder")->required()->expected(1);
  telling->add_option("--out", options->out, "the report (default RUN/report.html)")->option_text("FILE");
  telling->callback([options, &exit_code] { exit_code = report(*options); });
  CLI::App* rm = command->add_subcommand("rm", "Remove runs: their files, and nothing else");
  paths(rm, "folders of runs")->required();
  rm->add_flag("--yes", options->yes, "do not ask");
  rm->callback([options, &exit_code] { exit_code = remove(*options); });
}

}  // namespace athanor::cli
