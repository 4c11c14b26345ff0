// Kernel faults that a device reports after it was given later work.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "athanor/backends/gpu/device.h"
#include "athanor/backends/gpu/storage.h"
#include "tests/support/expect_error.h"
#include "tests/support/host_driver.h"

namespace athanor::testing {
namespace {

class GpuLateFault : public ::testing::Test {
 protected:
  GpuLateFault() {
    auto made = std::make_unique<HostDriver>(GpuTarget::cuda, 0, "sm_90");
    driver = made.get();
    // As in the program, devices are never destroyed.
    static auto& all = *new std::vector<std::unique_ptr<gpu::GpuDevice>>;
    device = all.emplace_back(std::make_unique<gpu::GpuDevice>(std::move(made))).get();
  }

  /// A launch that may fault. It does if `index` is out of range.
  void launch(int number, int32_t index = 0) {
    const TestSite site("plan step " + std::to_string(number) + " (take_along)");
    const gpu::Faults::Report report = device->faults.expect({"take_along", 8}, &site);
    const auto run = [&](gpu::Stream) {
      auto* const words = static_cast<int32_t*>(report.place.memory);
      if (index >= 8 && words[0] == 0) words[0] = report.code, words[1] = index;
    };
    device->kernels().give("kernel", run, &site);
    device->faults.given();
  }

  HostDriver* driver = nullptr;
  gpu::GpuDevice* device = nullptr;
};

// A trainer reads a loss while the next steps are running. A language model's step has launches that may
// fault.
TEST_F(GpuLateFault, AWaitForAnEventWaitsForNothingElse) {
  launch(1);
  const std::shared_ptr<Event> event = device->kernels().record();
  launch(2);
  const int before = driver->finishes;
  event->wait();
  EXPECT_EQ(driver->finishes, before);
}

TEST_F(GpuLateFault, AWaitReportsTheFaultsBeforeIt) {
  launch(1);
  const std::shared_ptr<Event> first = device->kernels().record();
  launch(2, 9);
  const std::shared_ptr<Event> second = device->kernels().record();
  launch(3, 10);
  expect_error(ErrorCode::value,
               {"plan step 2 (take_along)", "index 9 is outside an axis of extent 8", "net.cpp:12"},
               [&] { second->wait(); });
  first->wait();
  device->kernels().finish();  // each fault is reported once
  launch(4, 11);
  expect_error(ErrorCode::value, {"plan step 4", "index 11"}, [&] { device->kernels().finish(); });
}

TEST_F(GpuLateFault, ALateFaultIsNotOneOfAnEarlierWait) {
  launch(1);
  const std::shared_ptr<Event> event = device->kernels().record();
  launch(2, 9);
  event->wait();
  expect_error(ErrorCode::value, {"plan step 2"}, [&] { device->kernels().finish(); });
}

// 256 launches are remembered. The step of another launch would mislead.
TEST_F(GpuLateFault, AFaultBeforeTooManyLaunchesNamesNoStep) {
  launch(1, 9);
  for (int number = 2; number < 300; ++number) launch(number);
  expect_error(ErrorCode::value,
               {"index 9 is outside an axis, in a step before the last 256", "ATHANOR_SYNC=1"},
               [&] { device->kernels().finish(); });
  launch(300, 11);
  expect_error(ErrorCode::value, {"plan step 300", "index 11"}, [&] { device->kernels().finish(); });
}

// A batch is uploaded while earlier steps run: their faults are not its own.
TEST_F(GpuLateFault, IsNotReportedByAnUpload) {
  constexpr size_t pieces = size_t{12} << 20;  // through three blocks of pinned memory
  gpu::GpuStorage storage(*device, device->pool.take(pieces), pieces);
  const std::vector<std::byte> batch(pieces, std::byte{7});
  launch(1, 9);
  device->kernels().record();
  storage.write(batch.data(), 0, pieces);
  expect_error(ErrorCode::value, {"plan step 1", "index 9"}, [&] { device->kernels().finish(); });
}

// Memory whose upload failed in the middle is used again.
TEST_F(GpuLateFault, LeavesNoUploadUnderWay) {
  gpu::GpuStorage storage(*device, device->pool.take(4096), 4096);
  const std::vector<std::byte> batch(4096);
  driver->failed = true;
  driver->finishes = 0;
  expect_error(ErrorCode::device, {"earlier work failed"}, [&] { storage.write(batch.data(), 0, 4096); });
  EXPECT_GE(driver->finishes, 1);
}

// A wait for a block of pinned memory failed once, and the block was filled while its copy was on its way.
TEST_F(GpuLateFault, MemoryIsNotUsedAgainBecauseAWaitFailed) {
  const std::shared_ptr<Event> event = device->kernels().record();
  for (const int failing : {0, 1, 2}) {
    driver->failing_waits = failing;
    const int before = driver->awaits + driver->finishes;
    event->settle();
    EXPECT_EQ(driver->failing_waits, 0);
    EXPECT_EQ(driver->awaits + driver->finishes, before + failing + 1) << "the last wait did not fail";
  }
  driver->failing_waits = 100;
  event->settle();  // a lost device: it does not wait without end
  EXPECT_GT(driver->failing_waits, 90);
  driver->failing_waits = 0;
}

// CUDA reports a kernel's error from whichever call comes next.
TEST_F(GpuLateFault, ACallThatReportsEarlierWorkNamesItsSteps) {
  driver->failed = true;
  expect_error(ErrorCode::device,
               {"cannot record an event", "earlier work failed", "while no launch was under way"},
               [&] { device->kernels().record(); });
  launch(5);
  launch(6);
  expect_error(ErrorCode::device, {"in plan step 5 (take_along) or the launch after it", "net.cpp:12"},
               [&] { device->copies_in().record(); });
}

}  // namespace
}  // namespace athanor::testing
