// Ops that a device cannot run. They are refused, with the op and the user's line. If the user allows an op
// by name, it runs on the host, and the plan shows this.
#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/compile/options.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/trace.h"
#include "athanor/ops/define.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

// An op that has a reference, but neither a decomposition nor kernels.
ATHANOR_OPS(riddle) {
  define_op({.name = "riddle",
             .doc = "2 x + the index",
             .infer = [](std::span<const TensorType> inputs, const Attrs&) { return inputs[0]; },
             .reference =
                 [](std::span<const RefArray> inputs, const Attrs&) {
                   RefArray result(inputs[0].shape);
                   for (int64_t i = 0; i < result.shape.size(); ++i)
                     result[i] = 2 * inputs[0][i] + static_cast<double>(i);
                   return result;
                 },
             .differentiable = false});
}

class HostOps : public ::testing::Test {
 protected:
  void TearDown() override { compile_options().host_ops.clear(); }
  static Tensor ramp(Device device) { return Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}, device); }
};

TEST_F(HostOps, AreRefusedWithTheOpAndTheLine) {
  for (const DeviceInfo& info : list_devices()) {
    const Tensor x = ramp(info.device);
    const int line = __LINE__ + 1;
    const Tensor y = call("riddle", {x});
    testing::expect_error(ErrorCode::device,
                          {"riddle", to_string(info.device), "host_op_test.cpp:" + std::to_string(line),
                           "ATHANOR_HOST_OPS=riddle"},
                          [&] { y.eval(); });
  }
}

TEST_F(HostOps, RunWhereTheyAreAllowedAndShowInThePlan) {
  compile_options().host_ops = {"riddle"};
  for (const DeviceInfo& info : list_devices()) {
    const Tensor x = ramp(info.device);
    // The op's input comes from a kernel of the device, through a view; its result goes to another kernel.
    const Tensor y = call("riddle", {transpose(x + x, 0, 1)}) * 10;
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{40, 170, 100, 230, 160, 290}))
        << to_string(info.device);
    const auto plan = last_plan();
    const bool moved = info.device != Device{};
    EXPECT_EQ(plan->kernels_off_device(), moved ? 1 : 0);
    EXPECT_EQ(plan->copies(), moved ? 2 : 0) << explain(*plan);
    const auto step = std::ranges::find(plan->steps, std::vector<std::string>{"riddle"}, &PlanStep::ops);
    ASSERT_NE(step, plan->steps.end()) << explain(*plan);
    EXPECT_EQ(step->device, Device{});
    EXPECT_EQ(step->kernel.name, "reference, float64");
    EXPECT_EQ(step->why, moved ? "there is no other kernel; on the host, as ATHANOR_HOST_OPS allows"
                               : "there is no other kernel");
    EXPECT_EQ(explain(*plan).find("1 on the host for another device") != std::string::npos, moved);
  }
}

TEST_F(HostOps, ShowInATrace) {
  compile_options().host_ops = {"riddle"};
  const Trace trace;
  call("riddle", {ramp(list_devices().back().device)}).eval();
  EXPECT_NE(trace.json().find("riddle"), std::string::npos) << trace.json();
}

// Nothing else reads the value between them, so it need not be on the device.
TEST_F(HostOps, FollowOneAnother) {
  compile_options().host_ops = {"riddle"};
  for (const DeviceInfo& info : list_devices()) {
    const Tensor y = call("riddle", {call("riddle", {ramp(info.device)})});
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{4, 11, 18, 25, 32, 39})) << to_string(info.device);
    EXPECT_EQ(last_plan()->copies(), info.device == Device{} ? 0 : 2) << explain(*last_plan());
  }
}

TEST_F(HostOps, OthersAreStillRefused) {
  compile_options().host_ops = {"puzzle"};
  EXPECT_THROW(call("riddle", {ramp(Device{})}).eval(), Error);
}

}  // namespace
}  // namespace athanor
