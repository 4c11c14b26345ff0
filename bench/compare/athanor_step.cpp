// Athanor's side of bench/compare/run: whole training steps of one model, as one line of JSON. Its peer is
// pytorch_step.py.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <utility>

#include "athanor/backends/cpu/loops/steps.h"
#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/threads.h"
#include "athanor/compile/options.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/trace.h"
#include "athanor/nn/nn.h"
#include "athanor/ops/ops.h"
#include "athanor/optim/optim.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/runtime/tuning_session.h"

namespace {

using namespace athanor;

struct Settings {
  std::string model = "mlp", device = "cpu", optimizer = "sgd", trace;
  int64_t batch = 128;
  std::string precision = "f32";
  int steps = 50, warmup = 10, threads = 2;
  bool avx2 = false;
  double tune_seconds = 0;
  int64_t memory_limit = 0;  // bytes; 0: none
};

struct Batch {
  HostArray inputs, labels;
};

// A model and its inputs: pictures [C, H, W] with classes, or tokens [T] and the ones after them.
struct Workload {
  std::unique_ptr<nn::Module> model;
  Shape input;
  int64_t classes;
  bool tokens = false;
};

Workload make_workload(const std::string& name) {
  const auto gpt2 = [](const nn::Gpt2Options& options, int64_t length) {
    return Workload{std::make_unique<nn::Gpt2>(options), {length}, options.vocabulary, true};
  };
  if (name == "transformer")
    return gpt2({.vocabulary = 256, .positions = 128, .layers = 6, .dimensions = 256, .heads = 4}, 128);
  if (name == "gpt2-small") return gpt2({}, 1024);
  const auto bert = [](const nn::BertOptions& options) {
    return Workload{std::make_unique<nn::BertForMaskedLM>(options), {128}, 30522, true};
  };
  if (name == "bert-small") return bert({.layers = 4, .dimensions = 512, .heads = 8, .pooler = false});
  if (name == "bert-base") return bert({.layers = 12, .dimensions = 768, .heads = 12, .pooler = false});
  const Shape picture = name == "resnet50"           ? Shape{3, 224, 224}
                        : name.starts_with("resnet") ? Shape{3, 32, 32}
                                                     : Shape{1, 28, 28};
  const int64_t classes = name == "resnet50" ? 1000 : 10;
  return {nn::make_model(name, picture, classes), picture, classes};
}

// Repeats the same few batches. Noise instead of pictures or text does not change the work of any kernel.
std::vector<Batch> make_batches(const Workload& workload, int64_t size) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Ints extents{size};
  for (int i = 0; i < workload.input.rank(); ++i) extents.push_back(workload.input[i]);
  const Shape shape(extents), labels_shape = workload.tokens ? shape : Shape{size};
  const auto integers = [&](const Shape& of) {
    std::vector<int64_t> values(static_cast<size_t>(of.size()));
    for (int64_t& value : values)
      value = static_cast<int64_t>(random() % static_cast<uint64_t>(workload.classes));
    return HostArray::of<int64_t>(of, values);
  };
  std::vector<Batch> batches;
  for (int i = 0; i < 4; ++i) {
    if (workload.tokens) {
      HostArray inputs = integers(shape);
      batches.push_back({std::move(inputs), integers(labels_shape)});
      continue;
    }
    std::vector<float> values(static_cast<size_t>(shape.size()));
    for (float& value : values) value = normal(random);
    batches.push_back({HostArray::of<float>(shape, values), integers(labels_shape)});
  }
  return batches;
}

// Bytes, from a line of /proc/self/status: VmRSS (now) or VmHWM (the maximum so far).
int64_t memory_of_process(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * 1024;
  return 0;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The names of the kernels of ops, and the number of steps that use them.
std::map<std::string, int> kernels_of(const Plan& plan) {
  std::map<std::string, int> count;
  for (const PlanStep& step : plan.steps)
    if (step.request) ++count[step.request->op->name + ": " + step.kernel.name];
  return count;
}

nlohmann::json measure(const Settings& settings) {
  set_cpu_threads(settings.threads);
  if (settings.avx2) loops::limit_isa("avx2");
  const int64_t baseline = memory_of_process("VmRSS");
  manual_seed(1);
  const Device device = parse_device(settings.device);
  const Workload workload = make_workload(settings.model);
  const auto batches = make_batches(workload, settings.batch);
  nn::Module& model = *workload.model;
  model.to(device);
  const auto optimizer =
      optim::make_optimizer(settings.optimizer, model.parameters(), {.lr = 0.01, .momentum = 0.9});
  const Precision precision = parse_precision(settings.precision);
  optim::GradScaler scaler(device);
  std::vector<double> milliseconds;
  double loss_value = 0, first_step_seconds = 0;  // compiling and checking kernels included
  std::optional<Trace> trace;
  // With a budget, kernels are timed between the first steps, which do not count; otherwise before the first
  // one.
  std::optional<TuningSession> tuning;
  if (settings.tune_seconds > 0) tuning.emplace(TuningBudget{.share = 1, .seconds = settings.tune_seconds});
  const auto begin = Clock::now();
  const auto tunes = [&] {
    return tuning && seconds_since(begin) < settings.tune_seconds && !tuning->state().over;
  };
  std::vector<std::pair<Tensor, Tensor>> inputs;  // on the device, as PyTorch's inputs are
  for (const Batch& batch : batches)
    inputs.emplace_back(Tensor::from(batch.inputs, device), Tensor::from(batch.labels, device));
  eval({});  // initial values, to which the limit does not apply
  compile_options().memory_limit = settings.memory_limit;
  for (int step = -settings.warmup; step < settings.steps; ++step) {
    if (step > -settings.warmup && step <= 0 && tunes()) {
      tuning->between_steps(last_plan(), [&] { queue_of(device).finish(); });
      step = -settings.warmup + 1;  // until nothing is left, or the time is over
    }
    const auto& [batch, labels] = inputs[static_cast<size_t>(step + settings.warmup) % inputs.size()];
    const auto start = std::chrono::steady_clock::now();
    const Tensor loss = [&] {
      const Autocast scope(precision);
      const Tensor logits = model(batch);
      return cross_entropy(reshape(logits, {-1, workload.classes}), reshape(labels, {-1}));
    }();
    if (precision == Precision::f16) {
      scaler.scale(loss).backward();
      scaler.step(*optimizer);
      scaler.update();
    } else {
      loss.backward();
      optimizer->step();
    }
    loss_value = loss.item();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    if (first_step_seconds == 0) first_step_seconds = time.count() / 1e3;
    if (step >= 0) milliseconds.push_back(time.count());
    if (step == -1) {
      reset_evaluation_stats();
      if (!settings.trace.empty()) trace.emplace();
    }
  }
  if (trace) std::ofstream(settings.trace) << trace->json();
  int64_t parameters = 0;
  for (const nn::Parameter& parameter : model.parameters()) parameters += parameter.shape().size();
  const EvaluationStats& stats = evaluation_stats();
  return {{"framework", "athanor"},
          {"model", settings.model},
          {"batch", settings.batch},
          {"precision", settings.precision},
          {"parameters", parameters},
          {"first_step_seconds", first_step_seconds},
          {"step_ms", milliseconds},
          {"step_ms_median", median(milliseconds)},
          {"rebuild_ms_mean", stats.rebuild_seconds * 1e3 / settings.steps},
          {"last_loss", loss_value},
          {"kernels_total", last_plan()->steps.size()},
          {"libraries", last_plan()->libraries},
          {"kernels", kernels_of(*last_plan())},
          {"peak_rss_bytes", memory_of_process("VmHWM")},
          {"baseline_rss_bytes", baseline},
          {"planned_memory_bytes", last_plan()->planned_memory_bytes()},
          {"recomputed", last_plan()->recomputed.kernels},
          {"peak_device_bytes", memory_use(device).peak}};
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Times whole training steps on random pictures or tokens.");
  app.add_option("--model", settings.model,
                 "mlp, cnn, resnet18, resnet34, resnet50, transformer, gpt2-small, bert-small or bert-base");
  app.add_option("--optimizer", settings.optimizer, "sgd (with momentum 0.9, the default), adam or adamw");
  app.add_option("--precision", settings.precision, "f32, tf32, bf16 or f16");
  app.add_option("--device", settings.device, "cpu, opencl:0, ...");
  app.add_option("--batch", settings.batch, "Pictures or texts a step");
  app.add_option("--trace", settings.trace,
                 "Writes a trace of the timed steps to this file (Chrome's format)");
  app.add_option("--steps", settings.steps, "Timed steps")->check(CLI::PositiveNumber);
  app.add_option("--warmup", settings.warmup, "Steps before these")->check(CLI::PositiveNumber);
  app.add_option("--threads", settings.threads, "CPU threads");
  app.add_option("--tune-seconds", settings.tune_seconds,
                 "Times kernels between the first steps for so long, instead of all before the first step");
  app.add_option("--memory-limit", settings.memory_limit, "Bytes that a step may plan; 0: all it wants");
  app.add_flag("--avx2", settings.avx2, "Use no newer instructions; set ONEDNN_MAX_CPU_ISA=AVX2 as well");
  CLI11_PARSE(app, argc, argv);
  try {
    std::cout << measure(settings).dump() << '\n';
  } catch (const Error& error) {
    std::cerr << "compare_step: " << error.what() << '\n';
    return 1;
  }
}
