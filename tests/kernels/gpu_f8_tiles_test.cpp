// Products of 8-bit floats by units for wider ones: lanes widen elements on their way to local memory.
#include "athanor/kernels/gpu/gpu_access.h"
#include "athanor/kernels/gpu/templates/tile_gemm.h"
#include "f8_codes.h"

namespace athanor::testing {
namespace {

class GpuF8Tiles : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    for (const MatrixUnit& unit : traits_of(gpu_devices().front().device).matrix_units)
      if (size_of(unit.input) == 2) units_.push_back(unit);
    for (const MatrixUnit& unit : traits_of(gpu_devices().front().device).lane_units)
      if (unit.input == DType::f16) units_.push_back(unit);
    if (units().empty()) GTEST_SKIP() << "no device here multiplies 16-bit floats by units";
  }

  /// Those that the products use, if the device has none of the type.
  std::vector<const MatrixUnit*> units() const {
    GpuTraits traits;
    traits.matrix_units = units_;
    std::vector<const MatrixUnit*> found = gpu::tile_units(GetParam(), false, traits);
    std::erase_if(found, &MatrixUnit::reads_local);
    return found;
  }

  /// Checks the kernels of each unit for a product of matrices.
  void check(const std::vector<TestOperand>& inputs, double tolerance = tolerance_of(DType::f32),
             const Epilogue& epilogue = {}, int groups = 1) const {
    const Shape shape{inputs[0].desc.shape[0], inputs[0].desc.shape[1], inputs[1].desc.shape[2]};
    const KernelRequest request =
        request_of(find_op("wide_batch_matmul"), {}, inputs, DType::f32, shape, {}, epilogue);
    gpu::GpuDevice& device = gpu::gpu_device(gpu_devices().front().device);
    GpuTraits traits = traits_of(device);
    traits.compute_units = groups;
    std::vector<athanor::testing::Run> runs;
    for (const MatrixUnit* unit : units()) {
      traits.matrix_units = {unit, 1};
      std::vector<GpuCandidate> candidates = candidates_for(request, traits);
      std::erase_if(candidates, [](const GpuCandidate& one) { return !one.parameters.contains("tile_m"); });
      EXPECT_FALSE(candidates.empty()) << unit->name << ": " << request.key();
      for (GpuCandidate& one : reduced(std::move(candidates)))
        runs.push_back({one.name, run_on(device, one, inputs, request.output())});
    }
    expect_all_near(runs, reference_of(request, inputs), tolerance, request.key());
  }

  std::vector<MatrixUnit> units_;  // for 16-bit floats
};

TEST_P(GpuF8Tiles, EveryProductOfTwoCodes) {
  const EveryCode every;
  const int64_t codes = EveryCode::codes, k = EveryCode::k;
  const Shape of_rows{1, codes, k}, of_columns{1, k, codes};
  const auto matrix = [](const Shape& shape, const std::vector<uint8_t>& of, const Ints& strides = {}) {
    return matrix_of_codes(GetParam(), shape, of, strides);
  };
  check({matrix(of_rows, every.a), matrix(of_columns, every.b)}, 0);
  check({matrix(of_rows, every.a, {codes * k, 1, codes}), matrix(of_columns, every.b, {codes * k, 1, k})}, 0);
  // The other way round: B's codes by single steps.
  std::vector<uint8_t> a(every.a.size()), b(every.b.size());
  for (int64_t row = 0; row < codes; ++row)
    for (int64_t step = 0; step < k; ++step) {
      a[static_cast<size_t>(row * k + step)] = every.b[static_cast<size_t>(step * codes + row)];
      b[static_cast<size_t>(step * codes + row)] = every.a[static_cast<size_t>(row * k + step)];
    }
  check({matrix(of_rows, a), matrix(of_columns, b)}, 0);
}

TEST_P(GpuF8Tiles, Infinities) {
  if (GetParam() != DType::f8e5m2) GTEST_SKIP() << "f8e4m3 has none";
  std::vector<uint8_t> infinite(64 * 64, 0x7c), negative(64 * 64, 0xfc);
  const Shape shape{1, 64, 64};
  check({matrix_of_codes(GetParam(), shape, infinite), matrix_of_codes(GetParam(), shape, negative)}, 0);
}

TEST_P(GpuF8Tiles, OddShapesAndBatches) {
  for (const auto& [b, m, k, n] : std::vector<std::array<int64_t, 4>>{
           {1, 128, 128, 64}, {2, 13, 9, 31}, {1, 131, 67, 137}, {3, 40, 100, 36}})
    check({numbers_by_codes(GetParam(), {b, m, k}, 1), numbers_by_codes(GetParam(), {b, k, n}, 2)});
}

TEST_P(GpuF8Tiles, Strides) {
  const int64_t b = 2, m = 48, k = 80, n = 64;
  const Ints a_strides[] = {{m * k, 1, m}, {0, k, 1}, {2 * m * k, 2 * k, 2}, {m * 90, 90, 1}};
  const Ints b_strides[] = {{k * n, n, 1}, {k * n, 1, k}, {k * n * 3, n * 3, 3}, {k * 90, 90, 1}};
  for (size_t i = 0; i < std::size(a_strides); ++i)
    check({numbers_by_codes(GetParam(), {b, m, k}, 1, a_strides[i]),
           numbers_by_codes(GetParam(), {b, k, n}, 2, b_strides[i])});
}

TEST_P(GpuF8Tiles, SplitsAlongK) {
  check({numbers_by_codes(GetParam(), {1, 24, 1030}, 1), numbers_by_codes(GetParam(), {1, 1030, 20}, 2)},
        tolerance_of(DType::f32), {}, 4);
  check({numbers_by_codes(GetParam(), {2, 24, 1024}, 1),
         numbers_by_codes(GetParam(), {2, 1024, 32}, 2, {32768, 1, 1024})},
        tolerance_of(DType::f32), {}, 8);
}

TEST_P(GpuF8Tiles, Epilogues) {
  for (const int groups : {1, 8})
    check({numbers_by_codes(GetParam(), {2, 72, 656}, 1),
           numbers_by_codes(GetParam(), {2, 656, 136}, 2, {656 * 136, 1, 656}), view(DType::f32, {136}, 3),
           view(DType::f32, {1}, 4), view(DType::f32, {2, 72, 136}, 5)},
          tolerance_of(DType::f32), {.chain = true}, groups);
}

INSTANTIATE_TEST_SUITE_P(Types, GpuF8Tiles, ::testing::Values(DType::f8e4m3, DType::f8e5m2),
                         [](const auto& instance) { return std::string(to_string(instance.param)); });

// Units of the type itself come first; those that take subnormal f16 for 0 get no f8e5m2 as f16.
TEST(GpuF8Units, TakeEachTypeAsANarrowOne) {
  const auto names = [](GpuTarget target, std::string_view architecture, DType dtype) {
    GpuTraits traits;
    add_architecture(traits, target, architecture);
    std::string text;
    for (const MatrixUnit* unit : gpu::tile_units(dtype, false, traits))
      text += (text.empty() ? "" : " ") + std::string(to_string(unit->input));
    return text;
  };
  using enum DType;
  EXPECT_EQ(names(GpuTarget::hip, "gfx942", f8e4m3), "f8e4m3 f8e4m3");
  EXPECT_EQ(names(GpuTarget::hip, "gfx942", f8e5m2), "f16 f16");
  EXPECT_EQ(names(GpuTarget::hip, "gfx90a:sramecc+", f8e4m3), "f16 f16");
  EXPECT_EQ(names(GpuTarget::hip, "gfx90a", f8e5m2), "bf16 bf16");
  EXPECT_EQ(names(GpuTarget::hip, "gfx908", f8e5m2), "f16 f16");
  // Its pairs of f16 take two instructions, and are for attention.
  EXPECT_EQ(names(GpuTarget::hip, "gfx1010", f16), "f32");
  for (const DType dtype : {f8e4m3, f8e5m2}) {
    EXPECT_EQ(names(GpuTarget::hip, "gfx1030", dtype), "f16");
    EXPECT_EQ(names(GpuTarget::hip, "gfx1010", dtype), "");
    EXPECT_EQ(names(GpuTarget::hip, "gfx1201", dtype), to_string(dtype));
    EXPECT_EQ(names(GpuTarget::cuda, "sm_75", dtype), "f16");
    EXPECT_EQ(names(GpuTarget::cuda, "sm_89", dtype), to_string(dtype));
  }
}

}  // namespace
}  // namespace athanor::testing
