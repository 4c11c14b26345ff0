// If a kernel finds an error while it runs, the next wait for it reports the error, with the step and the
// user's line.
#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/ops/ops.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

TEST(DeviceFaults, NameTheStepTheIndexAndTheLine) {
  for (const DeviceInfo& info : list_devices()) {
    const Tensor table = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {3, 2}, info.device);
    const Tensor rows = Tensor::from<int64_t>({0, 2, 7}, {3}, info.device);
    {
      const int line = __LINE__ + 1;
      const Tensor y = embedding(table, rows);
      testing::expect_error(
          ErrorCode::value,
          {"plan step", "index 7 is outside", "extent 3", "device_fault_test.cpp:" + std::to_string(line)},
          [&] { y.to_vector<float>(); });
    }
    // The device still works.
    EXPECT_EQ((table * 2).to_vector<float>(), (std::vector<float>{2, 4, 6, 8, 10, 12}))
        << to_string(info.device);
  }
}

// The second and later runs may be replayed as one command.
TEST(DeviceFaults, OfReplayedStepsAreReported) {
  for (const DeviceInfo& info : list_devices()) {
    const Tensor table = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {3, 2}, info.device);
    for (int run = 0; run < 6; ++run) {
      const bool faulty = run == 4;
      const Tensor rows = Tensor::from<int64_t>({0, 2, faulty ? 7 : 1}, {3}, info.device);
      const Tensor y = cumsum(embedding(table, rows), 0) * 2;
      if (faulty)
        testing::expect_error(ErrorCode::value, {"plan step", "index 7 is outside"},
                              [&] { y.to_vector<float>(); });
      else
        EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{2, 4, 12, 16, 18, 24})) << to_string(info.device);
    }
  }
}

}  // namespace
}  // namespace athanor
