// A trace shows that a device gets a value while it computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "athanor/compile/options.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/trace.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/gpu_devices.h"

namespace athanor {
namespace {

constexpr int64_t side = 1024;
constexpr int products = 12;

/// A trace's entry for one command; times are in microseconds.
struct Shown {
  std::string lane, name;
  double begin, end;
};

std::vector<Shown> spans_of(const Trace& trace) {
  const auto json = nlohmann::json::parse(trace.json());
  std::map<int, std::string> lanes;
  std::vector<Shown> spans;
  for (const auto& event : json["traceEvents"])
    if (event["ph"] == "M") lanes[event["tid"].get<int>()] = event["args"]["name"].get<std::string>();
  for (const auto& event : json["traceEvents"])
    if (event["ph"] == "X")
      spans.push_back({lanes.at(event["tid"].get<int>()), event["name"].get<std::string>(),
                       event["ts"].get<double>(), event["ts"].get<double>() + event["dur"].get<double>()});
  return spans;
}

/// A long chain of products; the last one uses a value from the host.
void run(Device device, const Tensor& sent, const Tensor& factor) {
  Tensor y = factor;
  for (int i = 1; i < products; ++i) y = tanh(matmul(y, factor));
  matmul(y, sent.to(device)).eval();
}

TEST(TraceOverlap, ACopyRunsWhileTheDeviceComputes) {
  ATHANOR_NEEDS_GPU();
  if (testing::gpu_backend() != "opencl") GTEST_SKIP() << "virtual GPUs run one command at a time";
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer makes queueing slower than computing";
#endif
  const Device device = testing::gpu_devices().front().device;
  const ScopedDisable untuned("tune");
  const auto values = [](Device where) {
    return Tensor::from<float>(std::vector<float>(side * side, 0.01F), {side, side}, where);
  };
  const Tensor factor = values(device), sent = values(Device{});
  run(device, sent, factor);  // the first run compiles
  const Trace trace;
  run(device, sent, factor);
  queue_of(device).finish();
  // The copy is queued after all products but a few.
  const auto& steps = last_plan()->steps;
  const auto copy_step = std::ranges::find(steps, PlanStep::Kind::copy, &PlanStep::kind) - steps.begin();
  ASSERT_GT(copy_step, products / 2) << explain(*last_plan());
  const std::string last = std::to_string(copy_step - 1) + " ";
  std::vector<Shown> copies, kernels;  // kernels: those before the copy
  for (const Shown& one : spans_of(trace)) {
    if (one.lane == to_string(device) + " copies in") copies.push_back(one);
    if (one.lane == to_string(device) + " kernels" &&
        (kernels.empty() || !kernels.back().name.starts_with(last)))
      kernels.push_back(one);
  }
  ASSERT_FALSE(copies.empty()) << trace.json();
  ASSERT_GT(kernels.size(), 1U) << trace.json();
  // On one queue, the copy would run after all of them. It waits for nothing, and may start before the first.
  EXPECT_LT(copies.back().begin, kernels.back().begin) << trace.json();
}

}  // namespace
}  // namespace athanor
