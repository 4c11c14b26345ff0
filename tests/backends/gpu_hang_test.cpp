// If a device does not finish its work, the program ends with a message that says where it was.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "athanor/backends/gpu/device.h"
#include "athanor/backends/gpu/wait_limit.h"
#include "tests/support/expect_error.h"
#include "tests/support/host_driver.h"

namespace athanor::testing {
namespace {

class GpuHang : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // a thread watches the limit, and fork copies no threads
    setenv("ATHANOR_WAIT_LIMIT", "0.3", 1);
    auto made = std::make_unique<HostDriver>(GpuTarget::cuda, 0, "sm_90");
    driver = made.get();
    device = std::make_unique<gpu::GpuDevice>(std::move(made));
  }
  void TearDown() override { unsetenv("ATHANOR_WAIT_LIMIT"); }

  void launch(int times) {
    for (int i = 0; i < times; ++i)
      device->kernels().give(
          "kernel", [](gpu::Stream) {}, &site);
  }

  TestSite site{"plan step 3 (conv2d in layer1)"};
  HostDriver* driver = nullptr;
  std::unique_ptr<gpu::GpuDevice> device;
};

// Any number of seconds may be in place of the measured one.
const char* const message =
    "athanor: error: .* has not ended its work for 0.3 s, in plan step 3 \\(conv2d in layer1\\) or one of "
    "the "
    "2 launches after it \\(at net.cpp:12\\).*--resume.*ATHANOR_WAIT_LIMIT.*ATHANOR_SYNC=1";

using GpuHangDeathTest = GpuHang;

TEST_F(GpuHangDeathTest, NamesTheStepWhenAllIsWaitedFor) {
  launch(3);
  driver->hangs = true;
  EXPECT_EXIT(device->kernels().finish(), ::testing::ExitedWithCode(1), message);
}

TEST_F(GpuHangDeathTest, NamesTheStepBeforeAnEvent) {
  launch(3);
  const std::shared_ptr<Event> event = device->kernels().record();
  launch(5);
  driver->hangs = true;
  EXPECT_EXIT(event->wait(), ::testing::ExitedWithCode(1), message);
}

TEST_F(GpuHangDeathTest, NamesTheStepThatACopyWaitsFor) {
  launch(3);
  driver->hangs = true;
  EXPECT_EXIT(device->uploads().finish(), ::testing::ExitedWithCode(1), message);
}

TEST_F(GpuHang, AWaitThatIsLongIsOnlyOneWait) {
  driver->takes = std::chrono::milliseconds(100);
  for (int wait = 0; wait < 6; ++wait) {
    launch(1);
    device->kernels().finish();
  }
}

TEST_F(GpuHang, TheLimitIsANumberOfSeconds) {
  EXPECT_EQ(gpu::wait_limit(false), 0.3);
  EXPECT_EQ(gpu::wait_limit(true), 0.3);
  for (const char* const wrong : {"soon", "-1", "5 s", "nan"}) {
    setenv("ATHANOR_WAIT_LIMIT", wrong, 1);
    expect_error(ErrorCode::usage, {"ATHANOR_WAIT_LIMIT", wrong}, [] { (void)gpu::wait_limit(false); });
  }
  unsetenv("ATHANOR_WAIT_LIMIT");
  EXPECT_GT(gpu::wait_limit(false), 60);
  EXPECT_EQ(gpu::wait_limit(true), 0) << "a step may take long on a processor";
}

}  // namespace
}  // namespace athanor::testing
