// Points in a GPU's queues.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "athanor/kernels/queue.h"
#include "tests/support/gpu_devices.h"

namespace athanor::testing {
namespace {

// A driver may leave commands alone until it is told to go (Rusticl does).
TEST(GpuEvents, ComeWithoutBeingWaitedFor) {
  ATHANOR_NEEDS_GPU();
  const Device device = gpu_devices().front().device;
  const auto storage = allocate(device, 4096);
  Queue& queue = queue_of(device);
  queue.fill({storage.get(), 0}, 1, 4096);
  const std::shared_ptr<Event> event = queue.record();
  using Clock = std::chrono::steady_clock;
  const auto patience = Clock::now() + std::chrono::seconds(10);
  while (!event->passed() && Clock::now() < patience)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(event->passed());
}

}  // namespace
}  // namespace athanor::testing
