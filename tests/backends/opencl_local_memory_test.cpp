// The local memory that a launch declares is what the compiled kernel takes.
#include "athanor/backends/gpu/backend.h"
#include "athanor/backends/opencl/driver.h"
#include "athanor/base/os/library.h"
#include "athanor/kernels/kernel.h"
#include "athanor/ops/ops.h"
#include "tests/backends/loop_programs.h"
#include "tests/support/gpu_devices.h"

namespace athanor::testing {
namespace {

OperandDesc row_major(const Shape& shape) { return {DType::f32, shape, {}, contiguous_strides(shape)}; }

std::vector<GpuCandidate> candidates_with_local_memory(const GpuTraits& traits) {
  std::vector<GpuCandidate> all;
  const auto add = [&](std::vector<GpuCandidate> some) { std::ranges::move(some, std::back_inserter(all)); };
  const auto request = [](const char* op, const Attrs& attrs, const std::vector<Shape>& inputs,
                          const Shape& output) {
    KernelRequest r{&find_op(op), attrs, {}, {row_major(output)}, {}};
    for (const Shape& shape : inputs) r.inputs.push_back(row_major(shape));
    return r;
  };
  add(gpu_candidates(request("batch_matmul", {}, {{1, 200, 70}, {1, 70, 300}}, {1, 200, 300}), traits));
  add(gpu_candidates(request("batch_matmul", {}, {{1, 1, 2000}, {1, 2000, 5}}, {1, 1, 5}), traits));
  const Attrs attrs = {{"scale", 0.25}, {"causal", true}};
  const Shape q{2, 33, 16}, v{2, 33, 24}, of_rows{2, 33};
  add(gpu_candidates(request("scaled_dot_product_attention", attrs, {q, q, v}, v), traits));
  add(gpu_candidates(request("attention_lse", attrs, {q, q}, of_rows), traits));
  for (const char* op : {"attention_grad_q", "attention_grad_k"})
    add(gpu_candidates(request(op, attrs, {q, q, v, v, of_rows, of_rows}, q), traits));
  Builder sum({5, 1000}, {false, true});
  sum.p.reductions.push_back({Prim::sum, sum.load(0, DType::f32, {1000, 1}), DType::f32});
  sum.p.reductions.push_back({Prim::argmax, 0, DType::i64});
  sum.in_epilogue = true;
  sum.p.epilogue_stores.push_back({1, sum.operand(1, DType::f32, {1, 0})});
  sum.p.epilogue_stores.push_back({2, sum.operand(2, DType::i64, {1, 0})});
  add(gpu_loop_candidates(sum.p, traits));
  return all;
}

TEST(OpenClLocalMemory, IsWhatLaunchesSay) {
  ATHANOR_NEEDS_GPU();
  if (gpu_backend() != "opencl") GTEST_SKIP() << "this asks OpenCL";
  const opencl::Api& api = opencl::api();
  const os::Library library({"libOpenCL.so.1"});
  const auto ask =
      reinterpret_cast<decltype(&clGetKernelWorkGroupInfo)>(library.find("clGetKernelWorkGroupInfo"));
  ASSERT_NE(ask, nullptr);
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    auto& driver = dynamic_cast<opencl::OpenClDriver&>(device.driver());
    GpuTraits traits = device.facts().traits;
    traits.grain = &fine_grain;
    traits.max_group_size = std::min<int64_t>(traits.max_group_size, 256);
    int with_local_memory = 0;
    for (const GpuCandidate& candidate : candidates_with_local_memory(traits))
      for (const GpuLaunch& launch : candidate.launches) {
        EXPECT_LE(launch.local_bytes, traits.local_bytes) << candidate.name;
        if (launch.local_bytes > 0 ? with_local_memory++ % 3 != 0 : launch.name != "reduce")
          continue;  // compiling is slow
        const std::string source = render(launch, GpuTarget::opencl);
        const char* text = source.c_str();
        cl_int code = CL_SUCCESS;
        cl_program program = api.CreateProgramWithSource(driver.context(), 1, &text, nullptr, &code);
        cl_device_id id = driver.id();
        ASSERT_EQ(api.BuildProgram(program, 1, &id, "-cl-std=CL1.2 -w", nullptr, nullptr), CL_SUCCESS)
            << candidate.name;
        cl_kernel kernel = api.CreateKernel(program, launch.name.c_str(), &code);
        cl_ulong bytes = 0;
        ASSERT_EQ(ask(kernel, id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof bytes, &bytes, nullptr), CL_SUCCESS);
        EXPECT_EQ(static_cast<int64_t>(bytes), launch.local_bytes) << candidate.name << ": " << launch.name;
        api.ReleaseKernel(kernel);
        api.ReleaseProgram(program);
      }
    EXPECT_GT(with_local_memory, 5);
  }
}

}  // namespace
}  // namespace athanor::testing
