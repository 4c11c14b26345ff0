// Programs on a GPU: a program that no kernel holds is unloaded, and loaded again when it is needed.
#include "athanor/backends/gpu/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "athanor/backends/gpu/backend.h"
#include "athanor/base/error.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/compile_apart.h"
#include "athanor/kernels/gpu/gpu_access.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"
#include "tests/support/gpu_devices.h"
#include "tests/support/temp_folder.h"

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
  queue_of(device).finish();  // reading x does not wait for this kernel
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{4, 8, 12, 16}));
}

// Kernels that are in no cache of an earlier run.
std::vector<GpuCandidate> fresh_kernels(size_t count) {
  std::vector<GpuCandidate> all;
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  for (size_t i = 0; i < count; ++i) {
    GpuCandidate candidate = doubling();
    candidate.launches.front().source += fmt::format("// {} {}\n", now, i);
    all.push_back(std::move(candidate));
  }
  return all;
}

std::vector<float> doubled_by(Device device, const GpuCandidate& candidate) {
  const Tensor x = Tensor::from<float>({1, 2, 3, 4}, {4}, device);
  const std::vector<Binding> buffers{{x.node()->value.get(), 0}, {}};
  gpu_access(device)->make(candidate).kernel->enqueue(queue_of(device), buffers);
  queue_of(device).finish();
  return x.to_vector<float>();
}

TEST(GpuPrograms, OfSeveralKernelsAreCompiledAndKeptOnce) {
  ATHANOR_NEEDS_GPU();
  const Device device = testing::gpu_devices().front().device;
  gpu::GpuDevice& gpu = gpu::gpu_device(device);
  const auto kernels = fresh_kernels(3);
  const std::vector<const GpuLaunch*> two{&kernels[0].launches.front(), &kernels[1].launches.front()};
  const std::vector<float> doubled{2, 4, 6, 8};
  const int64_t before = compilations();
  compile_together(gpu, two);
  EXPECT_EQ(compilations(), before + 1);
  compile_together(gpu, two);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(doubled_by(device, kernels[i]), doubled);
  EXPECT_EQ(compilations(), before + 1);
  EXPECT_EQ(doubled_by(device, kernels[2]), doubled);
  EXPECT_EQ(compilations(), before + 2);
  if (!KernelCache::instance().why_unused().empty()) GTEST_SKIP() << "there is no cache";
  unload_unused_programs(gpu);
  for (const GpuCandidate& kernel : kernels) EXPECT_EQ(doubled_by(device, kernel), doubled);
  compile_together(gpu, two);
  EXPECT_EQ(compilations(), before + 2) << "the cache has all three";
}

TEST(GpuPrograms, AreDividedAmongTheCores) {
  ATHANOR_NEEDS_GPU();
  const Device device = testing::gpu_devices().front().device;
  const auto kernels = fresh_kernels(7);
  std::vector<const GpuLaunch*> launches;
  for (const GpuCandidate& kernel : kernels) launches.push_back(&kernel.launches.front());
  const int64_t before = compilations();
  compile_together(gpu::gpu_device(device), launches);
  EXPECT_EQ(compilations() - before, std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, 3))
      << "at least two kernels in each";
  const int64_t compiled = compilations();
  for (const GpuCandidate& kernel : kernels)
    EXPECT_EQ(doubled_by(device, kernel), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(compilations(), compiled) << "nothing is left to compile";
}

// A program that compiles and notes that it was asked to.
class OtherCompiler {
 public:
  OtherCompiler() {
    set_compiler_program(
        {"/bin/sh", "-c",
         "echo \"$@\" >> '" + notes_ + "'; exec " ATHANOR_BINARY_DIR "/athanor compile-kernels \"$@\"",
         "sh"});
  }
  ~OtherCompiler() { set_compiler_program({}); }
  OtherCompiler(const OtherCompiler&) = delete;
  OtherCompiler& operator=(const OtherCompiler&) = delete;
  std::string notes() const {
    std::ifstream file(notes_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  testing::TempFolder folder_;
  std::string notes_ = (folder_ / "notes").string();
};

TEST(GpuPrograms, AreCompiledInOtherProcessesWhereADriverCompilesOneAtATime) {
  ATHANOR_NEEDS_GPU();
  const Device device = testing::gpu_devices().front().device;
  gpu::GpuDevice& gpu = gpu::gpu_device(device);
  if (!gpu.facts().shares_host_memory) GTEST_SKIP() << "such a process would take a GPU's memory";
  const OtherCompiler other;
  const auto kernels = fresh_kernels(3);
  {
    const std::stop_source stop;
    const CompileApartScope apart(stop.get_token());  // a thread that may be told to stop
    gpu::program_for(gpu, kernels[0].launches.front());
    compile_together(gpu, {&kernels[1].launches.front(), &kernels[2].launches.front()});
  }
  EXPECT_EQ(other.notes(), gpu::driver_compiler("opencl") + " " + gpu::driver_target(gpu) + "\n")
      << "one process";
  for (const GpuCandidate& kernel : kernels)
    EXPECT_EQ(doubled_by(device, kernel), (std::vector<float>{2, 4, 6, 8}));
}

TEST(GpuPrograms, ForAnotherProcessAreOfTheSameDevice) {
  ATHANOR_NEEDS_GPU();
  gpu::GpuDevice& gpu = gpu::gpu_device(testing::gpu_devices().front().device);
  const std::string source = "\n" + render(doubling().launches.front(), gpu.facts().target);
  const auto compiled = [&](const std::string& target, const std::string& text) {
    return gpu::compile_for_another_process(gpu, target, text, "doubled_once_more");
  };
  const std::string binary = compiled(gpu::driver_target(gpu), source);
  ASSERT_NE(binary, "");
  const gpu::Module module = gpu.driver().load(binary);
  ASSERT_NE(module, nullptr);
  gpu.driver().unload(module, {});
  EXPECT_EQ(compiled(gpu::driver_target(gpu) + "0", source), "") << "another driver";
  EXPECT_EQ(compiled(gpu::driver_target(gpu), "\nno program"), "");
  EXPECT_EQ(compiled(gpu::driver_target(gpu), ""), "");
}

TEST(GpuPrograms, OfSeveralKernelsAreLeftWhereOneIsRefused) {
  ATHANOR_NEEDS_GPU();
  const Device device = testing::gpu_devices().front().device;
  gpu::GpuDevice& gpu = gpu::gpu_device(device);
  auto kernels = fresh_kernels(2);
  kernels[1].launches.front().source += "this is no kernel\n";
  compile_together(gpu, {&kernels[0].launches.front(), &kernels[1].launches.front()});
  EXPECT_EQ(doubled_by(device, kernels[0]), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_THROW(doubled_by(device, kernels[1]), Error);
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
