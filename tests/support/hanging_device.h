// Tests on a driver that stands in for a GPU's, where a wait is over after 0.3 s.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "athanor/backends/gpu/device.h"
#include "tests/support/expect_error.h"
#include "tests/support/host_driver.h"

namespace athanor::testing {

class HangingDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // a thread watches the limit, and fork copies no threads
    setenv("ATHANOR_WAIT_LIMIT", "0.3", 1);
    auto made = std::make_unique<HostDriver>(GpuTarget::cuda, 0, "sm_90");
    driver = made.get();
    // As in the program, devices are never destroyed.
    static auto& all = *new std::vector<std::unique_ptr<gpu::GpuDevice>>;
    device = all.emplace_back(std::make_unique<gpu::GpuDevice>(std::move(made))).get();
  }
  void TearDown() override { unsetenv("ATHANOR_WAIT_LIMIT"); }

  HostDriver* driver = nullptr;
  gpu::GpuDevice* device = nullptr;
};

}  // namespace athanor::testing
