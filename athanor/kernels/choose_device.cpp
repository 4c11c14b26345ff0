#include "athanor/kernels/choose_device.h"

#include <fmt/format.h>

#include <vector>

#include "athanor/base/error.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/kernel.h"
#include "athanor/kernels/tuner.h"

namespace athanor {
namespace {

constexpr int64_t extent = 512;

// GFLOP/s of the fastest kernel for the product.
double speed_of(const DeviceInfo& info) {
  auto& cache = KernelCache::instance();
  const std::string key = environment_key(info.device) + "|speed";
  const auto speed = [](double seconds) { return 2.0 * extent * extent * extent / seconds * 1e-9; };
  if (const auto known = cache.find_winner(key); known && known->seconds > 0) return speed(known->seconds);
  const Shape shape{1, extent, extent};
  const OperandDesc operand{DType::f32, shape, {}, contiguous_strides(shape)};
  const KernelRequest request{.op = &find_op("batch_matmul"),
                              .attrs = {},
                              .inputs = {operand, operand},
                              .output = operand,
                              .epilogue = {}};
  const Measured measured = measure(info.device, request);
  cache.store_winner(key, {.name = measured.winner, .seconds = measured.seconds});
  return speed(measured.seconds);
}

// How much faster a CPU's product must be through OpenCL than by kernels of its own: with products alike, a
// whole training step takes 1.4 times as long there (docs/performance.md).
constexpr double same_processor = 1.5;

bool is_cpu_again(const DeviceInfo& info) { return info.kind == "cpu" && info.device != Device{}; }

}  // namespace

DeviceChoice fastest_of(const std::vector<TimedDevice>& all) {
  const auto rank = [](const TimedDevice& one) {
    return is_cpu_again(one.info) ? one.gflops / same_processor : one.gflops;
  };
  const TimedDevice* best = nullptr;
  for (const TimedDevice& one : all)
    if (one.failure.empty() && (best == nullptr || rank(one) > rank(*best))) best = &one;
  std::vector<std::string> others;
  const auto speed = [](const TimedDevice& one) {
    return fmt::format("{} {:.0f} GFLOP/s", to_string(one.info.device), one.gflops);
  };
  for (const TimedDevice& one : all) {
    if (&one == best) continue;
    if (!one.failure.empty())
      others.push_back(fmt::format("{} cannot be used: {}", to_string(one.info.device), one.failure));
    else if (is_cpu_again(one.info) && best->info.device == Device{})
      others.push_back(speed(one) + ", the same processor");
    else
      others.push_back(speed(one));
  }
  const std::string rest = fmt::format("{}", fmt::join(others, "; "));
  if (best == nullptr) throw Error(ErrorCode::device, "no device here can be used: " + rest);
  return {best->info.device,
          fmt::format("the fastest here, by a product of matrices: {}; {}", speed(*best), rest)};
}

DeviceChoice choose_device(const std::string& name) {
  if (name != "auto") return {parse_device(name), "asked for"};
  const auto devices = list_devices();
  if (devices.size() == 1) return {devices.front().device, "the only device here"};
  std::vector<TimedDevice> all;
  for (const DeviceInfo& info : devices) {
    all.push_back({info, 0, {}});
    try {
      all.back().gflops = speed_of(info);
    } catch (const Error& error) {
      all.back().failure = error.problem();
    }
  }
  return fastest_of(all);
}

}  // namespace athanor
