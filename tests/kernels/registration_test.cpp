// Kernels register themselves for ops: there is no list of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "athanor/backends/cpu/kernels.h"
#include "athanor/base/error.h"
#include "athanor/device/runtimes.h"
#include "athanor/kernels/gpu/templates.h"
#include "athanor/ops/op_case.h"

namespace athanor {
namespace {

using ::testing::HasSubstr;

// Elementwise primitives and reductions become fused loops, and views need no kernel.
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
    EXPECT_TRUE(gpu_has_kernel(*op, types, output, filled.spec.attrs, GpuTraits{})) << op->name;
  }
  EXPECT_EQ(found, 8);
}

// These are registered while the program starts, like all others.
std::vector<GpuCandidate> no_templates(const KernelRequest&, const GpuTraits&) { return {}; }
std::vector<Candidate> no_kernels(const KernelRequest&) { return {}; }

template <class Register>
std::string refusal(const Register& register_it) {
  try {
    register_it();
    return "accepted";
  } catch (const Error& error) {
    return error.what();
  }
}

const std::string second_template = refusal([] { gpu::register_template({{"pad"}, no_templates}); });
const std::string second_kernels = refusal([] {
  cpu::register_kernels({cpu::KernelSource::own, {"pad"}, no_kernels, cpu::serves_all});
});
[[maybe_unused]] const bool both_registered = [] {
  for (const auto source : {cpu::KernelSource::own, cpu::KernelSource::library})
    cpu::register_kernels({source, {"test_registered"}, no_kernels, cpu::serves_none});
  return true;
}();
// Registers a type that no other kernels multiply.
[[maybe_unused]] const bool multiplier_registered = cpu::register_kernels(
    {cpu::KernelSource::own, {"test_multiplies"}, no_kernels, cpu::serves_none, nullptr, [](DType dtype) {
       return dtype == DType::f8e5m2 ? cpu::ProductsBy::vectors : cpu::ProductsBy::conversion;
     }});

TEST(Registration, IsOncePerOp) {
  EXPECT_THAT(second_template, HasSubstr("two templates are for the op 'pad'"));
  EXPECT_THAT(second_kernels, HasSubstr("two files of one source are for the op 'pad'"));
  EXPECT_EQ(cpu::kernels_of(find_op("pad")).size(), 1U);
}

TEST(Registration, ALibrarysKernelsComeFirstInWhateverOrder) {
  Op op;
  op.name = "test_registered";
  const auto kernels = cpu::kernels_of(op);
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].source, cpu::KernelSource::library);
}

TEST(Registration, KernelsSayWhatTheyMultiply) {
  using cpu::ProductsBy;
  EXPECT_EQ(cpu::products_by(DType::f8e5m2), ProductsBy::vectors);
  EXPECT_EQ(cpu::products_by(DType::f8e4m3), ProductsBy::conversion);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const TensorType images{dtype, {1, 16, 8, 8}, {}}, weights{dtype, {16, 16, 3, 3}, {}};
    const std::array inputs{images, weights};
    const bool whole = backend_of(Device{}).has_kernel(find_op("conv2d"), inputs, images, {});
    const ProductsBy by = cpu::products_by(dtype);
    EXPECT_EQ(by != ProductsBy::conversion, whole) << to_string(dtype);
    EXPECT_EQ(backend_of(Device{}).slow_in(0, dtype), cpu::cost_of_products(dtype, by));
  }
}

TEST(Registration, SlowProductsAreCalledSlow) {
  using cpu::cost_of_products;
  using cpu::ProductsBy;
  EXPECT_EQ(cost_of_products(DType::bf16, ProductsBy::tiles), "");
  const std::string by_vectors = cost_of_products(DType::bf16, ProductsBy::vectors);
  EXPECT_THAT(by_vectors, HasSubstr("no matrix unit for bf16 (AMX)"));
  EXPECT_THAT(by_vectors, HasSubstr("times as long"));
  const std::string converted = cost_of_products(DType::bf16, ProductsBy::conversion);
  EXPECT_THAT(converted, HasSubstr("no bf16 arithmetic is used"));
  EXPECT_THAT(converted, HasSubstr("AMX"));
  EXPECT_THAT(cost_of_products(DType::f16, ProductsBy::conversion), HasSubstr("no f16 arithmetic is used:"));
}

// Later registration is refused, because other threads may be reading.
TEST(Registration, EndsWhenTheProgramHasStarted) {
  const std::string late = "something was registered after the program has started";
  (void)cpu::kernels_of(find_op("pad"));
  EXPECT_THAT(refusal([] {
                cpu::register_kernels({cpu::KernelSource::own, {"test_late"}, no_kernels, cpu::serves_none});
              }),
              HasSubstr(late));
  (void)gpu_takes_strides(find_op("pad"));
  EXPECT_THAT(refusal([] { gpu::register_template({{"test_late"}, no_templates}); }), HasSubstr(late));
  (void)runtimes();
  EXPECT_THAT(refusal([] { register_runtime({"test_late", "", nullptr}); }), HasSubstr(late));
}

}  // namespace
}  // namespace athanor
