// Attention by matrix units: every such candidate of every op, for many shapes, strides and masks.
#include <cmath>

#include "gpu_kernels.h"

namespace athanor::testing {
namespace {

struct FlashCase {
  Shape leading;
  int64_t queries, keys, d, e;
  bool causal = false, masked = false;
  double scale = 0;  // 0: the default for d features
  bool together = true;
  int compute_units = 0;  // 0: the device's; few, so that a group has several chunks of keys
};

bool is_flash(const GpuCandidate& candidate) { return candidate.parameters.contains("own_rows"); }

bool has_flash_units(DType dtype) {
  for (const DeviceInfo& info : gpu_devices())
    for (const MatrixUnit& unit : traits_of(info.device).matrix_units)
      // f32 stands for tf32.
      if (unit.input == dtype && (dtype != DType::f32 || (unit.tf32 && unit.form == MatrixUnit::Form::mma)))
        return true;
  return false;
}

Shape flash_shape(const Shape& leading, std::initializer_list<int64_t> more) {
  Ints dims = leading.to_ints();
  dims.insert(dims.end(), more);
  return Shape(dims);
}

/// Runs the candidates and compares each output with its op's reference.
void check_flash(const std::vector<const Op*>& ops, const Attrs& attrs,
                 const std::vector<TestOperand>& inputs, const std::vector<OperandDesc>& outputs, DType dtype,
                 int compute_units) {
  KernelRequest request{ops[0], attrs, {}, outputs, {}};
  if (dtype == DType::f32) request.compute = ComputeType::tf32;
  request.with.assign(ops.begin() + 1, ops.end());
  std::vector<RefArray> arrays;
  for (const TestOperand& input : inputs) {
    request.inputs.push_back(input.desc);
    arrays.emplace_back(input.desc.shape);
    arrays.back().data = input.values;
  }
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    GpuTraits traits = traits_of(device);
    if (compute_units > 0) traits.compute_units = compute_units;
    auto candidates = gpu_candidates(request, traits);
    EXPECT_LE(candidates.size(), 8U) << "each is compiled and timed: " << request.key();
    std::erase_if(candidates, [](const GpuCandidate& one) {
      const bool is_pair = one.launches.size() > 1 && !one.parameters.contains("parts");
      return !is_flash(one) || is_pair;  // those of pairs are checked one by one
    });
    std::vector<std::vector<Run>> runs(outputs.size());
    for (const GpuCandidate& candidate : reduced(std::move(candidates))) {
      expect_straight(candidate);
      auto found = outputs_on(device, candidate, inputs, outputs);
      if (candidate.parameters.contains("parts")) {
        EXPECT_EQ(outputs_on(device, candidate, inputs, outputs), found) << candidate.name << ": other bits";
      }
      for (size_t o = 0; o < outputs.size(); ++o)
        runs[o].push_back({candidate.name + " of " + ops[o]->name, std::move(found[o])});
    }
    // All three gradients of many features need more local memory than some devices have.
    if (ops.size() == 3 && outputs[0].shape[-1] > 64 && runs[0].empty()) continue;
    for (size_t o = 0; o < outputs.size(); ++o) {
      EXPECT_FALSE(runs[o].empty()) << request.key();
      const std::vector<double> want = ops[o]->reference(arrays, attrs).data;
      double largest = 0;
      for (const double x : want) largest = std::max(largest, std::abs(x));
      const double tolerance = largest * (dtype == DType::f16 ? 2e-3 : dtype == DType::f32 ? 4e-3 : 1.6e-2);
      for (const Run& run : runs[o])
        for (size_t i = 0; i < want.size(); ++i)
          ASSERT_NEAR(run.values[i], want[i], tolerance)
              << run.candidate << " element " << i << " " << request.key();
    }
  }
}

void check_flash(DType dtype, const FlashCase& c, const Ints& strides = {}) {
  const double scale = c.scale != 0 ? c.scale : 1 / std::sqrt(static_cast<double>(c.d));
  const Attrs attrs = {{"causal", c.causal}, {"scale", scale}};
  const Shape q = flash_shape(c.leading, {c.queries, c.d}), k = flash_shape(c.leading, {c.keys, c.d}),
              v = flash_shape(c.leading, {c.keys, c.e}), y = flash_shape(c.leading, {c.queries, c.e}),
              rows = flash_shape(c.leading, {c.queries}),
              scores = flash_shape(c.leading, {c.queries, c.keys});
  const auto output = [](DType type, const Shape& shape) {
    return OperandDesc{type, shape, {}, contiguous_strides(shape)};
  };
  const TestOperand vq = view(dtype, q, 1, strides), vk = view(dtype, k, 2, strides),
                    vv = view(dtype, v, 3, strides), vg = view(dtype, y, 4, strides),
                    lse = view(DType::f32, rows, 5), delta = view(DType::f32, rows, 6);
  const auto run = [&](const std::vector<std::string>& names, std::vector<TestOperand> inputs,
                       const std::vector<OperandDesc>& outputs) {
    if (c.masked) inputs.push_back(view(dtype, scores, 9));
    std::vector<const Op*> ops;
    for (const std::string& name : names) ops.push_back(&find_op(name));
    check_flash(ops, attrs, inputs, outputs, dtype, c.compute_units);
  };
  const std::vector<TestOperand> all{vq, vk, vv, vg, lse, delta};
  if (dtype != DType::f32)
    run({"attention_grad_q", "attention_grad_k", "attention_grad_v"}, all,
        {output(dtype, q), output(dtype, k), output(dtype, v)});
  if (c.compute_units > 0) return;
  run({"scaled_dot_product_attention"}, {vq, vk, vv}, {output(dtype, y)});
  run({"attention_lse"}, {vq, vk}, {output(DType::f32, rows)});
  run({"attention_grad_q"}, all, {output(dtype, q)});
  run({"attention_grad_k", "attention_grad_v"}, all, {output(dtype, k), output(dtype, v)});
  if (c.together) return;
  run({"attention_grad_k"}, all, {output(dtype, k)});
  run({"attention_grad_v"}, all, {output(dtype, v)});
}

class GpuFlash : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    if (!has_flash_units(GetParam()))
      GTEST_SKIP() << "no device here has matrix units for " << to_string(GetParam());
  }
};

TEST_P(GpuFlash, WholeBlocks) { check_flash(GetParam(), {{}, 128, 128, 64, 64}); }

TEST_P(GpuFlash, OddLengths) {
  check_flash(GetParam(), {{2}, 37, 70, 64, 64, false, false, 0, false});
  check_flash(GetParam(), {{}, 1, 3, 32, 32});
  check_flash(GetParam(), {{}, 65, 33, 96, 96});
}

TEST_P(GpuFlash, OtherFeatures) {
  check_flash(GetParam(), {{}, 40, 50, 128, 128});
  check_flash(GetParam(), {{}, 20, 40, 48, 16});
  check_flash(GetParam(), {{}, 20, 40, 20, 12});
  check_flash(GetParam(), {{}, 20, 40, 7, 35});
}

TEST_P(GpuFlash, Causal) {
  check_flash(GetParam(), {{2}, 130, 130, 32, 32, true});
  check_flash(GetParam(), {{}, 40, 170, 32, 32, true});
}

TEST_P(GpuFlash, GradientsOfSeveralChunks) {
  FlashCase c{{2}, 70, 300, 32, 32};
  c.compute_units = 1;
  check_flash(GetParam(), c);
  check_flash(GetParam(), {{}, 150, 300, 48, 16, true, false, 0, true, 1});
}

TEST_P(GpuFlash, MasksAndScales) {
  check_flash(GetParam(), {{}, 33, 40, 32, 32, true, true});
  check_flash(GetParam(), {{}, 33, 40, 32, 32, false, false, -0.2});
}

// The lowest number of the type as a mask, as in many models: a row that it hides as a whole weighs all keys
// alike. Infinity hides others.
TEST_P(GpuFlash, HiddenRows) {
  const DType dtype = GetParam();
  constexpr int64_t queries = 5, keys = 40, d = 32;
  const double hidden = dtype == DType::f16    ? -65504
                        : dtype == DType::bf16 ? -3.3895313892515355e38
                                               : -3.4028234663852886e38;
  std::vector<double> mask(queries * keys);
  for (int64_t key = 0; key < keys; ++key) {
    mask[static_cast<size_t>(key)] = hidden;
    mask[static_cast<size_t>(keys + key)] = key < 3 ? 0 : hidden;
    mask[static_cast<size_t>(2 * keys + key)] = key % 2 == 0 ? -INFINITY : hidden;
  }
  const Shape q{queries, d}, k{keys, d};
  const std::vector<TestOperand> inputs = {view(dtype, q, 1), view(dtype, k, 2), view(dtype, k, 3),
                                           make_value(dtype, {queries, keys}, mask)};
  const Attrs attrs = {{"causal", false}, {"scale", 0.25}};
  check_flash({&find_op("scaled_dot_product_attention")}, attrs, inputs,
              {{dtype, q, {}, contiguous_strides(q)}}, dtype, 0);
}

// Heads are views of one projection, as in nn::MultiheadAttention: [N, T, H, D] as [N, H, T, D].
TEST_P(GpuFlash, Strides) {
  check_flash(GetParam(), {{2, 2}, 30, 30, 32, 32}, {30 * 192, 32, 192, 1});
  check_flash(GetParam(), {{2, 2}, 30, 30, 6, 6}, {30 * 37, 6, 37, 1});
  check_flash(GetParam(), {{}, 30, 30, 32, 32}, {1, 30});
}

// Lanes that share a row exchange their elements, so that they store vectors.
TEST(GpuFlashStores, AreOfSixteenBytes) {
  const Shape x{8, 12, 1024, 64};
  const OperandDesc desc{DType::bf16, x, {}, contiguous_strides(x)};
  const KernelRequest request{&find_op("scaled_dot_product_attention"),
                              {{"causal", true}, {"scale", 0.125}},
                              {desc, desc, desc},
                              {desc},
                              {}};
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    GpuTraits traits;
    add_architecture(traits, GpuTarget::cuda, architecture);
    const GpuCandidate candidate = gpu_candidates(request, traits).front();
    ASSERT_TRUE(is_flash(candidate)) << candidate.name;
    const std::string& source = candidate.launches.front().source;
    EXPECT_NE(source.find("WRITE_EXCHANGED(4, row"), std::string::npos) << architecture;
    EXPECT_EQ(source.find("WRITE_GLOBAL(1, row"), std::string::npos) << architecture;
  }
}

// GPT-2 small with 8 texts of 1024 tokens. If a SIMD had only one wave, it would wait for loads and softmax.
TEST(GpuFlashPoints, LeaveRoomForSeveralWavesOfCdna) {
  const Shape x{8, 12, 1024, 64}, rows{8, 12, 1024};
  const auto desc = [](const Shape& shape) {
    return OperandDesc{shape.rank() == 3 ? DType::f32 : DType::f16, shape, {}, contiguous_strides(shape)};
  };
  for (const char* architecture : {"gfx908", "gfx90a", "gfx942"}) {
    GpuTraits traits;
    add_architecture(traits, GpuTarget::hip, architecture);
    set_driver_facts(traits, GpuTarget::hip, architecture);
    for (const char* op : {"scaled_dot_product_attention", "attention_grad_q", "attention_grad_k"}) {
      KernelRequest request{
          &find_op(op), {{"causal", true}, {"scale", 0.125}}, {desc(x), desc(x), desc(x)}, {desc(x)}, {}};
      if (op != std::string_view("scaled_dot_product_attention"))
        for (const Shape& shape : {x, rows, rows}) request.inputs.push_back(desc(shape));
      if (op == std::string_view("attention_grad_k")) {
        request.with.push_back(&find_op("attention_grad_v"));
        request.outputs.push_back(desc(x));
      }
      const GpuCandidate first = gpu_candidates(request, traits).at(0);
      const GpuLaunch& launch = first.launches.at(0);
      const int64_t groups = traits.local_bytes / launch.local_bytes, waves = launch.group_size[0] / 64;
      // gfx908 has too few registers for two waves of the gradients of k and v, but each SIMD has at least 1.
      const bool few = architecture == std::string_view("gfx908") && !request.with.empty();
      EXPECT_GE(groups * waves, few ? 4 : 8) << first.name << " of " << op << " on " << architecture;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuFlash, ::testing::Values(DType::f16, DType::bf16, DType::f32),
                         [](const auto& instance) {
                           return instance.param == DType::f32 ? "tf32"
                                                               : std::string(to_string(instance.param));
                         });

}  // namespace
}  // namespace athanor::testing
