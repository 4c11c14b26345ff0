// What drivers report about compiled kernels.
#include <fmt/format.h>

#include <array>

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

// Items write the first and the last words of all the local memory that a group can have, and read the words
// of their neighbours.
GpuCandidate kernel_with_all_local_memory(int64_t bytes) {
  GpuLaunch launch;
  launch.name = "far_apart";
  launch.source = fmt::format(R"(
KERNEL void far_apart(BUFFER(f32, y)) {{
  BIND(f32, y);
  LOCAL_AT_LAUNCH(f32, numbers, {0});
  const int item = LOCAL_ID(0);
  numbers[item] = item;
  numbers[{0} - GROUP_EXTENT_0 + item] = 1000 + item;
  BARRIER();
  const int other = GROUP_EXTENT_0 - 1 - item;
  y[GLOBAL_ID(0)] = numbers[other] + numbers[{0} - GROUP_EXTENT_0 + other];
}}
)",
                              bytes / 4);
  launch.groups = {3, 1, 1};
  launch.group_size = {64, 1, 1};
  launch.local_bytes = bytes;
  launch.local_at_launch = true;
  launch.arguments = {{0, 0}};
  return {.name = "far_apart", .parameters = {}, .scratch_bytes = 0, .launches = {launch}};
}

TEST(GpuResources, LaunchesGetTheLocalMemoryThatTheyAskFor) {
  ATHANOR_NEEDS_GPU();
  for (const DeviceInfo& info : testing::gpu_devices()) {
    const GpuAccess access = gpu_access(info.device).value();
    const int64_t most = access.traits.most_local_bytes();
    if (testing::gpu_backend() == "cuda") {
      EXPECT_GT(most, access.traits.local_bytes) << "48 KiB can be declared";
    }
    const GpuCandidate candidate = kernel_with_all_local_memory(most);
    if (access.resources) {
      EXPECT_EQ(access.resources(candidate).at(0).local_bytes, most);
    }
    const Candidate made = access.make(candidate);
    const std::shared_ptr<Storage> storage = allocate(info.device, 3 * 64 * sizeof(float));
    const Binding buffers[] = {{storage.get(), 0}};
    made.kernel->enqueue(queue_of(info.device), buffers);
    queue_of(info.device).finish();
    std::array<float, 3 * 64> got{};
    storage->read(got.data(), 0, sizeof(got));
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], 1000 + 2 * (63 - static_cast<float>(i % 64)))
          << "item " << i << ", " << most << " bytes";
  }
}

}  // namespace
}  // namespace athanor
