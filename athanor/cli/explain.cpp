// athanor explain
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "athanor/backends/cpu/threads.h"
#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/trained_model.h"
#include "athanor/compile/options.h"
#include "athanor/compile/plan.h"
#include "athanor/data/open_dataset.h"
#include "athanor/nn/models.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/runtime/executor.h"
#include "athanor/train/training_step.h"

namespace athanor::cli {
namespace {

constexpr int profiled_runs = 10;

struct ExplainOptions {
  TrainConfig config;
  std::string data;
  std::vector<int64_t> input{1, 28, 28};
  int64_t classes = 10;
  bool inference = false, profile = false, json = false;
};

/// A model, and batches of zeros for it.
class Subject {
 public:
  explicit Subject(const ExplainOptions& options)
      : options_(options), device_(device_option(options.config.device)) {
    const TrainConfig& config = options.config;
    ExampleSpec spec;
    spec.input = options.input;
    spec.classes = options.classes;
    if (!options.data.empty()) spec = open_dataset(options.data, Split::train)->spec();
    set_cpu_threads(static_cast<int>(config.threads));
    model_ = nn::make_model(config.model, spec.input, spec.classes);
    model_->to(device_).train(!options.inference);
    optimizer_ = optim::make_optimizer(
        config.optimizer, model_->parameters(),
        {.lr = config.learning_rate(), .momentum = config.momentum, .nesterov = config.momentum > 0});
    pictures_ = HostArray(DType::f32, spec.input.insert(0, config.batch_size));
    labels_ = HostArray(DType::i64, {config.batch_size});
    eval({});  // initial values are not part of the step
  }

  /// The result of one step, not computed.
  Tensor build() {
    const Tensor pictures = Tensor::from(pictures_, device_);
    if (!options_.inference)
      return training_step(*model_, *optimizer_, pictures, Tensor::from(labels_, device_)).loss;
    const NoGrad no_history;
    return (*model_)(pictures);
  }

 private:
  const ExplainOptions& options_;
  Device device_;
  std::unique_ptr<nn::Module> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  HostArray pictures_, labels_;
};

/// Seconds that each step of the plan took on average.
std::vector<double> profile(Subject& subject, std::shared_ptr<const Plan>& plan) {
  subject.build().eval();  // warm
  const ScopedProfile scope;
  for (int i = 0; i < profiled_runs; ++i) subject.build().eval();
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
  options.config.validate();
  if (options.input.size() != 3 ||
      std::ranges::any_of(options.input, [](int64_t extent) { return extent < 1; }) || options.classes < 1)
    throw Error(ErrorCode::usage, "the shape of the pictures makes no sense", "--input and --classes",
                "Give channels, height and width ('--input 3,32,32') and at least one class");
  compile_options().deterministic |= options.config.deterministic;
  Subject subject(options);
  std::shared_ptr<const Plan> plan;
  std::vector<double> seconds;
  if (options.profile)
    seconds = profile(subject, plan);
  else
    plan = plan_for({subject.build()});
  if (options.json) {
    auto json = to_json(*plan);
    for (size_t i = 0; i < seconds.size(); ++i) json["steps"][i]["mean_seconds"] = seconds[i];
    std::cout << json.dump() << '\n';
    return 0;
  }
  std::cout << fmt::format("{} of {}, batch {}:\n\n", options.inference ? "Inference" : "One training step",
                           options.config.model, options.config.batch_size)
            << explain(*plan);
  if (options.profile) std::cout << profile_table(*plan, seconds);
  return 0;
}

}  // namespace

void add_explain(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "explain", "Show the plan of a training step: every kernel, why, where and on what memory");
  const auto options = std::make_shared<ExplainOptions>();
  TrainConfig& config = options->config;
  command
      ->add_option("--model", config.model,
                   names_of(nn::model_names()) + fmt::format(" (default {})", config.model))
      ->option_text("NAME");
  command
      ->add_option("--batch-size", config.batch_size,
                   fmt::format("pictures a step (default {})", config.batch_size))
      ->option_text("N");
  command
      ->add_option("--optimizer", config.optimizer,
                   names_of(optim::optimizer_names()) + fmt::format(" (default {})", config.optimizer))
      ->option_text("NAME");
  command->add_option("--data", options->data, "take shape and classes from a dataset, as for train")
      ->option_text("NAME|DIR");
  command->add_option("--input", options->input, "channels,height,width of the pictures (default 1,28,28)")
      ->delimiter(',')
      ->expected(1, 3)
      ->option_text("C,H,W");
  command->add_option("--classes", options->classes, "(default 10)")->option_text("N");
  command->add_option("--device", config.device, "auto, cpu (default auto)")->option_text("NAME");
  command->add_option("--threads", config.threads, "of the CPU's kernels (default: one for each core)")
      ->option_text("N");
  command->add_flag("--inference", options->inference, "the forward pass alone");
  command->add_flag("--profile", options->profile,
                    fmt::format("run it {} times and add measured times", profiled_runs));
  command->add_flag("--deterministic", config.deterministic, "choose kernels without timing them");
  command->add_flag("--json", options->json, "print the plan as JSON");
  command->callback([options, &exit_code] { exit_code = explain_model(*options); });
}

}  // namespace athanor::cli
