// athanor explain
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "athanor/base/text.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/model_step.h"
#include "athanor/cli/trained_model.h"
#include "athanor/cli/usage.h"
#include "athanor/compile/plan.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/runtime/executor.h"

namespace athanor::cli {
namespace {

constexpr int profiled_runs = 10;

struct ExplainOptions {
  StepOptions step;
  bool profile = false, json = false;
};

/// Seconds that each step of the plan took on average.
std::vector<double> profile(ModelStep& subject, std::shared_ptr<const Plan>& plan) {
  eval(subject.build());  // warm
  const ScopedProfile scope;
  for (int i = 0; i < profiled_runs; ++i) eval(subject.build());
  plan = last_plan();
  std::vector<double> seconds;
  for (const StepTime& time : scope.times(*plan))
    seconds.push_back(time.seconds / static_cast<double>(std::max<int64_t>(1, time.runs)));
  return seconds;
}

std::string profile_table(const Plan& plan, const std::vector<double>& seconds) {
  double total = 0;
  for (const double s : seconds) total += s;
  std::string text = fmt::format(
      "\nMeasured, mean of {} runs:\n\nstep       time   share   GFLOP/s     GB/s  ops\n", profiled_runs);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    text += fmt::format("{:4}  {:>9}  {:4.1f} %  {:8.1f}  {:7.1f}  {}\n", i, format_duration(seconds[i]),
                        100 * seconds[i] / total, static_cast<double>(step.flops) / seconds[i] * 1e-9,
                        static_cast<double>(step.bytes) / seconds[i] * 1e-9, step.name());
  }
  return text + fmt::format("\n{} in all: {:.1f} GFLOP/s, {:.1f} GB/s\n", format_duration(total),
                            static_cast<double>(plan.flops()) / total * 1e-9,
                            static_cast<double>(plan.bytes()) / total * 1e-9);
}

int explain_model(const ExplainOptions& options) {
  ModelStep subject(options.step, device_option(options.step.config.device));
  std::shared_ptr<const Plan> plan;
  std::vector<double> seconds;
  if (options.profile)
    seconds = profile(subject, plan);
  else
    plan = plan_for(subject.build());
  if (options.json) {
    auto json = to_json(*plan);
    for (size_t i = 0; i < seconds.size(); ++i) json["steps"][i]["mean_seconds"] = seconds[i];
    std::cout << json.dump() << '\n';
    return 0;
  }
  std::cout << fmt::format("{} of {}, batch {}:\n\n",
                           options.step.inference ? "Inference" : "One training step",
                           options.step.config.model, options.step.config.batch_size)
            << explain(*plan);
  if (options.profile) std::cout << profile_table(*plan, seconds);
  return 0;
}

}  // namespace

void add_explain(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "explain", "Show the plan of a training step: every kernel, why, where and on what memory");
  const auto options = std::make_shared<ExplainOptions>();
  add_step_options(*command, options->step);
  add_device_option(*command, options->step);
  command->add_flag("--profile", options->profile,
                    fmt::format("run it {} times and add measured times", profiled_runs));
  command->add_flag("--json", options->json, "print the plan as JSON");
  command->callback([command, options, &exit_code] {
    refuse_zero(*command, {"--threads"});
    exit_code = explain_model(*options);
  });
}

}  // namespace athanor::cli
