// The marks of commands that a trace shows, on a driver that stands in for a GPU's.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "athanor/backends/gpu/device.h"
#include "athanor/kernels/trace.h"
#include "tests/support/expect_error.h"
#include "tests/support/host_driver.h"

namespace athanor::testing {
namespace {

// A broken device does not tell when its commands ran.
TEST(GpuTraces, GiveEachMarkBackOnce) {
  auto made = std::make_unique<HostDriver>(GpuTarget::cuda, 0, "sm_90");
  HostDriver& driver = *made;
  gpu::GpuDevice device(std::move(made));
  const Trace trace;
  const TestSite site("plan step 1 (exp)");
  for (int i = 0; i < 2; ++i)
    device.kernels().give(
        "kernel", [](gpu::Stream) {}, &site);
  driver.intervals = 2;  // the clock and the first command
  expect_error(ErrorCode::device, {"cannot tell when a command ran"}, [&] { device.kernels().finish(); });
  driver.intervals = 100;
  device.kernels().finish();
  EXPECT_EQ(driver.released, 3);
}

// The first trace reads the device's clock. If that waits for kernels, then so does whoever waits for a copy,
// and the plan's next kernels are given only after those before the copy have run.
TEST(GpuTraces, TheClockIsReadWithoutWaitingForKernels) {
  auto made = std::make_unique<HostDriver>(GpuTarget::cuda, 0, "sm_90");
  HostDriver& driver = *made;
  gpu::GpuDevice device(std::move(made));
  const Trace trace;
  const TestSite site("plan step 1 (exp)");
  device.kernels().give(
      "kernel", [](gpu::Stream) {}, &site);
  const auto kernels = [&] { return std::ranges::count(driver.marked, device.kernels().stream()); };
  const auto before = kernels();
  const size_t marks = driver.marked.size();
  device.copies_out().finish();
  EXPECT_GT(driver.marked.size(), marks);  // the clock was read
  EXPECT_EQ(kernels(), before);
}

}  // namespace
}  // namespace athanor::testing
