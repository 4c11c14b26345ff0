// The tile engine's kernels by OpenCL's matrix units, on a processor.
#include "athanor/backends/gpu/unit_trials.h"
#include "opencl_models.h"

namespace athanor::testing {
namespace {

class OpenClUnits : public OpenClModels, public ::testing::WithParamInterface<int> {};

TEST_P(OpenClUnits, MultiplyAsTheExtensionSays) {
  for (const MatrixUnit& unit : dpas_units(GetParam())) {
    const auto found = gpu::units_that_work(*device_, traits(), {&unit, 1},
                                            [&](GpuLaunch& launch) { add_model(unit, launch); });
    EXPECT_EQ(found.size(), 1U) << unit.instruction;
  }
}

TEST_P(OpenClUnits, AWrongDriverIsFoundOut) {
  const MatrixUnit unit = dpas_units(GetParam()).front();
  for (const int lost : {1, 8})
    EXPECT_TRUE(gpu::units_that_work(*device_, traits(), {&unit, 1}, [&](GpuLaunch& launch) {
                  add_model(unit, launch, lost);
                }).empty());
}

// Incomplete tiles, matrices along rows and columns, parts of K, sums of bytes.
TEST_P(OpenClUnits, MultiplyMatricesOfAllKinds) {
  int round = 0;
  for (const MatrixUnit& unit : dpas_units(GetParam()))
    for (const auto& [b, m, k, n] : std::vector<std::array<int64_t, 4>>{{2, 70, 72, 40}, {1, 40, 261, 33}}) {
      const bool bytes = unit.input == DType::i8;
      const Ints along_rows{m * k, 1, m}, along_columns{k * n, 1, k};
      const std::vector<TestOperand> inputs = {
          view(unit.input, {b, m, k}, 1, round % 2 == 0 ? Ints{} : along_rows),
          view(unit.input, {b, k, n}, 2, round / 2 % 2 == 0 ? Ints{} : along_columns)};
      const DType output = bytes ? DType::i32 : unit.input;
      const KernelRequest request =
          request_of(find_op(bytes ? "wide_batch_matmul" : "batch_matmul"), {}, inputs, output, {b, m, n});
      GpuTraits traits = OpenClUnits::traits();
      traits.compute_units = 1 + 3 * (round++ % 2);
      traits.matrix_units = {&unit, 1};
      std::vector<testing::Run> runs;
      for (GpuCandidate& candidate : gpu_candidates(request, traits)) {
        if (!candidate.parameters.contains("tile_m")) continue;
        GpuLaunch& product = candidate.launches.front();
        EXPECT_EQ(product.compile_options, "-cl-intel-256-GRF-per-thread");
        add_model(unit, product);
        runs.push_back({candidate.name, run_on(*device_, candidate, inputs, request.output())});
        break;
      }
      EXPECT_FALSE(runs.empty()) << unit.instruction;
      expect_all_near(runs, reference_of(request, inputs), bytes ? 0 : tolerance_of(unit.input),
                      request.key());
    }
}

// The extension's function is defined here, whether the driver has it or not.
TEST_F(OpenClModels, SumsOfFourProducts) {
  std::vector<MatrixUnit> units = opencl_units({.dots = true});
  std::erase_if(units, [](const MatrixUnit& unit) { return unit.form != MatrixUnit::Form::dot; });
  ASSERT_EQ(units.size(), 1U);
  const std::string function =
      "#undef UNROLL\n#define UNROLL\n"
      "DEVICE int dot_of_four(char4 a, char4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }\n"
      "#define dot_4x8packed_ss_int(a, b) dot_of_four(as_char4(a), as_char4(b))\n";
  const auto found = gpu::units_that_work(*device_, traits(), units, [&](GpuLaunch& launch) {
    launch.compile_options = "-cl-opt-disable";  // PoCL takes minutes
    launch.source = function + launch.source;
  });
  EXPECT_EQ(found.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Lanes, OpenClUnits, ::testing::Values(8, 16));

}  // namespace
}  // namespace athanor::testing
