// Attention by OpenCL's matrix units, on a processor.
#include "flash_epilogues.h"
#include "opencl_models.h"

namespace athanor::testing {
namespace {

class OpenClFlash : public OpenClModels, public ::testing::WithParamInterface<std::pair<int, DType>> {
 protected:
  void check(const FlashCase& c, const Ints& strides = {}) const {
    on_model([&](const FlashDevice& on, DType dtype) { check_flash(on, {dtype}, c, strides); });
  }
  void on_model(const std::function<void(const FlashDevice&, DType)>& body) const {
    const auto [lanes, dtype] = GetParam();
    const std::vector<MatrixUnit> units = dpas_units(lanes);
    const MatrixUnit& unit = *std::ranges::find(units, dtype, &MatrixUnit::input);
    GpuTraits with_unit = traits();
    with_unit.local_bytes = 48 * 1024;
    if (device_->facts().traits.local_bytes < 64 * 1024) GTEST_SKIP() << "there is too little local memory";
    with_unit.matrix_units = {&unit, 1};
    const auto change = [&](GpuLaunch& launch) {
      if (launch.name == "flash_attention") add_model(unit, launch);
    };
    body({device_, with_unit, change, true}, dtype);
  }
};

TEST_P(OpenClFlash, WholeBlocks) { check({{}, 64, 64, 32, 32}); }

TEST_P(OpenClFlash, OddLengths) { check({{2}, 37, 70, 32, 32, false, false, 0, false}); }

TEST_P(OpenClFlash, OtherFeatures) { check({{}, 20, 40, 7, 35}); }

TEST_P(OpenClFlash, CausalAndMasked) {
  check({{}, 40, 130, 16, 16, true});
  check({{}, 33, 40, 16, 16, true, true});
}

TEST_P(OpenClFlash, QueriesThatSeeNoKey) {
  FlashCase c{{}, 70, 20, 16, 16, true};
  c.with_lse = true;
  check(c);
}

TEST_P(OpenClFlash, GradientsOfSeveralChunks) { check({{2}, 70, 150, 32, 32, true, false, 0, true, 1}); }

TEST_P(OpenClFlash, Epilogues) {
  const auto one = [](std::vector<GpuCandidate> all) {
    std::erase_if(all, [](const GpuCandidate& candidate) {
      return !is_flash(candidate) ||
             candidate.launches.front().source.find("if (wave < ") != std::string::npos;
    });
    return next_of(std::move(all));
  };
  FlashCase heads{{1, 2}, 37, 40, 16, 16, true};
  heads.with_lse = true;
  on_model([&](const FlashDevice& on, DType dtype) {
    check_chains(on, {dtype}, heads, {0, 2, 1, 3}, one);
    check_chains(on, {dtype}, {{}, 20, 40, 7, 35}, {}, one);
    check_computed(on, {dtype}, {{1, 2}, 37, 33, 32, 16}, DType::f32, one);
  });
}

TEST_P(OpenClFlash, Strides) { check({{2, 2}, 20, 20, 16, 16}, {20 * 96, 16, 96, 1}); }

// It is not known how well drivers compile units.
TEST(OpenClFlashPoints, LanesAreTimedBesideUnits) {
  const std::vector<MatrixUnit> units = dpas_units(8);
  GpuTraits traits;
  traits.local_bytes = 64 * 1024;
  traits.compute_units = 32;
  traits.registers = true;
  traits.lanes_lead = false;
  traits.grain = &fine_grain;
  traits.matrix_units = units;
  const auto desc = [](DType dtype, const Shape& shape) {
    return OperandDesc{dtype, shape, {}, contiguous_strides(shape)};
  };
  const OperandDesc x = desc(DType::f16, {8, 12, 1024, 64}), rows = desc(DType::f32, {8, 12, 1024});
  const Attrs attrs = {{"causal", true}, {"scale", 0.125}};
  const auto all =
      candidates_for({&find_op("scaled_dot_product_attention"), attrs, {x, x, x}, {x}, {}}, traits);
  const GpuLaunch& first = all.front().launches.front();
  EXPECT_TRUE(is_flash(all.front()));
  EXPECT_EQ(first.compile_options, "-cl-intel-256-GRF-per-thread");
  EXPECT_EQ(first.source.find("UNROLL for (int j"), std::string::npos) << "Intel's compiler keeps such loops";
  EXPECT_FALSE(std::ranges::all_of(all, is_flash));

  for (const int64_t d : {16, 32, 64}) {
    const OperandDesc y = desc(DType::f16, {8, 12, 1024, d});
    KernelRequest gradients{&find_op("attention_grad_q"), attrs, {y, y, y, y, rows, rows}, {y, y, y}, {}};
    gradients.with = {&find_op("attention_grad_k"), &find_op("attention_grad_v")};
    const auto found = candidates_for(gradients, traits);
    EXPECT_LE(found.size(), 8U) << "each is compiled and timed";
    EXPECT_TRUE(is_flash(found.front()) && found.front().parameters.contains("second_own_rows"));
    for (const bool in_parts : {false, true})
      for (const bool by_units : {false, true})
        EXPECT_TRUE(std::ranges::any_of(found, [&](const GpuCandidate& one) {
          return one.parameters.contains("parts") == in_parts && is_flash(one) == by_units;
        }));
  }
}

INSTANTIATE_TEST_SUITE_P(Lanes, OpenClFlash,
                         ::testing::Values(std::pair(8, DType::f16), std::pair(16, DType::bf16)),
                         [](const auto& instance) { return fmt::format("{}", instance.param.first); });

}  // namespace
}  // namespace athanor::testing
