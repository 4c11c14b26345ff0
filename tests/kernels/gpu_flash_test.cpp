// Attention by matrix units: every such candidate of every op, for many shapes, strides and masks.
#include "flash_epilogues.h"

namespace athanor::testing {
namespace {

bool multiplies(const MatrixUnit& unit, FlashType type) {
  return unit.input == type.dtype && unit.tf32 == type.tf32 && !unit.reads_local() &&
         unit.form != MatrixUnit::Form::quads;  // Volta's, for products and convolutions
}

/// Every device that has units for the type.
std::vector<FlashDevice> devices_for(FlashType type) {
  std::vector<FlashDevice> devices;
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    const GpuTraits traits = traits_of(device);
    if (std::ranges::any_of(traits.matrix_units, [&](const auto& unit) { return multiplies(unit, type); }))
      devices.push_back({&device, traits});
  }
  return devices;
}

void check(FlashType type, const FlashCase& c, const Ints& strides = {}) {
  for (const FlashDevice& on : devices_for(type)) check_flash(on, type, c, strides);
}

std::string name_of(FlashType type) { return type.tf32 ? "tf32" : std::string(to_string(type.dtype)); }

class GpuFlash : public ::testing::TestWithParam<FlashType> {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    if (devices_for(GetParam()).empty())
      GTEST_SKIP() << "no device here has matrix units for " << name_of(GetParam());
  }
};

TEST_P(GpuFlash, WholeBlocks) { check(GetParam(), {{}, 128, 128, 64, 64}); }

TEST_P(GpuFlash, OddLengths) {
  check(GetParam(), {{2}, 37, 70, 64, 64, false, false, 0, false});
  check(GetParam(), {{}, 1, 3, 32, 32});
  check(GetParam(), {{}, 65, 33, 96, 96});
}

TEST_P(GpuFlash, OtherFeatures) {
  check(GetParam(), {{}, 40, 50, 128, 128});
  check(GetParam(), {{}, 20, 40, 48, 16});
  check(GetParam(), {{}, 20, 40, 20, 12});
  check(GetParam(), {{}, 20, 40, 7, 35});
}

TEST_P(GpuFlash, Causal) {
  check(GetParam(), {{2}, 130, 130, 32, 32, true});
  check(GetParam(), {{}, 40, 170, 32, 32, true});
}

TEST_P(GpuFlash, GradientsOfSeveralChunks) {
  if (GetParam().dtype == DType::f32) GTEST_SKIP() << "units compute not all gradients in one kernel in f32";
  FlashCase c{{2}, 70, 300, 32, 32};
  c.compute_units = 1;
  check(GetParam(), c);
  check(GetParam(), {{}, 150, 300, 48, 16, true, false, 0, true, 1});
}

TEST_P(GpuFlash, MasksAndScales) {
  check(GetParam(), {{}, 33, 40, 32, 32, true, true});
  check(GetParam(), {{}, 33, 40, 32, 32, false, false, -0.2});
}

TEST_P(GpuFlash, HiddenRows) {
  for (const FlashDevice& on : devices_for(GetParam())) check_hidden_rows(on, GetParam());
}

// The first queries see no key: some of a group's, or all of the first groups'.
TEST_P(GpuFlash, QueriesThatSeeNoKey) {
  FlashCase some{{2}, 100, 37, 32, 32, true}, masked{{}, 70, 40, 32, 32, true, true};
  some.with_lse = masked.with_lse = true;
  check(GetParam(), some);
  check(GetParam(), masked);
  check(GetParam(), {{}, 290, 20, 32, 32, true});
  if (GetParam().dtype != DType::f32) check(GetParam(), {{}, 300, 150, 32, 32, true, false, 0, true, 1});
}

// Heads are views of one projection, as in nn::MultiheadAttention: [N, T, H, D] as [N, H, T, D].
TEST_P(GpuFlash, Strides) {
  check(GetParam(), {{2, 2}, 30, 30, 32, 32}, {30 * 192, 32, 192, 1});
  check(GetParam(), {{2, 2}, 30, 30, 6, 6}, {30 * 37, 6, 37, 1});
  check(GetParam(), {{}, 30, 30, 32, 32}, {1, 30});
}

// Heads side by side, as the next product reads them; and elements of rows that no vector holds.
TEST_P(GpuFlash, Epilogues) {
  const auto flash = [](std::vector<GpuCandidate> all) {
    std::erase_if(all, [](const GpuCandidate& one) { return !is_flash(one); });
    return next_of(std::move(all));
  };
  FlashCase heads{{2, 3}, 40, 70, 64, 64, true}, odd{{2}, 37, 33, 20, 12};
  heads.with_lse = true;
  for (const FlashDevice& on : devices_for(GetParam())) {
    check_chains(on, GetParam(), heads, {0, 2, 1, 3}, flash);
    check_chains(on, GetParam(), odd, {}, flash);
    check_chains(on, GetParam(), {{}, 70, 40, 33, 7, true, true}, {}, flash);
  }
}

TEST_P(GpuFlash, ComputedQueries) {
  const auto flash = [](std::vector<GpuCandidate> all) {
    EXPECT_TRUE(std::ranges::all_of(all, is_flash));
    return next_of(std::move(all));
  };
  for (const FlashDevice& on : devices_for(GetParam())) {
    if (on.traits.matrix_units.front().form == MatrixUnit::Form::mfma && GetParam().dtype == DType::f32)
      GTEST_SKIP() << "MFMA's lanes read queries in f32 from memory";
    check_computed(on, GetParam(), {{2, 3}, 70, 90, 64, 32, true}, DType::f32, flash);
    check_computed(on, GetParam(), {{1, 2}, 37, 33, 24, 16}, GetParam().dtype, flash);
  }
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
    const GpuCandidate candidate = candidates_for(request, traits).front();
    ASSERT_TRUE(is_flash(candidate)) << candidate.name;
    const std::string& source = candidate.launches.front().source;
    EXPECT_NE(source.find("WRITE_EXCHANGED(4, row"), std::string::npos) << architecture;
    EXPECT_EQ(source.find("WRITE_GLOBAL(1, row"), std::string::npos) << architecture;
  }
}

/// The request for attention of GPT-2 small, or for its gradient by q or by k and v, with 8 texts.
KernelRequest gpt2_attention(const char* op, FlashType type) {
  const Shape x{8, 12, 1024, 64}, rows{8, 12, 1024};
  const auto desc = [&](const Shape& shape) {
    return OperandDesc{shape.rank() == 3 ? DType::f32 : type.dtype, shape, {}, contiguous_strides(shape)};
  };
  KernelRequest request{
      &find_op(op), {{"causal", true}, {"scale", 0.125}}, {desc(x), desc(x), desc(x)}, {desc(x)}, {}};
  if (type.tf32) request.compute = ComputeType::tf32;
  if (op != std::string_view("scaled_dot_product_attention"))
    for (const Shape& shape : {x, rows, rows}) request.inputs.push_back(desc(shape));
  if (op == std::string_view("attention_grad_k")) {
    request.with.push_back(&find_op("attention_grad_v"));
    request.outputs.push_back(desc(x));
  }
  return request;
}

// GPT-2 small with 8 texts of 1024 tokens. If a SIMD had only one wave, it would wait for loads and softmax.
TEST(GpuFlashPoints, LeaveRoomForSeveralWavesOfCdna) {
  const auto waves_of = [](const GpuTraits& traits, const GpuLaunch& launch) {
    return traits.local_bytes / launch.local_bytes * (launch.group_size[0] / 64);
  };
  for (const char* architecture : {"gfx908", "gfx90a", "gfx942"}) {
    GpuTraits traits;
    add_architecture(traits, GpuTarget::hip, architecture);
    set_driver_facts(traits, GpuTarget::hip, architecture);
    for (const FlashType type : {FlashType{DType::f16}, FlashType{DType::f32}, FlashType{DType::f32, true}}) {
      if (type.tf32 && architecture != std::string_view("gfx942")) continue;
      for (const char* op : {"scaled_dot_product_attention", "attention_grad_q", "attention_grad_k"}) {
        const KernelRequest request = gpt2_attention(op, type);
        const auto all = candidates_for(request, traits);
        EXPECT_LE(all.size(), 8U);
        const GpuCandidate& first = all.at(0);
        ASSERT_TRUE(is_flash(first)) << first.name;
        EXPECT_EQ(first.name.starts_with("tf32 "), type.tf32) << first.name;
        const GpuLaunch& launch = first.launches.at(0);
        // gfx908 has too few registers for two waves of the gradients of k and v in f16, but each SIMD has 1.
        const bool few = architecture == std::string_view("gfx908") && !request.with.empty();
        EXPECT_GE(waves_of(traits, launch), few ? 4 : 8)
            << first.name << " of " << op << " on " << architecture;
        // Else the compiler would move sums between two register files.
        const bool has_room = launch.source.find("ROOM_FOR_WAVES(2)") != std::string::npos;
        EXPECT_EQ(has_room, !few || type.dtype == DType::f32)
            << first.name << " of " << op << " on " << architecture;
        // Lanes are timed beside them, but do not round factors.
        if (type.dtype == DType::f32) {
          EXPECT_EQ(std::ranges::all_of(all, is_flash), type.tf32) << op;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuFlash,
                         ::testing::Values(FlashType{DType::f16}, FlashType{DType::bf16},
                                           FlashType{DType::f32}, FlashType{DType::f32, true}),
                         [](const auto& instance) { return name_of(instance.param); });

/// CDNA3's units for tf32, on a device that has CDNA's for f32: two of these multiply the same elements.
class GpuFlashByHalves : public ::testing::Test {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    for (const MatrixUnit& unit : matrix_units(GpuTarget::hip, "gfx942"))
      if (unit.tf32) units_.push_back(unit);
    for (FlashDevice& on : devices_for(FlashType{DType::f32}))
      if (on.traits.matrix_units.front().form == MatrixUnit::Form::mfma) devices_.push_back(on);
    if (devices_.empty()) GTEST_SKIP() << "no device here has CDNA's units";
  }

  void check(const FlashCase& c, const Ints& strides = {}) {
    for (FlashDevice& on : devices_) {
      for (const MatrixUnit& unit : units_) {
        on.traits.matrix_units = {&unit, 1};
        on.change = [&](GpuLaunch& launch) { use_halves(unit, launch); };
        check_flash(on, {DType::f32, true}, c, strides);
      }
    }
  }

 private:
  static void use_halves(const MatrixUnit& unit, GpuLaunch& launch) {
    const std::string own = multiply_add_text(unit);
    const size_t at = launch.source.find(own);
    ASSERT_NE(at, std::string::npos);
    const std::string half = fmt::format("__builtin_amdgcn_mfma_f32_{0}x{0}x{1}f32", unit.m, unit.k / 2);
    launch.source.replace(at, own.size(),
                          fmt::format("DEVICE void MULTIPLY_ADD(f32x{0} &c, u32x2 a, u32x2 b) {{\n"
                                      "  c = {1}(F32_OF_BITS(a[0]), F32_OF_BITS(b[0]), c, 0, 0, 0);\n"
                                      "  c = {1}(F32_OF_BITS(a[1]), F32_OF_BITS(b[1]), c, 0, 0, 0);\n"
                                      "}}\n",
                                      unit.c.elements, half));
  }

  std::vector<MatrixUnit> units_;
  std::vector<FlashDevice> devices_;
};

TEST_F(GpuFlashByHalves, OddLengths) { check({{2}, 37, 70, 64, 64, false, false, 0, false}); }

TEST_F(GpuFlashByHalves, OtherFeatures) { check({{}, 20, 40, 7, 35}); }

TEST_F(GpuFlashByHalves, CausalAndMasked) {
  check({{}, 40, 170, 32, 32, true});
  check({{}, 33, 40, 32, 32, true, true});
}

TEST_F(GpuFlashByHalves, Strides) { check({{2, 2}, 30, 30, 6, 6}, {30 * 37, 6, 37, 1}); }

}  // namespace
}  // namespace athanor::testing
