// Athanor's side of bench/compare/ops: single ops, forward and backward, as one line of JSON. Its peer is
// pytorch_ops.py, which has the same problems.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/threads.h"
#include "athanor/compile/options.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/gpu/gpu_access.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"

namespace {

using namespace athanor;

struct Problem {
  std::vector<Tensor> inputs;  // those with gradients
  std::function<Tensor(const std::vector<Tensor>&)> compute;
};

Device device;

Tensor numbers(const Shape& shape, double low = -1, double high = 1) {
  static std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(static_cast<float>(low), static_cast<float>(high));
  std::vector<float> values(static_cast<size_t>(shape.size()));
  for (float& value : values) value = uniform(random);
  return Tensor::from(values, shape, device);
}

Tensor integers(const Shape& shape, const std::function<int64_t(int64_t)>& value) {
  std::vector<int64_t> values(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = value(static_cast<int64_t>(i));
  return Tensor::from(values, shape, device);
}

int64_t scattered(int64_t i, int64_t below) {
  return static_cast<int64_t>(static_cast<uint64_t>(i) * 2654435761U % static_cast<uint64_t>(below));
}

Problem resize(const Shape& x, const Ints& size, const InterpolateOptions& options) {
  return {{numbers(x)}, [=](const auto& in) { return interpolate(in[0], size, options); }};
}

// An LSTM (4 gates) or a GRU (3) over 64 times.
Problem recurrent(int64_t gates, int64_t batch, int64_t h) {
  const Tensor given = numbers({batch, 64, gates * h}), weight = numbers({gates * h, h}, -0.06, 0.06);
  if (gates == 4) return {{given, weight}, [](const auto& in) { return lstm(in[0], in[1]).hidden; }};
  return {{given, weight, numbers({gates * h})}, [](const auto& in) { return gru(in[0], in[1], in[2]); }};
}

const std::map<std::string, std::function<Problem()>>& problems() {
  using enum Interpolation;
  static const std::map<std::string, std::function<Problem()>> all{
      {"lstm", [] { return recurrent(4, 32, 256); }},
      {"lstm 128", [] { return recurrent(4, 32, 128); }},
      {"lstm 512", [] { return recurrent(4, 8, 512); }},
      {"gru", [] { return recurrent(3, 32, 256); }},
      {"gru 128", [] { return recurrent(3, 32, 128); }},
      {"gru 512", [] { return recurrent(3, 8, 512); }},
      {"ctc_loss",
       [] {
         const Tensor targets = integers({16, 24}, [](int64_t i) { return 1 + scattered(i, 63); });
         const Tensor times = integers({16}, [](int64_t i) { return 128 - i; }),
                      labels = integers({16}, [](int64_t i) { return 24 - i % 5; });
         return Problem{{numbers({128, 16, 64})},
                        [=](const auto& in) { return ctc_loss(log_softmax(in[0]), targets, times, labels); }};
       }},
      {"grid_sample",
       [] {
         return Problem{{numbers({8, 32, 64, 64}), numbers({8, 64, 64, 2})},
                        [](const auto& in) { return grid_sample(in[0], in[1]); }};
       }},
      {"grid_sample nearest",
       [] {
         const Tensor grid = numbers({8, 64, 64, 2});
         return Problem{{numbers({8, 32, 64, 64})},
                        [=](const auto& in) { return grid_sample(in[0], grid, {.mode = nearest}); }};
       }},
      {"affine_grid",
       [] {
         return Problem{{numbers({8, 2, 3})}, [](const auto& in) { return affine_grid(in[0], {224, 224}); }};
       }},
      {"interpolate bilinear",
       [] {
         return resize({4, 3, 512, 512}, {224, 224}, {.mode = linear});
       }},
      {"interpolate bilinear up",
       [] {
         return resize({4, 64, 32, 32}, {64, 64}, {.mode = linear});
       }},
      {"interpolate antialias",
       [] {
         return resize({4, 3, 512, 512}, {224, 224}, {.mode = linear, .antialias = true});
       }},
      {"interpolate bicubic",
       [] {
         return resize({4, 3, 512, 512}, {224, 224}, {.mode = cubic});
       }},
      {"interpolate nearest",
       [] {
         return resize({4, 3, 512, 512}, {224, 224}, {.mode = nearest});
       }},
      {"interpolate nearest up",
       [] {
         return resize({4, 64, 32, 32}, {64, 64}, {.mode = nearest});
       }},
      {"roi_align",
       [] {
         std::vector<float> boxes;
         for (int64_t i = 0; i < 128; ++i) {
           const auto at = [&](int64_t k) { return static_cast<float>(scattered(5 * i + k, 400)); };
           boxes.insert(boxes.end(), {static_cast<float>(i % 2), at(1), at(2), at(1) + 20 + at(3) / 2,
                                      at(2) + 20 + at(4) / 2});
         }
         const Tensor regions = Tensor::from(boxes, {128, 5}, device);
         return Problem{{numbers({2, 64, 50, 50})},
                        [=](const auto& in) { return roi_align(in[0], regions, 7, {.scale = 0.0625}); }};
       }},
      {"csr_matmul",
       [] {  // 10,000 x 10,000 with 10 elements a row
         const Tensor starts = integers({10001}, [](int64_t i) { return 10 * i; });
         const Tensor columns = integers({100000}, [](int64_t i) { return scattered(i, 10000); });
         return Problem{{numbers({100000}), numbers({10000, 64})}, [=](const auto& in) {
                          return csr_matmul({starts, columns, in[0], 10000}, in[1]);
                        }};
       }},
      {"unfold2d",
       [] {
         return Problem{{numbers({8, 32, 64, 64})},
                        [](const auto& in) { return unfold2d(in[0], 3, {.padding = 1}); }};
       }},
      {"fold2d",
       [] {
         return Problem{{numbers({8, 288, 4096})},
                        [](const auto& in) { return fold2d(in[0], 64, 3, {.padding = 1}); }};
       }},
      {"conv1d",
       [] {
         return Problem{{numbers({16, 64, 1024}), numbers({128, 64, 5})},
                        [](const auto& in) { return conv1d(in[0], in[1], {}, {.padding = 2}); }};
       }},
      {"conv3d",
       [] {
         return Problem{{numbers({2, 16, 16, 32, 32}), numbers({32, 16, 3, 3, 3})},
                        [](const auto& in) { return conv3d(in[0], in[1], {}, {.padding = 1}); }};
       }},
      {"rms_norm",
       [] {
         return Problem{{numbers({8, 128, 1024}), numbers({1024})},
                        [](const auto& in) { return rms_norm(in[0], in[1]); }};
       }},
      {"swiglu",
       [] {
         return Problem{{numbers({8, 128, 1024}), numbers({8, 128, 1024})},
                        [](const auto& in) { return swiglu(in[0], in[1]); }};
       }},
      {"rotary_embedding",
       [] {
         return Problem{{numbers({8, 16, 128, 64})}, [](const auto& in) { return rotary_embedding(in[0]); }};
       }},
      {"rotary interleaved",
       [] {
         return Problem{{numbers({8, 16, 128, 64})},
                        [](const auto& in) { return rotary_embedding(in[0], {}, {.interleaved = true}); }};
       }},
      {"attention grouped",
       [] {
         return Problem{{numbers({8, 16, 128, 64}), numbers({8, 4, 128, 64}), numbers({8, 4, 128, 64})},
                        [](const auto& in) {
                          return scaled_dot_product_attention(in[0], in[1], in[2], {}, {.causal = true});
                        }};
       }},
      {"einsum",
       [] {
         return Problem{{numbers({64, 128}), numbers({128, 256}), numbers({256, 32, 16})},
                        [](const auto& in) { return einsum("ab,bc,cde->ade", in); }};
       }},
  };
  return all;
}

/// The results of forward and, if wanted, of backward: the gradients of all inputs.
std::vector<Tensor> results_of(const Problem& problem, const std::vector<Tensor>& inputs, const Tensor& dy,
                               bool backward) {
  std::vector<Tensor> results{problem.compute(inputs)};
  if (!backward) return results;
  sum(results[0] * dy).backward();
  for (const Tensor& input : inputs) results.push_back(input.grad());
  return results;
}

std::vector<Tensor> fresh_inputs(const Problem& problem, bool backward) {
  std::vector<Tensor> inputs;
  for (const Tensor& input : problem.inputs) {
    inputs.push_back(input.detach());
    if (backward) inputs.back().requires_grad();
  }
  return inputs;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

nlohmann::json measure(const std::string& name, double budget) {
  const Problem problem = problems().at(name)();
  nlohmann::json result{{"op", name}};
  eval(problem.inputs);
  Tensor dy = numbers(problem.compute(problem.inputs).shape());
  dy.eval();
  const auto time = [&](const std::string& what, bool backward) {
    std::vector<double> seconds, cpu;
    reset_evaluation_stats();
    const auto begin = Clock::now();
    while (seconds.size() < 5 || seconds_since(begin) < budget) {
      const std::vector<Tensor> inputs = fresh_inputs(problem, backward);
      const auto start = Clock::now();
      const std::clock_t cpu_start = std::clock();
      eval(results_of(problem, inputs, dy, backward));
      queue_of(device).finish();
      seconds.push_back(seconds_since(start));
      cpu.push_back(static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC);
      if (seconds.size() == 1) {
        result[what]["first_seconds"] = seconds[0];
        result[what]["compile_seconds"] = last_plan()->compile_seconds;
        result[what]["steps"] = last_plan()->steps.size();
      }
    }
    seconds.erase(seconds.begin(), seconds.begin() + 2);
    cpu.erase(cpu.begin(), cpu.begin() + 2);
    result[what]["ms"] = median(seconds) * 1e3;
    result[what]["cpu_ms"] = median(cpu) * 1e3;  // all threads together
  };
  time("forward", false);
  time("both", true);
  return result;
}

/// Shows the launches and the traffic on a GPU of this architecture, which need not be here.
void show_plans(const std::string& name, const std::string& architecture, bool steps) {
  const auto target = target_of_architecture(architecture);
  if (!target) throw Error(ErrorCode::usage, architecture + " is no architecture", "--plan");
  set_offline_architecture(*target, architecture);
  device = parse_device("offline");
  const OnlyPlansScope looks;
  for (const bool backward : {false, true}) {
    clear_plan_cache();
    const Problem problem = problems().at(name)();
    const std::vector<Tensor> inputs = fresh_inputs(problem, backward);
    const Tensor dy = numbers(problem.compute(problem.inputs).shape());
    const auto plan = plan_for(results_of(problem, inputs, dy, backward));
    int64_t least = 0;
    for (const auto* values : {&plan->inputs, &plan->outputs})
      for (const int v : *values)
        least += static_cast<int64_t>(plan->values[static_cast<size_t>(v)].type.bytes());
    std::cout << fmt::format("{:24} {:8} {:8} {:4} launches {:9.2f} MiB, least {:8.2f} MiB: {:6.2f}\n", name,
                             architecture, backward ? "both" : "forward", plan->steps.size(),
                             static_cast<double>(plan->bytes()) / (1 << 20),
                             static_cast<double>(least) / (1 << 20),
                             static_cast<double>(plan->bytes()) / static_cast<double>(least));
    if (steps) std::cout << explain(*plan, 160) << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> ops;
  std::string where = "cpu";
  int threads = 2;
  double budget = 0.3;
  bool list = false, steps = false;
  std::string architecture;
  CLI::App app("Times single ops, forward and backward.");
  app.add_option("--ops", ops, "Which (default: all)")->check(CLI::IsMember(problems()));
  app.add_option("--device", where, "cpu, opencl:0, ...");
  app.add_option("--threads", threads, "CPU threads");
  app.add_option("--seconds", budget, "For each measurement");
  app.add_flag("--list", list, "Lists the ops");
  app.add_option("--plan", architecture,
                 "Only plan for this GPU: launches, and bytes moved beside the least");
  app.add_flag("--steps", steps, "With --plan: every step");
  CLI11_PARSE(app, argc, argv);
  try {
    set_cpu_threads(threads);
    device = parse_device(where);
    if (ops.empty() || list)
      for (const auto& [name, problem] : problems()) ops.push_back(name);
    nlohmann::json all = nlohmann::json::array();
    if (!architecture.empty()) {
      for (const std::string& name : ops) show_plans(name, architecture, steps);
      return 0;
    }
    for (const std::string& name : ops) all.push_back(list ? nlohmann::json(name) : measure(name, budget));
    std::cout << all.dump() << '\n';
  } catch (const std::exception& error) {
    std::cerr << "compare_ops: " << error.what() << '\n';
    return 1;
  }
}
