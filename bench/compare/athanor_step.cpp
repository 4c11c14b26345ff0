// Athanor's side of bench/compare/run: whole training steps of one model, as one line of JSON. Its peer is
// pytorch_step.py.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "athanor/base/error.h"
#include "athanor/base/threads.h"
#include "athanor/nn/nn.h"
#include "athanor/ops/ops.h"
#include "athanor/optim/optim.h"
#include "athanor/runtime/evaluate.h"

namespace {

using namespace athanor;

struct Settings {
  std::string model = "mlp", device = "cpu", optimizer = "sgd";
  int64_t batch = 128;
  int steps = 50, warmup = 10, threads = 2;
};

struct Batch {
  HostArray pictures, labels;
};

// Repeats the same few batches. Noise instead of pictures does not change the work of any kernel.
std::vector<Batch> make_batches(const Shape& picture, int64_t size) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<Batch> batches;
  for (int i = 0; i < 4; ++i) {
    const Shape shape{size, picture[0], picture[1], picture[2]};
    std::vector<float> values(static_cast<size_t>(shape.size()));
    for (float& value : values) value = normal(random);
    std::vector<int64_t> labels(static_cast<size_t>(size));
    for (int64_t& label : labels) label = static_cast<int64_t>(random() % 10);
    batches.push_back({HostArray::of<float>(shape, values), HostArray::of<int64_t>({size}, labels)});
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

nlohmann::json measure(const Settings& settings) {
  set_cpu_threads(settings.threads);
  const int64_t baseline = memory_of_process("VmRSS");
  const Shape picture = settings.model == "resnet18" ? Shape{3, 32, 32} : Shape{1, 28, 28};
  const auto batches = make_batches(picture, settings.batch);
  manual_seed(1);
  const Device device = parse_device(settings.device);
  const auto model = nn::make_model(settings.model, picture, 10);
  model->to(device);
  const auto optimizer =
      optim::make_optimizer(settings.optimizer, model->parameters(), {.lr = 0.01, .momentum = 0.9});
  std::vector<double> milliseconds;
  double loss_value = 0;
  for (int step = -settings.warmup; step < settings.steps; ++step) {
    const Batch& batch = batches[static_cast<size_t>(step + settings.warmup) % batches.size()];
    const auto start = std::chrono::steady_clock::now();
    const Tensor loss =
        cross_entropy((*model)(Tensor::from(batch.pictures, device)), Tensor::from(batch.labels, device));
    loss.backward();
    optimizer->step();
    loss_value = loss.item();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    if (step >= 0) milliseconds.push_back(time.count());
    if (step == -1) reset_evaluation_stats();
  }
  const EvaluationStats& stats = evaluation_stats();
  return {{"framework", "athanor"},
          {"model", settings.model},
          {"batch", settings.batch},
          {"step_ms", milliseconds},
          {"step_ms_median", median(milliseconds)},
          {"rebuild_ms_mean", stats.rebuild_seconds * 1e3 / settings.steps},
          {"last_loss", loss_value},
          {"kernels_total", last_plan()->steps.size()},
          {"peak_rss_bytes", memory_of_process("VmHWM")},
          {"baseline_rss_bytes", baseline},
          {"planned_memory_bytes", last_plan()->planned_memory_bytes()},
          {"peak_device_bytes", memory_use(device).peak}};
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Times whole training steps on random pictures.");
  app.add_option("--model", settings.model, "mlp, cnn or resnet18");
  app.add_option("--optimizer", settings.optimizer, "sgd (with momentum 0.9, the default), adam or adamw");
  app.add_option("--device", settings.device, "cpu, opencl:0, ...");
  app.add_option("--batch", settings.batch, "Pictures a step");
  app.add_option("--steps", settings.steps, "Timed steps")->check(CLI::PositiveNumber);
  app.add_option("--warmup", settings.warmup, "Steps before these")->check(CLI::PositiveNumber);
  app.add_option("--threads", settings.threads, "CPU threads");
  CLI11_PARSE(app, argc, argv);
  try {
    std::cout << measure(settings).dump() << '\n';
  } catch (const Error& error) {
    std::cerr << "compare_step: " << error.what() << '\n';
    return 1;
  }
}
