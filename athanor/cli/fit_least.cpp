#include "athanor/cli/fit_least.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "athanor/base/text.h"
#include "athanor/compile/low_limit.h"
#include "athanor/kernels/kernel.h"
#include "athanor/kernels/precision_support.h"

namespace athanor::cli {
namespace {

constexpr int64_t usual_rank = 8;  // of adapters

FitCase smallest(const TrainConfig& config, int64_t least_batch) {
  return {.batch_size = config.accumulate * least_batch,
          .parts = config.accumulate,
          .precision = parse_precision(config.precision)};
}

/// None if the model cannot be trained so.
std::optional<int64_t> least_with(const TrainConfig& config, int64_t least_batch, const ExampleSpec& spec,
                                  Device device) {
  try {
    static_cast<void>(require_precision(device, parse_precision(config.precision)));
    StepPlanner planner(task_without_data(config, spec), config, device);
    return planner.least_bytes(smallest(config, least_batch));
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Options that may lower the need for memory.
struct Remedy {
  std::string how;
  TrainConfig config;
};

std::vector<Remedy> remedies(const TrainConfig& config, Device device) {
  std::vector<Remedy> all;
  const auto add = [&](const std::string& how) -> TrainConfig& {
    all.push_back({how, config});
    return all.back().config;
  };
  if (config.accumulate > 1) add("without --accumulate").accumulate = 1;
  if (config.precision != "bf16" && config.precision != "f16")
    add("with --precision bf16").precision = "bf16";
  if (config.offload.empty() && !backend_of(device).has_unified_memory(device.index))
    add("with --offload optimizer").offload = "optimizer";
  if (config.lora == 0) add(fmt::format("with --lora {}", usual_rank)).lora = usual_rank;
  return all;
}

}  // namespace

Error nothing_fits(StepPlanner& planner, int64_t least_batch, const TrainConfig& config,
                   const ExampleSpec& spec, Device device, int64_t limit) {
  const FitCase of = smallest(config, least_batch);
  const int64_t least = planner.least_bytes(of);
  std::vector<std::string> ways;
  for (const Remedy& one : remedies(config, device))
    if (const auto less = least_with(one.config, least_batch, spec, device); less && *less < least)
      ways.push_back(fmt::format("{} ({})", one.how, format_bytes(static_cast<uint64_t>(*less))));
  return {ErrorCode::usage,
          fmt::format("not even a batch of {} fits into {}: it needs {}, even with all computed again that "
                      "can be",
                      of.batch_size, format_bytes(static_cast<uint64_t>(limit)),
                      format_bytes(static_cast<uint64_t>(least))),
          "--memory-limit",
          fmt::format("{} at least {}. Less is needed {}with a smaller model",
                      config.memory_limit > 0 ? "Give" : "Free", limit_from(least),
                      ways.empty() ? "" : join(ways) + " or ")};
}

}  // namespace athanor::cli
