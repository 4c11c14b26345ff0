// If a device does not finish its work, the program ends with a message that says where it was.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "athanor/backends/gpu/storage.h"
#include "athanor/backends/gpu/wait_limit.h"
#include "athanor/kernels/trace.h"
#include "tests/support/hanging_device.h"

namespace athanor::testing {
namespace {

class GpuHang : public HangingDeviceTest {
 protected:
  void launch(int times) {
    for (int i = 0; i < times; ++i)
      device->kernels().give(
          "kernel", [](gpu::Stream) {}, &site);
  }

  TestSite site{"plan step 3 (conv2d in layer1)"};
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
  EXPECT_EXIT(device->copies_in().finish(), ::testing::ExitedWithCode(1), message);
}

// Freeing memory may wait for all kernels.
TEST_F(GpuHangDeathTest, NamesTheStepWhenMemoryIsFreed) {
  driver->room = 6 << 20;
  device->pool.give_back(device->pool.take(4 << 20));
  launch(3);
  driver->hangs = true;
  EXPECT_EXIT(device->pool.take(5 << 20), ::testing::ExitedWithCode(1), message);
}

// A driver holds so many commands, then it waits for the device.
TEST_F(GpuHangDeathTest, NamesTheStepWhenADriverTakesNoMoreCommands) {
  gpu::GpuStorage storage(*device, device->pool.take(64), 64);
  std::array<std::byte, 64> host{};
  gpu::GpuQueue& queue = device->kernels();
  driver->can_capture = true;
  std::string why;
  const auto replay = queue.capture([&] { launch(1); }, why);
  launch(3);
  driver->hangs = driver->is_full = true;
  const auto ends = ::testing::ExitedWithCode(1);
  EXPECT_EXIT(launch(1), ends, message);
  EXPECT_EXIT(queue.fill({&storage, 0}, 1, 64), ends, message);
  EXPECT_EXIT(queue.copy({&storage, 0}, {&storage, 32}, 32), ends, message);
  EXPECT_EXIT(device->copies_in().upload({storage.memory(), 0}, host.data(), 64), ends, message);
  EXPECT_EXIT(device->copies_out().download(host.data(), {storage.memory(), 0}, 64), ends, message);
  EXPECT_EXIT(replay->run(), ends, "in plan step 3 .conv2d in layer1. or one of the 3 launches after it");
  driver->hangs = driver->is_full = false;
}

// CUDA loads a kernel's code when it is first launched, for example.
TEST_F(GpuHangDeathTest, NamesTheStepWhoseLaunchDoesNotReturn) {
  launch(3);
  device->kernels().finish();
  driver->hangs = driver->is_full = true;
  EXPECT_EXIT(launch(1), ::testing::ExitedWithCode(1),
              "has not ended its work for 0.3 s, in plan step 3 .conv2d in layer1. .at net.cpp:12.");
  driver->hangs = driver->is_full = false;
}

// A trace compares clocks behind the launches that were given meanwhile.
TEST_F(GpuHangDeathTest, NamesTheStepWhenATraceWaits) {
  const Trace trace;
  const std::shared_ptr<Event> event = device->kernels().record();
  launch(3);
  driver->hangs = true;
  driver->waits_before = 1;
  EXPECT_EXIT(event->wait(), ::testing::ExitedWithCode(1), message);
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
