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

}  // namespace

DeviceChoice choose_device(const std::string& name) {
  if (name != "auto") return {parse_device(name), "asked for"};
  const auto all = list_devices();
  if (all.size() == 1) return {all.front().device, "the only device here"};
  DeviceChoice choice;
  double best = -1;
  std::vector<std::string> others;
  for (const DeviceInfo& info : all) {
    try {
      const double speed = speed_of(info);
      const std::string text = fmt::format("{} {:.0f} GFLOP/s", to_string(info.device), speed);
      if (speed > best) {
        if (best >= 0) others.insert(others.begin(), choice.why);
        best = speed;
        choice = {info.device, text};
      } else {
        others.push_back(text);
      }
    } catch (const Error& error) {
      others.push_back(fmt::format("{} cannot be used: {}", to_string(info.device), error.problem()));
    }
  }
  if (best < 0)
    throw Error(ErrorCode::device,
                "no device here can be used: " + fmt::format("{}", fmt::join(others, "; ")));
  choice.why =
      fmt::format("the fastest here, by a product of matrices: {}; {}", choice.why, fmt::join(others, "; "));
  return choice;
}

}  // namespace athanor
