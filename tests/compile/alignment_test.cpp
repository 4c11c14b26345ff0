// What a kernel request says about the alignment of its operands.
#include <gtest/gtest.h>

#include "athanor/compile/plan.h"
#include "athanor/kernels/kernel.h"
#include "athanor/ops/ops.h"
#include "athanor/runtime/evaluate.h"

namespace athanor {
namespace {

/// The request for the product of columns `first` to `first` + 8 of a matrix with another matrix.
KernelRequest product_from(int64_t first) {
  const Tensor x = uniform({8, 24}, -1, 1).eval(), w = uniform({8, 8}, -1, 1).eval();
  matmul(slice(x, 1, first, first + 8), w).eval();
  for (const PlanStep& step : last_plan()->steps)
    if (step.request && step.request->op->name == "batch_matmul") return *step.request;
  return {};
}

TEST(Alignment, OfASliceIsThatOfItsFirstElement) {
  for (const auto& [first, alignment] :
       {std::pair<int64_t, int64_t>{0, 16}, {1, 4}, {2, 8}, {3, 4}, {4, 16}}) {
    const KernelRequest request = product_from(first);
    ASSERT_EQ(request.inputs.size(), 2U);
    EXPECT_EQ(request.inputs[0].alignment, alignment) << "from column " << first;
    EXPECT_EQ(request.inputs[1].alignment, 16);
    EXPECT_EQ(request.key().find('@') != std::string::npos, alignment < 16) << request.key();
  }
}

}  // namespace
}  // namespace athanor
