// Programs on a GPU: what no kernel holds any more is unloaded, and loaded again when it is asked for.
#include "athanor/backends/gpu/program.h"

#include <memory>

#include "athanor/backends/gpu/backend.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/gpu/gpu_access.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/gpu_devices.h"

namespace athanor {
namespace {

GpuCandidate doubling() {
  GpuLaunch launch;
  launch.name = "doubled_once_more";
  launch.source = R"(
KERNEL void doubled_once_more(BUFFER(f32, x)) {
  BIND(f32, x);
  x[GLOBAL_ID(0)] = x[GLOBAL_ID(0)] * 2.0f;
}
)";
  launch.groups = {1, 1, 1};
  launch.group_size = {4, 1, 1};
  launch.arguments = {{0, 0}};
  return {.name = "doubled", .parameters = {}, .scratch_bytes = 0, .launches = {launch}};
}

TEST(GpuPrograms, AreUnloadedWhenNothingHoldsThem) {
  ATHANOR_NEEDS_GPU();
  const Device device = testing::gpu_devices().front().device;
  gpu::GpuDevice& gpu = gpu::gpu_device(device);
  const Tensor x = Tensor::from<float>({1, 2, 3, 4}, {4}, device);
  std::vector<Binding> buffers{{x.node()->value.get(), 0}, {}};
  auto kernel = gpu_access(device)->make(doubling()).kernel;
  kernel->enqueue(queue_of(device), buffers);
  const GpuLaunch& launch = kernel->generated()->launches.front();
  std::weak_ptr<const gpu::Program> program = gpu::program_for(gpu, launch);
  unload_unused_programs(gpu);
  EXPECT_EQ(gpu::program_for(gpu, launch), program.lock());
  kernel.reset();
  unload_unused_programs(gpu);
  EXPECT_TRUE(program.expired());
  kernel = gpu_access(device)->make(doubling()).kernel;
  kernel->enqueue(queue_of(device), buffers);
  queue_of(device).finish();  // which x does not wait for
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{4, 8, 12, 16}));
}

TEST(GpuPrograms, OfCandidatesThatLostAreUnloaded) {
  ATHANOR_NEEDS_GPU();
  const Device device = testing::gpu_devices().front().device;
  gpu::GpuDevice& gpu = gpu::gpu_device(device);
  if (gpu.facts().shares_host_memory) GTEST_SKIP() << to_string(device) << " keeps them in the host's memory";
  clear_plan_cache();
  const Tensor x = ones({48, 40}, DType::f32, device), y = ones({40, 56}, DType::f32, device);
  eval({x, y});
  eval({athanor::matmul(x, y)});
  ASSERT_GT(last_plan()->steps.front().measured.size(), 1U) << explain(*last_plan());
  const size_t loaded = gpu.programs.size();
  EXPECT_LE(loaded, 6U) << "of the product, and of the plans that filled its factors";
}

}  // namespace
}  // namespace athanor
