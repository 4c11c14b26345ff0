// What drivers say of compiled kernels.
#include "athanor/kernels/gpu/gpu_access.h"
#include "tests/support/gpu_devices.h"

namespace athanor {
namespace {

GpuCandidate kernel_with_local_memory() {
  GpuLaunch launch;
  launch.name = "turned";
  launch.source = R"(
KERNEL void turned(BUFFER(const f32, x), BUFFER(f32, y)) {
  BIND(const f32, x);
  BIND(f32, y);
  LOCAL f32 tile[1024];
  tile[LOCAL_ID(0)] = x[GLOBAL_ID(0)];
  BARRIER();
  y[GLOBAL_ID(0)] = tile[GROUP_EXTENT_0 - 1 - LOCAL_ID(0)];
}
)";
  launch.groups = {4, 1, 1};
  launch.group_size = {128, 1, 1};
  launch.local_bytes = 4096;
  launch.arguments = {{0, 0}, {1, 0}};
  return {.name = "turned", .parameters = {}, .scratch_bytes = 0, .launches = {launch}};
}

TEST(GpuResources, DriversTellAKernelsRegistersLocalMemoryAndWaves) {
  ATHANOR_NEEDS_GPU();
  for (const DeviceInfo& info : testing::gpu_devices()) {
    const auto access = gpu_access(info.device);
    ASSERT_TRUE(access);
    if (testing::gpu_backend() == "opencl") {
      EXPECT_FALSE(access->resources) << "OpenCL has no function for it";
      continue;
    }
    ASSERT_TRUE(access->resources);
    const auto resources = access->resources(kernel_with_local_memory());
    ASSERT_EQ(resources.size(), 1U);
    const KernelResources& one = resources.front();
    EXPECT_GT(one.registers, 0);
    EXPECT_LT(one.registers, 64);
    EXPECT_EQ(one.private_bytes, 0);
    EXPECT_EQ(one.local_bytes, 4096);
    const int wave = std::stoi(info.properties.at("wave width").value);
    ASSERT_GT(one.waves, 0);
    EXPECT_EQ(one.waves % (128 / wave), 0) << "whole groups";
    EXPECT_LE(one.waves, one.most_waves);
  }
}

}  // namespace
}  // namespace athanor
