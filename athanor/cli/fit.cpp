// athanor fit
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/os/memory.h"
#include "athanor/base/text.h"
#include "athanor/base/threads.h"
#include "athanor/base/wrap.h"
#include "athanor/base/writable.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/examine.h"
#include "athanor/cli/fit_command.h"
#include "athanor/cli/fit_least.h"
#include "athanor/cli/model_step.h"
#include "athanor/cli/numbers.h"
#include "athanor/cli/terminal.h"
#include "athanor/cli/trained_model.h"
#include "athanor/data/open_dataset.h"
#include "athanor/kernels/kernel.h"
#include "athanor/kernels/precision_support.h"
#include "athanor/memory/storage.h"
#include "athanor/nn/models.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/runtime/executor.h"
#include "athanor/train/fit.h"

namespace athanor::cli {
namespace {

constexpr int checked_steps = 3;

struct FitOptions {
  ModelStepOptions step;
  std::string svg;
  bool check = false, json = false, batch_was_given = false;
};

struct FitResult {
  std::vector<FitPoint> points;  // of the table, by precision and batch size
  std::vector<FitChart::Series> series;
  std::optional<FitPoint> advised;
};

/// The results of steps that were run.
struct Checked {
  int64_t peak = 0;                 // the most in the device's storage
  std::optional<int64_t> resident;  // on the CPU: the growth of the process
  double seconds = 0;
};

std::string name_of(const FitPoint& point) {
  std::string name = point.of.parts > 1 ? fmt::format("in {} parts", point.of.parts) : "";
  if (point.of.again)
    name +=
        fmt::format("{}some recomputed: {:.1f} % of the time", name.empty() ? "" : ", ", 100 * point.share);
  return name;
}

struct FitPrecisions {
  std::vector<Precision> compared;
  std::string cost;  // what the last of them costs on the device (kernels/precision_support.h)
};

/// The precision that was asked for, or f32 and, if the device computes in it, bf16.
FitPrecisions precisions_of(const FitOptions& options, Device device, bool was_given) {
  const Precision asked = parse_precision(options.step.config.precision);
  if (was_given) return {{asked}, require_precision(device, asked)};
  try {
    return {{Precision::f32, Precision::bf16}, require_precision(device, Precision::bf16)};
  } catch (const Error&) {
    return {{Precision::f32}, {}};
  }
}

/// The number of examples in the training data, if it is known.
std::optional<int64_t> training_examples(const ModelStepOptions& options, const StepExamples& examples) {
  if (examples.count || !is_of_default_data(options.config, examples.spec)) return examples.count;
  try {
    return open_dataset(options.config.data, Split::train)->size();
  } catch (const Error&) {
    return std::nullopt;  // the data is not here
  }
}

/// Adds a precision's rows of the table and lines of the chart.
void look_at(Fitter& fitter, Precision precision, int64_t parts, int64_t asked, FitResult& result) {
  const std::string name(to_string(precision));
  const auto plain = fitter.largest({.parts = parts, .precision = precision});
  const auto again = fitter.largest({.parts = parts, .again = true, .precision = precision});
  FitChart::Series kept{name, {}}, recomputed{name + ", some recomputed", {}},
      parted{name + ", in parts", {}};
  const int64_t last = std::max({again ? again->of.batch_size : 0, plain ? plain->of.batch_size : 0, asked});
  std::vector<int64_t> batches;
  for (int64_t batch = parts * fitter.least_batch(); batch <= last; batch *= 2)
    if (batch * 256 > last) batches.push_back(batch);
  for (const auto& point : {plain, again})
    if (point) batches.push_back(point->of.batch_size);
  if (asked > 0) batches.push_back(asked);
  std::ranges::sort(batches);
  batches.erase(std::ranges::unique(batches).begin(), batches.end());
  for (const int64_t batch : batches) {
    const FitCase whole{.batch_size = batch, .parts = parts, .precision = precision};
    if (const auto point = fitter.look(whole)) {
      result.points.push_back(*point);
      kept.points.push_back(*point);
      if (plain && batch == plain->of.batch_size) {
        recomputed.points.push_back(*point);
        parted.points.push_back(*point);
      }
      continue;
    }
    FitCase less = whole;
    less.again = true;
    if (const auto point = fitter.look(less)) {
      result.points.push_back(*point);
      recomputed.points.push_back(*point);
    }
    if (const auto point = fitter.in_parts(whole)) {
      result.points.push_back(*point);
      parted.points.push_back(*point);
    }
  }
  if (!kept.points.empty()) result.series.push_back(std::move(kept));
  if (recomputed.points.size() > 1) result.series.push_back(std::move(recomputed));
  if (parted.points.size() > 1) result.series.push_back(std::move(parted));
}

/// The fastest way to compute the batch that was asked for; without one, the largest that is not slower for
/// each example than smaller ones. In the precision that was asked for (f32), or if nothing fits so, in the
/// next.
std::optional<FitPoint> advice(const FitOptions& options, const std::vector<FitPoint>& points) {
  if (!options.batch_was_given) {
    const Precision first = points.front().of.precision;
    if (const auto fast = largest_fast_batch(points, options.step.config.accumulate, first)) return fast;
    int64_t most = 0;  // no batch keeps all activations
    for (const FitPoint& point : points)
      if (point.of.precision == first) most = std::max(most, point.of.batch_size);
    return fastest_way(points, most);
  }
  return fastest_way(points, options.step.config.batch_size);
}

/// What is counted: images, or `in_example` tokens of each window.
struct FitUnit {
  std::string many = "images";
  int64_t in_example = 1;
};

std::string table_of(const std::vector<FitPoint>& points, const std::optional<FitPoint>& advised,
                     const FitUnit& unit, bool knows_times) {
  std::string text = fmt::format("  precision   batch     memory  step time {:>11}\n", unit.many + "/s");
  for (const FitPoint& point : points)
    text += fmt::format(
        "{} {:<9} {:>7} {:>10} {:>10} {:>11}{}{}\n", advised && advised->of == point.of ? "*" : " ",
        to_string(point.of.precision), point.of.batch_size, format_bytes(static_cast<uint64_t>(point.bytes)),
        knows_times ? format_duration(point.seconds) : "-",
        knows_times ? grouped(std::llround(point.per_second() * static_cast<double>(unit.in_example))) : "-",
        name_of(point).empty() ? "" : "  ", name_of(point));
  return text;
}

/// Why no smaller and no larger batch is advised; empty if the table says it.
std::string reasons_of(const FitResult& result, const FitUnit& unit) {
  const FitSpeeds speeds = speeds_around(*result.advised, result.points);
  std::vector<std::string> reasons;
  if (speeds.larger_slower)
    reasons.push_back(
        fmt::format("Larger batches fit too, but are predicted to compute fewer {} a second.", unit.many));
  if (speeds.alike_from < result.advised->of.batch_size)
    reasons.push_back(
        fmt::format("Smaller batches, down to {}, are predicted to compute about as many {} a second (within "
                    "{:.0f} %): choose "
                    "one of them if the model learns better from more and shorter steps.",
                    speeds.alike_from, unit.many, 100 * alike_in_speed));
  return join(reasons, " ");
}

/// What another precision would change; empty if nothing.
std::string precision_note(const FitResult& result, Precision wanted, bool knows_times) {
  const FitPoint& advised = *result.advised;
  if (advised.of.precision != wanted)
    return fmt::format("It does not fit in {}, so the command has --precision {}.", to_string(wanted),
                       to_string(advised.of.precision));
  const auto faster = knows_times ? faster_precision(advised, result.points) : std::nullopt;
  if (!faster) return {};
  return fmt::format("In {0} such a step is predicted to take {1} instead of {2} (--precision {0}).",
                     to_string(faster->of.precision), format_duration(faster->seconds),
                     format_duration(advised.seconds));
}

nlohmann::ordered_json json_of(const FitPoint& point, bool knows_times) {
  nlohmann::ordered_json json{
      {"batch_size", point.of.batch_size},      {"precision", to_string(point.of.precision)},
      {"accumulate", point.of.parts},           {"recompute", point.of.again},
      {"planned_memory_bytes", point.bytes},    {"predicted_seconds", point.seconds},
      {"recomputed_share_of_time", point.share}};
  if (!knows_times) json["predicted_seconds"] = nullptr;
  return json;
}

/// Peak memory of some steps: the most that the device's storage held at one time. On the CPU also the growth
/// of the process's RAM, without that storage: libraries take memory too. The first step is left out, because
/// compiling its plans and checking their kernels take memory that later steps do not.
Checked measure_steps(StepPlanner& planner, const FitPoint& point, int64_t limit, Device device) {
  clear_plan_cache();
  release_arenas();  // of larger plans
  release_kept_memory(device);
  const auto now = device == Device{} ? os::resident() : std::nullopt;
  const int64_t before =
      static_cast<int64_t>(now.value_or(0)) - static_cast<int64_t>(memory_use(device).current);
  Checked checked{.seconds = planner.run(point.of, limit)};
  reset_peak_memory(device);
  const bool resets = now && os::reset_peak_resident();
  for (int i = 1; i < checked_steps; ++i)
    checked.seconds = std::min(checked.seconds, planner.run(point.of, limit));
  checked.peak = static_cast<int64_t>(memory_use(device).peak);
  if (const auto peak = resets ? os::peak_resident() : std::nullopt)
    checked.resident = static_cast<int64_t>(*peak) - before;
  return checked;
}

int fit(const FitOptions& options, bool precision_was_given) {
  if (!options.svg.empty()) check_writable(options.svg);
  const Device device = device_choice(options.step.config.device, options.check).device;
  const StepExamples examples = examples_of(options.step);
  const TrainConfig& config = options.step.config;
  set_cpu_threads(static_cast<int>(config.threads));
  compile_options().tuning = Tuning::off;
  const std::optional<uint64_t> free = backend_of(device).free_memory(device.index);
  const uint64_t all = info_of(device).memory_bytes;
  const int64_t limit =
      config.memory_limit > 0 ? config.memory_limit : static_cast<int64_t>(free ? std::min(*free, all) : all);
  if (limit <= 0)
    throw Error(ErrorCode::usage, fmt::format("{} does not say how much memory it has", to_string(device)),
                "--memory-limit", "Give what may be used, such as 8GiB");
  StepPlanner planner(task_without_data(config, examples.spec), config, device);
  const std::optional<int64_t> examples_to_train = training_examples(options.step, examples);
  if (examples_to_train && options.batch_was_given && config.batch_size > *examples_to_train)
    throw Error(ErrorCode::usage,
                fmt::format("a batch of {} is larger than the {} training images", config.batch_size,
                            *examples_to_train),
                "--batch-size", fmt::format("Give at most {}", *examples_to_train));
  Fitter::Options looks{.runs = options.check || device == Device{}};  // elsewhere kernels would be compiled
  if (examples_to_train) looks.most_examples = *examples_to_train;
  Fitter fitter(planner, limit, looks);
  FitResult result;
  const FitPrecisions precisions = precisions_of(options, device, precision_was_given);
  for (const Precision precision : precisions.compared)
    look_at(fitter, precision, config.accumulate, options.batch_was_given ? config.batch_size : 0, result);
  if (result.points.empty())
    throw nothing_fits(planner, fitter.least_batch(), config, examples.spec, device, limit);
  result.advised = advice(options, result.points);
  const bool text = nn::is_language_model(config.model);
  const FitUnit unit = text ? FitUnit{"tokens", examples.spec.input[0]} : FitUnit{};
  const Shape& input = examples.spec.input;
  const std::string seen =
      text ? fmt::format("windows of {} tokens", input[0]) : "images of " + to_string(input);
  const std::string what =
      fmt::format("A training step of {} on {}, {}", config.model, to_string(device), seen);
  const std::string room = fmt::format("{} {}", format_bytes(static_cast<uint64_t>(limit)),
                                       config.memory_limit > 0 ? "may be used"
                                       : free                  ? "are free"
                                                               : "in all (what is free is not known)");
  if (!options.svg.empty())
    write_file_atomically(options.svg,
                          draw_fit({.title = fmt::format("{} on {}", config.model, to_string(device)),
                                    .subtitle = fmt::format("{}, {}; {}", config.optimizer, seen, room),
                                    .limit = limit,
                                    .knows_times = fitter.knows_times(),
                                    .series = result.series}));
  std::optional<Checked> measured;
  if (options.check && result.advised) measured = measure_steps(planner, *result.advised, limit, device);
  if (options.json) {
    nlohmann::ordered_json json{
        {"model", config.model}, {"device", to_string(device)}, {"limit_bytes", limit}};
    for (const FitPoint& point : result.points) json["cases"].push_back(json_of(point, fitter.knows_times()));
    if (result.advised) {
      json["advised"] = json_of(*result.advised, fitter.knows_times());
      json["command"] = train_command(options.step, examples.spec, *result.advised, limit);
    }
    if (measured) {
      json["measured_peak_bytes"] = measured->peak;
      if (measured->resident) json["measured_resident_bytes"] = *measured->resident;
      json["measured_seconds"] = measured->seconds;
    }
    if (!precisions.cost.empty()) json["precision_note"] = precisions.cost;
    add_trust_note(json, device);
    std::cout << json.dump() << '\n';
    return 0;
  }
  const auto say = [](const std::string& line) { std::cout << wrapped(line, report_columns(), 0) << '\n'; };
  say(fmt::format("{}; {}.", what, room));
  std::cout << '\n' << table_of(result.points, result.advised, unit, fitter.knows_times());
  if (!precisions.cost.empty()) {
    std::cout << '\n';
    say(fmt::format("--precision {}: {}.", to_string(precisions.compared.back()), precisions.cost));
  }
  if (!result.advised) {
    const auto largest = std::ranges::max_element(result.points, {},
                                                  [](const FitPoint& point) { return point.of.batch_size; });
    std::cout << '\n';
    say(fmt::format("A batch of {} does not fit in any way. The largest that fits has {}.", config.batch_size,
                    largest->of.batch_size));
    return 1;
  }
  std::cout << fmt::format("\n* {}\n", train_command(options.step, examples.spec, *result.advised, limit));
  if (fitter.knows_times() && !options.batch_was_given)
    if (const std::string reasons = reasons_of(result, unit); !reasons.empty()) say(reasons);
  if (const std::string note = precision_note(result, precisions.compared.front(), fitter.knows_times());
      !note.empty())
    say(note);
  if (!fitter.knows_times())
    say("How long steps take is not known: no kernel was timed on this device. --check runs some.");
  else if (!looks.runs)
    say("Step times are by the best rates that kernels reached on this device: the least possible. --check "
        "runs steps.");
  if (measured) {
    say(fmt::format(
        "Checked with {} steps: {} planned, {} measured ({:+.1f} %), {} a step.", checked_steps,
        format_bytes(static_cast<uint64_t>(result.advised->bytes)),
        format_bytes(static_cast<uint64_t>(measured->peak)),
        100 * (static_cast<double>(measured->peak) / static_cast<double>(result.advised->bytes) - 1),
        format_duration(measured->seconds)));
    if (measured->resident)
      say(fmt::format("The process grew by {}, with what libraries and threads take beside the plan.",
                      format_bytes(static_cast<uint64_t>(std::max<int64_t>(0, *measured->resident)))));
  }
  return 0;
}

}  // namespace

void add_fit(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "fit", "Show which batches fit a device: planned memory and predicted time of a training step");
  const auto options = std::make_shared<FitOptions>();
  add_step_options(*command, options->step);
  command->add_option("--svg", options->svg, "also draw memory and time by batch size")->option_text("FILE");
  command->add_flag("--check", options->check, "run steps of the advised command and measure their memory");
  command->add_flag("--json", options->json, "print everything as one line of JSON");
  command->callback([options, &exit_code] {
    options->batch_was_given = options->step.given.contains("batch_size");
    exit_code = fit(*options, options->step.given.contains("precision"));
  });
}

}  // namespace athanor::cli
