// athanor tune
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <set>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/base/wrap.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/model_step.h"
#include "athanor/cli/numbers.h"
#include "athanor/cli/terminal.h"
#include "athanor/cli/trained_model.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/precision_support.h"
#include "athanor/kernels/tuner.h"
#include "athanor/runtime/evaluate.h"

namespace athanor::cli {
namespace {

struct TuneOptions {
  ModelStepOptions step;
  bool model = false;
  std::string gemm, conv;
  double budget = 0;
};

// "512x512x512" or "64,3,32,32,64,3": whole numbers from 1 on, `least` to `most` of them.
std::vector<int64_t> numbers_in(const std::string& text, const char* option, size_t least, size_t most,
                                const char* form) {
  const std::string hint = fmt::format("Give it as {}", form);
  std::vector<int64_t> numbers = whole_numbers(text, "x,", option, hint);
  // The padding, which is the last of eight, may be 0.
  constexpr size_t padding = 7;
  for (size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] < (i == padding ? 0 : 1) || numbers[i] > INT32_MAX) numbers.clear();
  if (numbers.size() < least || numbers.size() > most)
    throw Error(ErrorCode::usage, fmt::format("'{}' is not a problem of this kind", text), option, hint);
  return numbers;
}

/// `precision`: of the operands, as an Autocast would give them.
KernelRequest request_for(const char* op, Attrs attrs, const std::vector<Shape>& shapes,
                          Precision precision) {
  KernelRequest request{.op = &find_op(op),
                        .attrs = std::move(attrs),
                        .inputs = {},
                        .outputs = {},
                        .epilogue = {},
                        .compute = precision == Precision::tf32 ? ComputeType::tf32 : ComputeType::by_dtypes};
  const auto operand = [](const TensorType& type) {
    return OperandDesc{type.dtype, type.shape, {}, contiguous_strides(type.shape)};
  };
  std::vector<TensorType> types;
  for (const Shape& shape : shapes) {
    types.push_back({stored_in(precision), shape, {}});
    request.inputs.push_back(operand(types.back()));
  }
  request.outputs = {operand(request.op->infer(types, request.attrs))};
  return request;
}

std::vector<KernelRequest> requests_of(const TuneOptions& options, Device device) {
  Precision precision{};
  if (!options.gemm.empty() || !options.conv.empty()) {
    options.step.config.validate();
    precision = parse_precision(options.step.config.precision);
  }
  if (!options.gemm.empty()) {
    const auto n = numbers_in(options.gemm, "--gemm", 3, 4, "MxNxK, or BxMxNxK for several: 512x512x512");
    const int64_t batch = n.size() == 4 ? n[0] : 1;
    const size_t at = n.size() - 3;
    return {request_for("batch_matmul", {}, {{batch, n[at], n[at + 2]}, {batch, n[at + 2], n[at + 1]}},
                        precision)};
  }
  if (!options.conv.empty()) {
    const auto n =
        numbers_in(options.conv, "--conv", 6, 8, "N,C,H,W,O,K[,STRIDE[,PADDING]]: 64,64,32,32,64,3,1,1");
    const int64_t stride = n.size() > 6 ? n[6] : 1, padding = n.size() > 7 ? n[7] : n[5] / 2;
    Attrs attrs;
    attrs.set("stride", Ints{stride, stride});
    attrs.set("padding", Ints{padding, padding});
    attrs.set("dilation", Ints{1, 1});
    attrs.set("groups", int64_t{1});
    const Shape x{n[0], n[1], n[2], n[3]}, w{n[4], n[1], n[5], n[5]};
    const KernelRequest forward = request_for("conv2d", attrs, {x, w}, precision);
    const Shape& y = forward.output().shape;
    Attrs images = attrs, weights = attrs;
    images.set("input_shape", x.to_ints());
    weights.set("weight_shape", w.to_ints());
    return {forward, request_for("conv2d_input_grad", images, {y, w}, precision),
            request_for("conv2d_weight_grad", weights, {x, y}, precision)};
  }
  // The requests of a step of the model. To find them, its kernels need not be timed.
  ModelStep step(options.step, device);
  std::vector<KernelRequest> requests;
  std::set<std::string> seen;
  const ScopedDisable untuned("tune");
  for (const PlanStep& one : step.plan()->steps)
    if (one.request && seen.insert(one.request->key()).second) requests.push_back(*one.request);
  return requests;
}

int tune(const TuneOptions& options) {
  if (options.model + !options.gemm.empty() + !options.conv.empty() > 1)
    throw Error(ErrorCode::usage, "only one of --model, --gemm and --conv makes sense");
  const Device device = device_option(options.step.config.device);
  const auto start = Clock::now();
  const auto spent = [&] { return seconds_since(start); };
  const auto requests = requests_of(options, device);
  const std::string cost = require_precision(device, parse_precision(options.step.config.precision));
  std::cout << fmt::format("On {} ({}):\n", to_string(device), info_of(device).name);
  if (!cost.empty()) std::cout << wrapped(cost, report_columns(), 0) << '\n';
  std::cout << std::flush;
  size_t done = 0;
  for (const KernelRequest& request : requests) {
    if (options.budget > 0 && spent() >= options.budget) break;
    ++done;
    const Measured measured = measure(device, request);
    const auto flops = static_cast<double>(request.flops());
    std::cout << fmt::format("\n{}\n", request.key());
    auto times = measured.times;
    std::ranges::sort(times, {}, [](const auto& one) { return one.second; });
    for (const auto& [name, seconds] : times)
      std::cout << fmt::format("  {:>10}  {:7.1f} GFLOP/s  {}{}\n", format_duration(seconds),
                               flops / seconds * 1e-9, name, name == measured.winner ? "  <- taken" : "");
    if (measured.untried > 0)
      std::cout << fmt::format("  {} more not tried: the best is near what this device has reached so far\n",
                               measured.untried);
    if (measured.disturbed)
      std::cout << fmt::format("  {}: provisional, to be timed again by a later run\n",
                               measured.busy ? "the machine was busy" : "the samples differ widely");
    for (const LeftOut& one : measured.dropped)
      std::cout << fmt::format("  {:>10}  {:>15}  {}: {}\n", "-", "", one.name, one.why);
    std::cout.flush();
  }
  std::cout << fmt::format(
      "\n{} of {} problems tuned in {}; the winners are remembered ('athanor cache ls').\n", done,
      requests.size(), format_duration(spent()));
  return 0;
}

}  // namespace

void add_tune(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "tune", "Time the kernels of a model, a product or a convolution again, and remember the fastest");
  const auto options = std::make_shared<TuneOptions>();
  add_step_options(*command, options->step);
  command->add_flag("--inference", options->step.inference, "only the forward pass");
  command->add_option("--gemm", options->gemm, "a matrix product instead: MxNxK")->option_text("MxNxK");
  command
      ->add_option("--conv", options->conv,
                   "a convolution instead, with its gradients: N,C,H,W,O,K[,STRIDE[,PADDING]]")
      ->option_text("N,C,...");
  add_seconds(*command, "--budget", options->budget, "start no new problem after so many seconds");
  command->callback([command, options, &exit_code] {
    options->model = command->get_option("--model")->count() > 0;
    exit_code = tune(*options);
  });
}

}  // namespace athanor::cli
