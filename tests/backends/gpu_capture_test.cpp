// What a queue captures and replays, on a driver that stands in for a GPU's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "athanor/backends/gpu/storage.h"
#include "tests/support/hanging_device.h"

namespace athanor::testing {
namespace {

class GpuCapture : public HangingDeviceTest {
 protected:
  void SetUp() override {
    HangingDeviceTest::SetUp();
    driver->can_capture = true;
  }

  void launch() {
    device->kernels().give(
        "kernel", [](gpu::Stream) {}, &site);
  }
  std::unique_ptr<Replay> capture(const std::function<void()>& commands) {
    return device->kernels().capture(commands, why);
  }

  TestSite site{"plan step 3 (conv2d in layer1)"};
  std::string why;
};

// A driver may not keep what it runs.
TEST_F(GpuCapture, IsGivenBackOnceItHasRun) {
  driver->late = true;
  std::unique_ptr<Replay> replay = capture([&] { launch(); });
  ASSERT_NE(replay, nullptr);
  replay->run();
  replay.reset();
  EXPECT_EQ(driver->captured, 1) << "it may be running";
  driver->late = false;
  device->kernels().finish();
  EXPECT_EQ(driver->captured, 0);
}

TEST_F(GpuCapture, IsGivenBackAtOnceIfItNeverRan) {
  driver->late = true;
  EXPECT_NE(capture([&] { launch(); }), nullptr);
  EXPECT_EQ(driver->captured, 0);
}

TEST_F(GpuCapture, IsGivenBackToALostDevice) {
  std::unique_ptr<Replay> replay = capture([&] { launch(); });
  replay->run();
  driver->failed = true;
  replay.reset();
  EXPECT_EQ(driver->captured, 0);
}

// 256 launches are remembered, and those that were captured as long as they may run.
TEST_F(GpuCapture, NamesTheStepOfAFaultOfItsLastRun) {
  const gpu::Faults::Report report = device->faults.expect({"take_along", 8}, &site);
  driver->kernel = [](const gpu::Launch& launch) {
    auto* const words = static_cast<int32_t*>(launch.fault.memory);
    words[0] = launch.fault_code, words[1] = 9;
  };
  const std::string name = "take";
  const gpu::Launch order{.name = name, .fault = report.place, .fault_code = report.code};
  std::unique_ptr<Replay> replay = capture([&] { device->kernels().launch(order, &site); });
  driver->late = true;
  replay->run();
  replay.reset();
  for (int i = 0; i < 300; ++i) device->faults.expect({"take_along", 8}, nullptr);
  driver->late = false;
  expect_error(ErrorCode::value, {"plan step 3", "index 9 is outside an axis of extent 8", "net.cpp:12"},
               [&] { device->kernels().finish(); });
}

TEST_F(GpuCapture, IsRefusedWithTheDriversReason) {
  driver->refuses = "error 900";
  EXPECT_EQ(capture([&] { launch(); }), nullptr);
  EXPECT_EQ(why, "error 900");
}

TEST_F(GpuCapture, IsRefusedIfACommandFails) {
  for (const ErrorCode code : {ErrorCode::device, ErrorCode::out_of_memory, ErrorCode::value}) {
    EXPECT_EQ(capture([&] { throw Error(code, "there is no room for it"); }), nullptr);
    EXPECT_EQ(why, "there is no room for it");
    EXPECT_EQ(driver->captured, 0);
  }
  EXPECT_NE(capture([&] { launch(); }), nullptr) << "nothing is broken";
}

// Given to the stream at once, they would run before the replays and not in them.
TEST_F(GpuCapture, HoldsKernelsOnly) {
  gpu::GpuStorage storage(*device, device->pool.take(4), 4);
  std::array<uint8_t, 4> bytes = {1, 2, 3, 4};
  storage.write(bytes.data(), 0, 4);
  gpu::GpuQueue& queue = device->kernels();
  EXPECT_EQ(capture([&] { queue.fill({&storage, 0}, 9, 4); }), nullptr);
  EXPECT_THAT(why, ::testing::HasSubstr("a fill cannot be captured"));
  EXPECT_EQ(capture([&] { queue.copy({&storage, 0}, {&storage, 2}, 2); }), nullptr);
  EXPECT_THAT(why, ::testing::HasSubstr("a copy cannot be captured"));
  storage.read(bytes.data(), 0, 4);
  EXPECT_THAT(bytes, ::testing::ElementsAre(1, 2, 3, 4));
}

using GpuCaptureDeathTest = GpuCapture;

TEST_F(GpuCaptureDeathTest, NamesTheStepThatHangsBeforeTheNextReplay) {
  driver->can_overlap = false;
  const std::unique_ptr<Replay> replay = capture([&] { launch(), launch(), launch(); });
  replay->run();
  replay->run();
  EXPECT_EQ(driver->replays, 2);
  driver->hangs = true;
  EXPECT_EXIT(replay->run(), ::testing::ExitedWithCode(1),
              "has not ended its work for 0.3 s, in plan step 3 .conv2d in layer1. or one of the .* launches "
              "after it .at net.cpp:12.");
}

}  // namespace
}  // namespace athanor::testing
