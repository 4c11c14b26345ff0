#include <cmath>
#include <limits>

#include "athanor/kernels/gpu/gpu_access.h"
#include "athanor/kernels/host_result.h"
#include "athanor/kernels/trial.h"
#include "flash_epilogues.h"
#include "tests/support/attention_case.h"

namespace athanor::testing {
namespace {

constexpr const char* all_gradients[] = {"attention_grad_q", "attention_grad_k", "attention_grad_v"};

/// A request of several gradients, by the names of their ops, and the values of its inputs.
struct Gradients {
  std::vector<const Op*> ops;
  std::vector<TestOperand> inputs;
  KernelRequest request;
  Gradients(std::span<const char* const> names, DType dtype, const AttentionCase& c) {
    const Shape q = with(c.leading, c.queries, c.d), k = with(c.leading, c.keys, c.d),
                v = with(c.leading, c.keys, c.e), y = with(c.leading, c.queries, c.e),
                rows = with(c.leading, c.queries);
    const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
    inputs = {view(dtype, q, 1), view(dtype, k, 2),   view(dtype, v, 3),
              view(dtype, y, 4), view(wide, rows, 5), view(wide, rows, 6)};
    if (c.masked) inputs.push_back(view(dtype, with(c.leading, c.queries, c.keys), 9));
    request.attrs = {{"causal", c.causal}, {"scale", c.scale}};
    for (const TestOperand& input : inputs) request.inputs.push_back(input.desc);
    for (const char* name : names) {
      ops.push_back(&find_op(name));
      const Shape& shape = name == all_gradients[0] ? q : name == all_gradients[1] ? k : v;
      request.outputs.push_back(dtype == DType::f32
                                    ? part_of_three(dtype, shape)
                                    : OperandDesc{dtype, shape, {}, contiguous_strides(shape)});
    }
    request.op = ops.front();
    request.with.assign(ops.begin() + 1, ops.end());
  }
};

// Compares all gradients of one request with their references. Returns the most parts that the keys of a head
// have in a candidate. `only`: of all candidates for these traits.
int64_t check_together(std::span<const char* const> names, DType dtype, const AttentionCase& c,
                       double tolerance, const GpuTraits* only = nullptr) {
  const Gradients all(names, dtype, c);
  const KernelRequest& request = all.request;
  std::vector<RefArray> arrays;
  for (const TestOperand& input : all.inputs) {
    arrays.emplace_back(input.desc.shape);
    arrays.back().data = input.values;
  }
  int64_t most_parts = 0;
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    GpuTraits other = device.facts().traits;
    if (!is_reduced()) other.grain = other_grain(other.grain);
    other.compute_units = 4;
    const GpuTraits& first = only != nullptr ? *only : device.facts().traits;
    std::vector<GpuCandidate> candidates = candidates_for(request, first);
    if (only == nullptr)
      for (GpuCandidate& one : candidates_for(request, other)) candidates.push_back(std::move(one));
    EXPECT_TRUE(names.size() == 1 || gpu_computes_together(request, first) ||
                gpu_computes_together(request, other));
    bool any_pair = false;  // the others consist of the same kernels
    for (const GpuCandidate& generated : candidates) {
      const bool in_parts = generated.parameters.contains("parts"),
                 is_pair = generated.launches.size() > 1 && !in_parts;
      if (is_pair && std::exchange(any_pair, true)) continue;
      if (is_reduced() && only == nullptr &&
          !is_first_of_kind(in_parts ? request.key() : all.ops[0]->name, dtype, generated.name))
        continue;
      const auto found = outputs_on(device, generated, all.inputs, request.outputs);
      if (in_parts) {
        most_parts = std::max(most_parts, generated.parameters.at("parts"));
        EXPECT_EQ(outputs_on(device, generated, all.inputs, request.outputs), found)
            << generated.name << " gives other bits each time";
      }
      for (size_t o = 0; o < all.ops.size(); ++o) {
        const std::vector<double> want = all.ops[o]->reference(arrays, request.attrs).data;
        double largest = 0;
        for (const double x : want) largest = std::max(largest, std::abs(x));
        for (size_t i = 0; i < want.size(); ++i) {
          EXPECT_NEAR(found[o][i], want[i], tolerance * largest)
              << generated.name << " " << all.ops[o]->name << " element " << i;
          if (::testing::Test::HasFailure()) return most_parts;
        }
      }
    }
  }
  return most_parts;
}

void check(DType dtype, const AttentionCase& c, double tolerance) {
  const Attrs attrs = {{"causal", c.causal}, {"scale", c.scale}};
  const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Shape q = with(c.leading, c.queries, c.d), k = with(c.leading, c.keys, c.d),
              v = with(c.leading, c.keys, c.e), y = with(c.leading, c.queries, c.e),
              rows = with(c.leading, c.queries);
  const auto run = [&](const char* op, std::vector<TestOperand> inputs, const Shape& output) {
    if (c.masked) inputs.push_back(view(dtype, with(c.leading, c.queries, c.keys), 9));
    check_candidates(op, attrs, std::move(inputs), output, tolerance);
  };
  const TestOperand vq = view(dtype, q, 1), vk = view(dtype, k, 2), vv = view(dtype, v, 3),
                    vg = view(dtype, y, 4), lse = view(wide, rows, 5), delta = view(wide, rows, 6);
  run("scaled_dot_product_attention", {vq, vk, vv}, y);
  run("attention_grad_q", {vq, vk, vv, vg, lse, delta}, q);
  run("attention_grad_k", {vq, vk, vv, vg, lse, delta}, k);
  run("attention_grad_v", {vq, vk, vv, vg, lse, delta}, v);
  if (dtype == wide) run("attention_lse", {vq, vk}, rows);
}

TEST(GpuAttention, OddShapes) {
  ATHANOR_NEEDS_GPU();
  for (const AttentionCase& c : {AttentionCase{{}, 1, 1, 1, 1}, AttentionCase{{2, 3}, 17, 33, 5, 7},
                                 AttentionCase{{3}, 70, 3, 8, 4}, AttentionCase{{1, 2}, 3, 129, 16, 16}})
    check(DType::f32, c, 2e-5);
}

// Features that fill an item's vectors of four, that leave some items without one, and two vectors for each.
TEST(GpuAttention, ManyFeatures) {
  ATHANOR_NEEDS_GPU();
  for (const AttentionCase& c : {AttentionCase{{2}, 66, 40, 64, 64, true}, AttentionCase{{}, 20, 70, 80, 36},
                                 AttentionCase{{}, 9, 33, 128, 128}})
    check(DType::f32, c, 2e-5);
  check(DType::bf16, {{}, 35, 40, 64, 32, true}, 3e-2);
  check_together(all_gradients, DType::f32, {{2}, 66, 70, 64, 64, true}, 2e-5);
  check_together(all_gradients, DType::f32, {{}, 40, 33, 20, 36}, 2e-5);
}

TEST(GpuAttention, CausalAndMasked) {
  ATHANOR_NEEDS_GPU();
  check(DType::f32, {{2}, 19, 19, 4, 4, true}, 2e-5);
  check(DType::f32, {{2}, 5, 40, 4, 3, true, true}, 2e-5);
  check(DType::f32, {{2}, 70, 150, 5, 4, true}, 2e-5);
  check(DType::f32, {{}, 33, 17, 6, 6, false, true}, 2e-5);
}

TEST(GpuAttention, QueriesThatSeeNoKey) {
  ATHANOR_NEEDS_GPU();
  check(DType::f32, {{2}, 40, 7, 4, 4, true}, 2e-5);
}

TEST(GpuAttention, OtherTypes) {
  ATHANOR_NEEDS_GPU();
  check(DType::f64, {{2}, 9, 11, 4, 3}, 1e-12);
  check(DType::bf16, {{2}, 9, 11, 4, 3}, 3e-2);
}

TEST(GpuAttention, KeysAndValuesTogether) {
  ATHANOR_NEEDS_GPU();
  const std::span<const char* const> two(all_gradients + 1, 2);
  check_together(two, DType::f32, {{2, 3}, 17, 33, 5, 7}, 2e-5);
  check_together(two, DType::f32, {{2}, 20, 19, 9, 12, true, true}, 2e-5);
  check_together(two, DType::bf16, {{}, 40, 35, 16, 16}, 3e-2);
}

TEST(GpuAttention, AllGradientsTogether) {
  ATHANOR_NEEDS_GPU();
  check_together(all_gradients, DType::f32, {{2, 3}, 17, 33, 5, 7}, 2e-5);
  check_together(all_gradients, DType::f32, {{2}, 20, 19, 9, 12, true, true}, 2e-5);
  check_together(all_gradients, DType::f32, {{}, 1, 1, 1, 1}, 2e-5);
  check_together(all_gradients, DType::f64, {{2}, 9, 11, 4, 3}, 1e-12);
}

// The keys of a head are divided among groups, whose gradients by q a second launch adds.
TEST(GpuAttention, AllGradientsByParts) {
  ATHANOR_NEEDS_GPU();
  EXPECT_GT(check_together(all_gradients, DType::f32, {{3}, 90, 330, 5, 7}, 2e-5), 1);
  EXPECT_GT(check_together(all_gradients, DType::f32, {{3}, 330, 330, 17, 4, true}, 2e-5), 1);
  EXPECT_GT(check_together(all_gradients, DType::f32, {{2}, 100, 300, 8, 8, true, true}, 2e-5), 1);
  EXPECT_GT(check_together(all_gradients, DType::f32, {{}, 300, 200, 8, 8, true}, 2e-5), 1);
  EXPECT_GT(check_together(all_gradients, DType::bf16, {{}, 70, 135, 16, 16}, 3e-2), 1);
  EXPECT_GT(check_together(all_gradients, DType::f16, {{}, 70, 135, 16, 16}, 4e-3), 1);
}

// One kernel of all gradients is the first guess where a group has 64 keys at a time. By matrix units it
// comes last, because there nobody has timed it.
TEST(GpuAttention, WhenAllGradientsAreTogether) {
  GpuTraits traits;
  traits.local_bytes = 64 * 1024;
  traits.compute_units = 3;
  const AttentionCase c{{2, 3}, 256, 256, 32, 32};
  const KernelRequest request = Gradients(all_gradients, DType::f16, c).request;
  EXPECT_TRUE(gpu_computes_together(request, traits));
  const auto candidates = candidates_for(request, traits);
  EXPECT_LE(candidates.size(), 8U) << "each is compiled and timed";
  EXPECT_EQ(candidates.front().parameters.at("parts"), 2);
  EXPECT_EQ(candidates.front().scratch_bytes, 2U * 2 * 3 * 256 * 32 * 4);
  EXPECT_TRUE(candidates.back().parameters.contains("parts"));  // has 16 keys at a time
  const auto pairs = std::ranges::count_if(
      candidates, [](const GpuCandidate& one) { return !one.parameters.contains("parts"); });
  EXPECT_EQ(pairs, 4);
  add_architecture(traits, GpuTarget::hip, "gfx1100");
  EXPECT_TRUE(gpu_computes_together(request, traits));
  const auto by_units = candidates_for(request, traits);
  EXPECT_LE(by_units.size(), 8U) << "each is compiled and timed";
  EXPECT_FALSE(by_units.front().parameters.contains("parts"));
  EXPECT_TRUE(by_units.back().parameters.contains("parts"));
  EXPECT_TRUE(by_units.back().parameters.contains("own_rows"));
  const char* const without_values[] = {all_gradients[0], all_gradients[1]};
  EXPECT_FALSE(gpu_computes_together(Gradients(without_values, DType::f32, c).request, traits));
}

// Where lanes multiply pairs of f16, local memory holds pairs. Of an odd number of features one has no other.
TEST(GpuAttention, PairsOfHalves) {
  ATHANOR_NEEDS_GPU();
  const Device id = gpu_devices().front().device;
  gpu::GpuDevice& device = gpu::gpu_device(id);
  if (device.facts().target != GpuTarget::hip) GTEST_SKIP() << "only HIP has pairs";
  const auto dots = [](const MatrixUnit& unit) {
    return unit.form == MatrixUnit::Form::dot && unit.input == DType::f16;
  };
  GpuTraits traits = device.facts().traits;
  traits.matrix_units = {};
  traits.compute_units = 1;  // so that a part of all gradients has several chunks of keys
  // The device's own, and those of a chip without an instruction for two products: it is not needed.
  std::vector<std::span<const MatrixUnit>> units{lane_units(GpuTarget::hip, "gfx1010")};
  if (std::ranges::any_of(traits.lane_units, dots)) units.push_back(traits.lane_units);
  const AttentionCase cases[] = {
      {.leading = {4}, .queries = 37, .keys = 70, .d = 40, .e = 24, .causal = true},
      {.leading = {1}, .queries = 70, .keys = 9, .d = 7, .e = 11, .masked = true}};
  for (const auto& one : units)
    for (const AttentionCase& c : cases) {
      traits.lane_units = one;
      const std::span<const char* const> names = all_gradients;
      for (const auto some : {names, names.first(1), names.last(2)})
        check_together(some, DType::f16, c, 4e-3, &traits);
      std::vector<TestOperand> inputs = {view(DType::f16, with(c.leading, c.queries, c.d), 1),
                                         view(DType::f16, with(c.leading, c.keys, c.d), 2),
                                         view(DType::f16, with(c.leading, c.keys, c.e), 3)};
      if (c.masked) inputs.push_back(view(DType::f16, with(c.leading, c.queries, c.keys), 9));
      const KernelRequest request =
          request_of(find_op("scaled_dot_product_attention"), {{"causal", c.causal}, {"scale", c.scale}},
                     inputs, DType::f16, with(c.leading, c.queries, c.e), {}, {});
      std::vector<testing::Run> runs;
      for (const GpuCandidate& candidate : candidates_for(request, traits)) {
        EXPECT_NE(candidate.launches.front().source.find("MULTIPLY_ADD"), std::string::npos);
        runs.push_back({candidate.name, run_on(device, candidate, inputs, request.output())});
      }
      expect_all_near(runs, reference_of(request, inputs), 4e-3, request.key());
    }
}

// Blocks of keys that no query of a group sees are not read. Otherwise a key that only the last query sees
// would make 0 * infinity of the first one's result.
TEST(GpuAttention, CausalSkipsBlocks) {
  ATHANOR_NEEDS_GPU();
  constexpr int64_t rows = 160, d = 4;
  const OperandDesc matrix{DType::f32, {rows, d}, {}, {d, 1}};
  const KernelRequest request{.op = &find_op("scaled_dot_product_attention"),
                              .attrs = {{"causal", true}, {"scale", 0.5}},
                              .inputs = {matrix, matrix, matrix},
                              .outputs = {matrix},
                              .epilogue = {}};
  std::vector<TestOperand> inputs;
  for (unsigned i = 0; i < 3; ++i) inputs.push_back(view(DType::f32, {rows, d}, i));
  static_cast<float*>(inputs[2].address())[(rows - 1) * d] = std::numeric_limits<float>::infinity();
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    for (const Grain* grain : {&fine_grain, &coarse_grain}) {
      GpuTraits traits = device.facts().traits;
      traits.grain = grain;
      for (const GpuCandidate& candidate : candidates_for(request, traits))
        EXPECT_TRUE(std::isfinite(run_on(device, candidate, inputs, matrix).front())) << candidate.name;
    }
  }
}

// Large groups keep more of a compute unit's SIMDs busy; small ones come first where there are few of them.
TEST(GpuAttention, GroupsAreLargeWhereThereAreEnough) {
  GpuTraits traits;
  traits.local_bytes = 64 * 1024;
  traits.compute_units = 60;
  const auto items_of_first = [&](int64_t batches) {
    const OperandDesc matrix{DType::f32, {batches, 200, 64}, {}, {200 * 64, 64, 1}};
    const KernelRequest request{.op = &find_op("scaled_dot_product_attention"),
                                .attrs = {{"causal", false}, {"scale", 0.125}},
                                .inputs = {matrix, matrix, matrix},
                                .outputs = {matrix},
                                .epilogue = {}};
    return candidates_for(request, traits).front().launches.front().group_size[0];
  };
  EXPECT_EQ(items_of_first(96), 256);
  EXPECT_EQ(items_of_first(2), 64);
}

// By items that have whole rows, by groups that share tiles, and by a loop behind the kernel.
TEST(GpuAttention, Epilogues) {
  ATHANOR_NEEDS_GPU();
  FlashCase heads{{2, 3}, 17, 33, 8, 8, true}, hidden{{2}, 40, 7, 5, 4, true, true};
  heads.with_lse = true;
  heads.together = hidden.together = false;
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    GpuTraits other = device.facts().traits;
    if (!is_reduced()) other.grain = other_grain(other.grain);
    for (const GpuTraits& traits : {device.facts().traits, other}) {
      check_chains({&device, traits}, {DType::f32}, heads, {0, 2, 1, 3}, next_of);
      check_chains({&device, traits}, {DType::f16}, heads, {0, 2, 1, 3}, next_of);
      check_chains({&device, traits}, {DType::f32}, hidden, {}, next_of);

      for (const DType from : {DType::f32, DType::bf16})
        check_computed({&device, traits}, {DType::f32}, {{2, 3}, 37, 33, 9, 7, true}, from, next_of);
    }
  }
}

// The host, which decides whether a device's kernel is right, has a loop behind its own.
TEST(GpuAttention, EpiloguesAgreeWithTheHosts) {
  ATHANOR_NEEDS_GPU();
  const OperandDesc x{DType::f32, {2, 3, 17, 8}, {}, {17 * 24, 8, 24, 1}},
      rows{DType::f32, {2, 3, 17}, {}, {51, 17, 1}};
  for (const FlashChain chain : all_flash_chains) {
    std::vector<TestOperand> inputs;
    KernelRequest request{&find_op("scaled_dot_product_attention"),
                          {{"causal", true}, {"scale", 0.3}},
                          {x, x, x},
                          {x, rows},
                          {}};
    request.with = {&find_op("attention_lse")};
    add_chain(request, inputs, chain);
    const TrialResults host = host_result(request);
    ASSERT_EQ(host.size(), request.outputs.size());
    for (const DeviceInfo& info : gpu_devices()) {
      gpu::GpuDevice& device = gpu::gpu_device(info.device);
      const GpuCandidate first = candidates_for(request, device.facts().traits).front();
      const TrialResults here = Trial(info.device, request).result(gpu::make_candidate(device, first, {}));
      EXPECT_TRUE(agree(host, here, request)) << first.name << " of " << request.key();
    }
  }
}

// Heads are views of one projection, as in nn::MultiheadAttention: [N, T, H, D] as [N, H, T, D].
TEST(GpuAttention, Strides) {
  ATHANOR_NEEDS_GPU();
  const Shape heads{2, 3, 10, 4};
  const Ints strides{10 * 36, 4, 36, 1};
  check_candidates("scaled_dot_product_attention", {{"causal", false}, {"scale", 0.5}},
                   {view(DType::f32, heads, 1, strides), view(DType::f32, heads, 2, strides),
                    view(DType::f32, heads, 3, strides)},
                   heads, 2e-5);
  // Keys and values in falling order.
  const Ints falling{30 * 8, 10 * 8, -8, 1};
  const Shape wide{2, 3, 10, 8};
  check_candidates(
      "scaled_dot_product_attention", {{"causal", false}, {"scale", 0.5}},
      {view(DType::f32, wide, 1), view(DType::f32, wide, 2, falling), view(DType::f32, wide, 3, falling)},
      wide, 2e-5);
}

}  // namespace
}  // namespace athanor::testing
