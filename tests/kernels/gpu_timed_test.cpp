// Timing launches on a device that other threads use at the same time.
#include <thread>

#include "gpu_kernels.h"

namespace athanor::testing {
namespace {

TEST(GpuTimed, CountsTheLaunchesOfItsOwnThread) {
  ATHANOR_NEEDS_GPU();
  std::vector<TestOperand> inputs = {view(DType::f32, {1, 16, 16}, 1), view(DType::f32, {1, 16, 16}, 2)};
  const KernelRequest request =
      request_of(find_op("batch_matmul"), {}, inputs, DType::f32, {1, 16, 16}, {}, {});
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    const Candidate candidate =
        gpu::make_candidate(device, candidates_for(request, device.facts().traits).front(), {});
    std::vector<std::shared_ptr<Storage>> storage;
    std::vector<Binding> buffers;
    for (const size_t bytes : {inputs[0].memory.size(), inputs[1].memory.size(), size_t{16 * 16 * 4},
                               std::max<size_t>(1, candidate.scratch_bytes)}) {
      storage.push_back(allocate(device.id(), bytes));
      buffers.push_back({storage.back().get(), 0});
    }
    for (size_t i = 0; i < 2; ++i) storage[i]->write(inputs[i].address(), 0, inputs[i].memory.size());
    const auto launch = [&] { candidate.kernel->enqueue(device.kernels(), buffers); };
    launch();  // compiles it
    EXPECT_EQ(device.kernels().timed([&] { std::thread(launch).join(); }), 0);
    EXPECT_GT(device.kernels().timed(launch), 0);
  }
}

}  // namespace
}  // namespace athanor::testing
