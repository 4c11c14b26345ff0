#include "athanor/train/run_tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/compile/options.h"
#include "athanor/kernels/contest.h"
#include "athanor/kernels/tuning_cache.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/train/checkpoint.h"
#include "athanor/train/run_folder.h"

namespace athanor {
namespace {

StepKernels kernels_of(const Plan& plan, Device device) {
  StepKernels kernels;
  for (const PlanStep& step : plan.steps)
    if (step.request && step.device == device) kernels[step.request->key()] = step.kernel.name;
  return kernels;
}

}  // namespace

std::vector<StepMetrics> metrics_of(const std::filesystem::path& run) {
  return read_metrics(std::filesystem::is_directory(run) ? RunFolder{run}.metrics() : run);
}

KernelRecord record_in(const std::vector<StepMetrics>& steps) {
  KernelRecord record;
  for (const StepMetrics& step : steps)
    if (!step.kernels.empty()) record[step.step] = step.kernels;
  return record;
}

RunTuning::RunTuning(const TrainConfig& config, Device device)
    : tuning_(parse_tuning(config.tune)), repeated_(config.choices), device_(device) {}

void RunTuning::begin() {
  if (tuning_ == Tuning::quick && compile_options().enabled(Pass::tune)) session_.emplace();
}

TuningState RunTuning::state() const {
  TuningState state = session_ ? session_->state() : TuningState{};
  state.problems += earlier_.timed;
  state.timed += earlier_.timed;
  state.seconds += earlier_.seconds;
  return state;
}

void RunTuning::begin_anew() {
  // The record has only the kernels that then changed. Those that did not are looked up by the new number.
  if (!repeated_.empty()) restore(expected_);
  if (!session_) return;
  earlier_ = state();
  session_.reset();
  TuningBudget rest;
  rest.seconds = std::max(0.0, rest.seconds - earlier_.seconds);
  session_.emplace(rest);
}

void RunTuning::repeat_another(const std::vector<StepMetrics>& steps) {
  const RunFolder run{repeated_};
  KernelRecord record = record_in(steps);
  if (!record.contains(1))
    throw Error(ErrorCode::format, "there is no record of kernels in the run's metrics", repeated_,
                "Give the folder of a run of this version of Athanor, or its metrics.jsonl");
  // The metrics do not have the kernels of the run's tests.
  if (std::filesystem::exists(run.checkpoint()))
    TuningCache::instance().restore(read_checkpoint(run.checkpoint()).kernels);
  expected_ = record.at(1);
  restore(expected_);
  record.erase(1);
  to_come_ = std::move(record);
}

void RunTuning::repeat(const KernelRecord& changes) {
  for (const auto& [step, kernels] : changes) to_come_[step] = kernels;
}

void RunTuning::go_on_from(const std::vector<StepMetrics>& steps) {
  for (const StepMetrics& step : steps)
    for (const auto& [request, kernel] : step.kernels) in_force_[request] = kernel;
  if (!repeated_.empty() && !steps.empty()) expected_ = in_force_;
}

void RunTuning::restore(const StepKernels& kernels) const {
  std::map<std::string, std::string> winners;
  for (const auto& [request, kernel] : kernels) winners[environment_key(device_) + "|" + request] = kernel;
  TuningCache::instance().restore(winners);
}

void RunTuning::before_step(int64_t step, const std::shared_ptr<const Plan>& plan, Reporter& reporter,
                            const std::function<void()>& settle) {
  if (const auto change = to_come_.find(step); change != to_come_.end()) {
    settle();
    restore(change->second);
    std::set<std::string> problems;
    for (const auto& [request, kernel] : change->second) {
      problems.insert(environment_key(device_) + "|" + request);
      if (!repeated_.empty()) expected_[request] = kernel;
    }
    forget_plans_with(problems);
    to_come_.erase(change);
    return;
  }
  if (!session_ || !to_come_.empty()) return;
  TuningFacts facts{.step = step, .changes = session_->between_steps(plan, settle), .state = {}};
  facts.state = state();
  if (facts.state.problems == 0 || (facts.changes.empty() && facts.state.timed == reported_timed_)) return;
  reported_timed_ = facts.state.timed;
  reporter.tuned(facts);
}

StepKernels RunTuning::news(int64_t step, const std::shared_ptr<const Plan>& plan) {
  StepKernels news;
  if (std::exchange(plan_, plan) == plan) return news;
  for (const auto& [request, kernel] : kernels_of(*plan, device_)) {
    if (const auto expected = expected_.find(request);
        !repeated_.empty() && (expected == expected_.end() || expected->second != kernel))
      throw Error(ErrorCode::value,
                  fmt::format("step {} of the run has the kernel '{}' for {}, and here it would be '{}'",
                              step, expected == expected_.end() ? "" : expected->second, request, kernel),
                  repeated_,
                  "Repeat it with the same options, on the same device, with the same version of Athanor");
    if (auto& known = in_force_[request]; known != kernel) known = news[request] = kernel;
  }
  return news;
}

}  // namespace athanor
