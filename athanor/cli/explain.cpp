// athanor explain
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "athanor/base/text.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/examine.h"
#include "athanor/cli/model_step.h"
#include "athanor/cli/numbers.h"
#include "athanor/cli/terminal.h"
#include "athanor/cli/trained_model.h"
#include "athanor/compile/flow_text.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/trial_memory.h"
#include "athanor/runtime/evaluate.h"

namespace athanor::cli {
namespace {

constexpr int profiled_runs = 10;
// For timing kernels that were never timed: looking at a plan should cost little, whatever the batch size.
constexpr uint64_t most_memory = uint64_t{1} << 30;

struct ExplainOptions {
  ModelStepOptions step;
  int64_t width = 0;
  bool profile = false, json = false;
};

/// Seconds that each step of the plan took on average.
std::vector<double> profile(ModelStep& subject, std::shared_ptr<const Plan>& plan) {
  subject.run();  // warm
  ScopedProfile scope;
  for (int i = 0; i < profiled_runs; ++i) subject.run();
  plan = last_plan();
  std::vector<double> seconds;
  for (const StepTime& time : scope.times(plan))
    seconds.push_back(time.seconds / static_cast<double>(std::max<int64_t>(1, time.runs)));
  return seconds;
}

std::string profile_table(const Plan& plan, const std::vector<double>& seconds, size_t columns) {
  constexpr size_t numbers = 44;
  const size_t ops =
      columns > 2 * numbers ? columns - numbers : std::max<size_t>(columns, numbers + 16) - numbers;
  double total = 0;
  for (const double s : seconds) total += s;
  std::string text = fmt::format(
      "\nMeasured, mean of {} runs:\n\nstep       time   share   GFLOP/s     GB/s  ops\n", profiled_runs);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    text += fmt::format("{:4}  {:>9}  {:4.1f} %  {:8.1f}  {:7.1f}  {}\n", i, format_duration(seconds[i]),
                        100 * seconds[i] / total, static_cast<double>(step.flops) / seconds[i] * 1e-9,
                        static_cast<double>(step.bytes) / seconds[i] * 1e-9,
                        join(broken(step.name(), ops), "\n" + std::string(numbers, ' ')));
  }
  return text + fmt::format("\n{} in all: {:.1f} GFLOP/s, {:.1f} GB/s\n", format_duration(total),
                            static_cast<double>(plan.flops()) / total * 1e-9,
                            static_cast<double>(plan.bytes()) / total * 1e-9);
}

int explain_model(const ExplainOptions& options) {
  const Device device = device_option(options.step.config.device);
  ModelStep subject(options.step, device);
  std::shared_ptr<const Plan> plan;
  std::vector<double> seconds;
  if (options.profile) {
    seconds = profile(subject, plan);
  } else {
    const TrialMemoryLimit small(most_memory);
    plan = subject.plan();
  }
  if (options.json) {
    auto json = to_json(*plan);
    json["batch_size"] = subject.batch_size();
    json["accumulate"] = subject.parts();
    if (!subject.precision_note().empty()) json["precision_note"] = subject.precision_note();
    for (size_t i = 0; i < seconds.size(); ++i) json["steps"][i]["mean_seconds"] = seconds[i];
    add_trust_note(json, device);
    std::cout << json.dump() << '\n';
    return 0;
  }
  const auto columns = static_cast<size_t>(options.width > 0 ? options.width : report_columns());
  const std::string& precision = options.step.config.precision;
  const std::string in_parts = subject.parts() == 1 ? ""
                                                    : fmt::format(" in {} parts of {}", subject.parts(),
                                                                  subject.batch_size() / subject.parts());
  const std::string& cost = subject.precision_note();
  std::cout << fmt::format("{} of {}, batch {}{}{}{}:\n{}\n",
                           options.step.inference ? "Inference" : "One training step",
                           options.step.config.model, subject.batch_size(), in_parts,
                           precision == "f32" ? "" : ", products of " + precision,
                           in_parts.empty() ? "" : "; this is the plan of the last part",
                           cost.empty() ? "" : join(broken(cost, columns), "\n") + "\n")
            << explain(*plan, columns);
  if (options.profile) std::cout << profile_table(*plan, seconds, columns);
  return 0;
}

}  // namespace

void add_explain(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "explain", "Show the plan of a training step: every kernel, why, where and on what memory");
  const auto options = std::make_shared<ExplainOptions>();
  add_step_options(*command, options->step);
  command->add_flag("--inference", options->step.inference, "only the forward pass");
  command->add_flag("--profile", options->profile,
                    fmt::format("run it {} times and add measured times", profiled_runs));
  add_number(*command, "--width", options->width, "columns to use (default: COLUMNS, the terminal's, or 120)")
      ->option_text("N");
  command->add_flag("--json", options->json, "print the plan as JSON");
  command->callback([command, options, &exit_code] {
    at_least_one(*command, {"--width"});
    exit_code = explain_model(*options);
  });
}

}  // namespace athanor::cli
