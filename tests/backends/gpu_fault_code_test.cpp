// The number under which a launch reports a fault is an argument of the kernel. Neither the source, nor the
// key of the compiled kernel, nor the tuner's records depend on which kernels were made before.
#include "athanor/kernels/cache.h"
#include "athanor/kernels/contest.h"
#include "athanor/ops/op_case.h"
#include "tests/kernels/gpu_kernels.h"

namespace athanor::testing {
namespace {

struct Made {
  std::vector<std::string> sources, keys;
  std::string fingerprint;
  bool operator==(const Made&) const = default;
};

/// Makes an op's kernels, and runs the first of them.
Made make(gpu::GpuDevice& device, const char* name) {
  const Op& op = find_op(name);
  const FilledCase filled = fill_case(op, 0, DType::f32);
  std::vector<TestOperand> inputs;
  std::vector<TensorType> types;
  for (const HostArray& input : filled.inputs) {
    inputs.push_back(view(input.dtype, input.shape, 1));
    std::memcpy(inputs.back().address(), input.bytes.data(), input.bytes.size());
    types.push_back({input.dtype, input.shape, {}});
  }
  const KernelRequest request =
      request_of(op, filled.spec.attrs, inputs, DType::f32, op.infer(types, filled.spec.attrs).shape);
  Made made;
  std::vector<Candidate> candidates;
  for (GpuCandidate& candidate : gpu_candidates(request, device.facts().traits)) {
    if (candidates.empty()) run_on(device, candidate, inputs, request.output());
    bool can_fault = false;
    for (const GpuLaunch& launch : candidate.launches) {
      can_fault |= launch.can_fault;
      made.sources.push_back(render(launch, device.facts().target));
      made.keys.push_back(KernelCache::binary_key(device.facts().fingerprint, made.sources.back()));
    }
    EXPECT_TRUE(can_fault) << candidate.name;
    candidates.push_back(gpu::make_candidate(device, std::move(candidate), {name, 4}));
  }
  made.fingerprint = fingerprint(candidates);
  return made;
}

TEST(GpuFaultCodes, DoNotChangeKernels) {
  ATHANOR_NEEDS_GPU();
  gpu::GpuDevice& device = gpu::gpu_device(gpu_devices().front().device);
  const Made taken = make(device, "take_along"), added = make(device, "scatter_add");
  ASSERT_FALSE(taken.sources.empty());
  EXPECT_NE(taken.fingerprint, added.fingerprint);
  // The kernels are made in the other order, and after other launches that may fault.
  EXPECT_EQ(make(device, "scatter_add"), added);
  EXPECT_EQ(make(device, "take_along"), taken);
}

}  // namespace
}  // namespace athanor::testing
