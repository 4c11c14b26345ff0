// Devices with little local memory, or with small groups: every kernel that is offered fits, and every op for
// which a backend claims to have kernels gets some.
#include <bit>

#include "athanor/kernels/gpu/gpu_access.h"
#include "athanor/ops/op_case.h"
#include "tests/backends/cpu_kernels.h"
#include "tests/backends/loop_programs.h"

namespace athanor::testing {
namespace {

struct Small {
  std::string name;
  GpuTraits traits;
};

/// Some OpenCL drivers of processors report 4 KiB; 1 KiB is the least that the standard permits.
std::vector<Small> small_devices() {
  std::vector<Small> all;
  for (const Grain* grain : {&fine_grain, &coarse_grain})
    for (const int64_t bytes : {1024, 4096, 32 * 1024})
      for (const int64_t items : {1, 64, 256, 384})
        for (const auto& [target, architecture] :
             std::vector<std::pair<GpuTarget, std::string>>{{GpuTarget::opencl, ""},
                                                            {GpuTarget::cuda, "sm_80"},
                                                            {GpuTarget::hip, "gfx90a"},
                                                            {GpuTarget::hip, "gfx1100"}}) {
          GpuTraits traits{.max_group_size = items,
                           .local_bytes = bytes,
                           .compute_units = 8,
                           .grain = grain,
                           .f64 = true,
                           .f16 = true,
                           .atomics_64 = true};
          if (target != GpuTarget::opencl && (grain == &coarse_grain || items < 256)) continue;
          if (target != GpuTarget::opencl) add_architecture(traits, target, architecture);
          all.push_back({std::to_string(bytes) + " bytes, groups of " + std::to_string(items) + " " +
                             (grain == &fine_grain ? "side by side " : "in turn ") + architecture,
                         traits});
        }
  return all;
}

void expect_fits(const std::vector<GpuCandidate>& candidates, const GpuTraits& traits) {
  EXPECT_FALSE(candidates.empty());
  for (const GpuCandidate& candidate : candidates)
    for (const GpuLaunch& launch : candidate.launches) {
      const int64_t items = launch.group_size[0] * launch.group_size[1] * launch.group_size[2];
      EXPECT_LE(items, traits.max_group_size) << candidate.name << ": " << launch.name;
      EXPECT_LE(launch.local_bytes, launch.local_at_launch ? traits.most_local_bytes() : traits.local_bytes)
          << candidate.name << ": " << launch.name;
    }
}

struct Asked {
  const Op* op;
  Attrs attrs;
  std::vector<TensorType> inputs;
};

/// Every case of every op that has a template, and shapes that take more memory.
std::vector<Asked> problems() {
  std::vector<Asked> all;
  const auto add = [&](const Op& op, const Attrs& attrs, std::vector<TensorType> inputs) {
    if (gpu_has_kernel(op, inputs, op.infer(inputs, attrs), attrs, GpuTraits{}))
      all.push_back({&op, attrs, inputs});
  };
  for (const Op* op : all_ops())
    for (const OpCase& spec : op->cases)
      for (const DType dtype : op->dtypes) {
        std::vector<TensorType> types;
        for (const HostArray& input : fill_case(*op, spec, dtype).inputs)
          types.push_back({input.dtype, input.shape, {}});
        add(*op, spec.attrs, types);
      }
  for (const DType t : {DType::f32, DType::f16, DType::f64}) {
    const auto types = [&](const std::vector<Shape>& shapes) {
      std::vector<TensorType> inputs;
      for (const Shape& shape : shapes) inputs.push_back({t, shape, {}});
      return inputs;
    };
    add(find_op("batch_matmul"), {}, types({{1, 300, 200}, {1, 200, 400}}));
    add(find_op("batch_matmul"), {}, types({{1, 1, 2000}, {1, 2000, 5}}));
    const Attrs conv = {
        {"stride", Ints{1, 1}}, {"padding", Ints{1, 1}}, {"dilation", Ints{1, 1}}, {"groups", 1}};
    add(find_op("conv2d"), conv, types({{4, 64, 30, 30}, {64, 64, 3, 3}}));
    for (const int64_t features : {8, 64, 200}) {
      const Attrs attention = {{"scale", 0.25}, {"causal", false}};
      const Shape rows{2, 100, features}, numbers{2, 100};
      add(find_op("scaled_dot_product_attention"), attention, types({rows, rows, rows}));
      add(find_op("attention_lse"), attention, types({rows, rows}));
      for (const char* op : {"attention_grad_q", "attention_grad_k", "attention_grad_v"})
        add(find_op(op), attention, types({rows, rows, rows, rows, numbers, numbers}));
    }
  }
  return all;
}

KernelRequest request_for(const Asked& asked) {
  const TensorType out = asked.op->infer(asked.inputs, asked.attrs);
  KernelRequest request{
      asked.op, asked.attrs, {}, {{out.dtype, out.shape, {}, contiguous_strides(out.shape)}}, {}};
  for (const TensorType& input : asked.inputs)
    request.inputs.push_back({input.dtype, input.shape, {}, contiguous_strides(input.shape)});
  return request;
}

TEST(SmallDevices, EveryTemplateFits) {
  const std::vector<Asked> all = problems();
  EXPECT_GT(all.size(), 400U);
  for (const Small& device : small_devices())
    for (const Asked& asked : all) {
      const TensorType out = asked.op->infer(asked.inputs, asked.attrs);
      if (!gpu_has_kernel(*asked.op, asked.inputs, out, asked.attrs, device.traits))
        continue;  // the op is decomposed
      const KernelRequest request = request_for(asked);
      SCOPED_TRACE(device.name + ": " + request.key());
      ASSERT_NO_THROW(expect_fits(gpu_candidates(request, device.traits), device.traits));
      if (::testing::Test::HasFailure()) return;
    }
}

// An op is decomposed only if its kernel does not fit.
TEST(SmallDevices, WhatHasRoomIsNotDecomposed) {
  const auto has = [](const char* name, const Attrs& attrs, const std::vector<Shape>& shapes, int64_t bytes) {
    const Op& op = find_op(name);
    std::vector<TensorType> inputs;
    for (const Shape& shape : shapes) inputs.push_back({DType::f32, shape, {}});
    return gpu_has_kernel(op, inputs, op.infer(inputs, attrs), attrs, {.local_bytes = bytes});
  };
  const Attrs attrs = {{"scale", 1.0}, {"causal", false}};
  const Shape q{2, 10, 64}, mask{2, 10, 5000}, k{2, 5000, 64};
  EXPECT_TRUE(has("scaled_dot_product_attention", attrs, {q, k, k, mask}, 4096));
  EXPECT_TRUE(has("attention_lse", attrs, {q, k, mask}, 4096));
  EXPECT_FALSE(has("attention_lse", attrs, {q, k, mask}, 512));
}

// Each reduction has its own values in local memory.
TEST(SmallDevices, LoopsWithManyReductionsFit) {
  for (const Small& device : small_devices())
    for (const int count : {1, 3, 40})
      for (const Ints& space : {Ints{5, 3000}, Ints{3000, 5}, Ints{4000, 700}})
        for (const bool rows : {true, false}) {
          SCOPED_TRACE(device.name + ": " + std::to_string(count) + " reductions");
          Builder loop(space, {!rows, rows});
          const int x = loop.load(0, DType::f64, {space[1], 1});
          for (int i = 0; i < count; ++i)
            loop.p.reductions.push_back(
                {i % 2 == 0 ? Prim::argmax : Prim::sum, x, i % 2 == 0 ? DType::i64 : DType::f64});
          loop.in_epilogue = true;
          for (int i = 0; i < count; ++i)
            loop.store(1 + i, 1 + i, i % 2 == 0 ? DType::i64 : DType::f64, rows ? Ints{1, 0} : Ints{0, 1});
          const auto candidates = gpu_loop_candidates(loop.p, device.traits);
          expect_fits(candidates, device.traits);
          const auto items = static_cast<uint64_t>(candidates.front().parameters.at("items"));
          EXPECT_TRUE(std::has_single_bit(items)) << items << " cannot join in halves";
        }
}

}  // namespace
}  // namespace athanor::testing
