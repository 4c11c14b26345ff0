// Kernels register themselves for ops: nothing lists them.
#include <gtest/gtest.h>

#include "athanor/backends/cpu/kernels.h"
#include "athanor/kernels/gpu/templates.h"
#include "athanor/ops/op_case.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::expect_error;

// Fusion makes loops of elementwise primitives and reductions; views need no kernel.
bool needs_kernel(const Op& op) {
  switch (op.prim) {
    case Prim::pad:
    case Prim::concat:
    case Prim::fold:
    case Prim::batch_matmul:
    case Prim::take_along:
    case Prim::scatter_add:
    case Prim::cumsum:
    case Prim::argsort:
      return true;
    default:
      return false;
  }
}

TEST(Registration, EveryPrimitiveThatIsNoLoopHasKernels) {
  int found = 0;
  for (const Op* op : all_ops()) {
    if (!needs_kernel(*op)) continue;
    ++found;
    EXPECT_EQ(to_string(op->prim), op->name) << "plans would print another name";
    const FilledCase filled = fill_case(*op, 0, DType::f32);
    std::vector<TensorType> types;
    for (const HostArray& input : filled.inputs) types.push_back({input.dtype, input.shape, {}});
    const TensorType output = op->infer(types, filled.spec.attrs);
    EXPECT_TRUE(backend_of(Device{}).has_kernel(*op, types, output, filled.spec.attrs)) << op->name;
    EXPECT_TRUE(gpu_has_kernel(*op, types, output, filled.spec.attrs)) << op->name;
  }
  EXPECT_EQ(found, 8);
}

TEST(Registration, IsOncePerOp) {
  const auto none = [](const KernelRequest&, const GpuTraits&) { return std::vector<GpuCandidate>(); };
  expect_error(ErrorCode::internal, {"two templates", "'pad'"}, [&] {
    gpu::register_template({{"pad"}, none});
  });
  const auto nothing = [](const KernelRequest&) { return std::vector<Candidate>(); };
  expect_error(ErrorCode::internal, {"one source", "'pad'"}, [&] {
    cpu::register_kernels({cpu::KernelSource::own, {"pad"}, nothing, cpu::serves_all});
  });
  EXPECT_EQ(cpu::kernels_of(find_op("pad")).size(), 1U);
}

TEST(Registration, ALibrarysKernelsComeFirstInWhateverOrder) {
  const auto nothing = [](const KernelRequest&) { return std::vector<Candidate>(); };
  for (const auto source : {cpu::KernelSource::own, cpu::KernelSource::library})
    cpu::register_kernels({source, {"test_registered"}, nothing, cpu::serves_none});
  Op op;
  op.name = "test_registered";
  const auto kernels = cpu::kernels_of(op);
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].source, cpu::KernelSource::library);
}

}  // namespace
}  // namespace athanor
