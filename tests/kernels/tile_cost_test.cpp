// What the ranking of tiles knows of chips: their rates, and what small tiles wait for.
#include "athanor/kernels/gpu/templates/tile_cost.h"

#include "athanor/base/ceil_div.h"
#include "athanor/device/data_sheet.h"
#include "athanor/kernels/gpu/gpu_access.h"
#include "gpu_kernels.h"

namespace athanor::testing {
namespace {

using gpu::TilePoint, gpu::TileProblem;

GpuTraits traits_of_architecture(std::string_view architecture) {
  GpuTraits traits;
  const GpuTarget target = *target_of_architecture(architecture);
  add_architecture(traits, target, architecture);
  set_driver_facts(traits, target, architecture);
  return traits;
}

int flops_of(std::span<const MatrixUnit> units, DType input) {
  const auto unit = std::ranges::find(units, input, &MatrixUnit::input);
  return unit == units.end() ? 0 : unit->flops_cycle;
}

// A unit's peak is its rate times its clock; so the peaks of lanes and units give the same clock.
TEST(TileCost, RatesAreThoseOfDataSheets) {
  for (const char* architecture :
       {"gfx803", "gfx900", "gfx906", "gfx1010", "gfx1012", "gfx1030", "sm_60", "sm_70", "sm_75", "sm_80"}) {
    const GpuTraits traits = traits_of_architecture(architecture);
    ASSERT_NE(traits.sheet, nullptr) << architecture;
    const int lanes = flops_of(traits.lane_units, DType::f32);
    ASSERT_GT(lanes, 0) << architecture;
    const double clock = *traits.sheet->f32_tflops / traits.sheet->compute_units / lanes * 1e6;  // MHz
    EXPECT_GT(clock, 1300) << architecture;
    EXPECT_LT(clock, 2300) << architecture;
    if (const int units = flops_of(traits.matrix_units, DType::f16); units > 0) {
      EXPECT_NEAR(*traits.sheet->f16_matrix_tflops / traits.sheet->compute_units / units * 1e6, clock, 1)
          << architecture;
    }
    if (const int dots = flops_of(traits.lane_units, DType::f16); dots > lanes) {
      EXPECT_NEAR(*traits.sheet->f16_vector_tflops / traits.sheet->compute_units / dots * 1e6, clock, 10)
          << architecture;
    }
  }
  // Pairs by an FMA for each product.
  const auto mixed = lane_units(GpuTarget::hip, "gfx1010");
  EXPECT_EQ(flops_of(mixed, DType::f16), flops_of(mixed, DType::f32));
  // 128 lanes, or an instruction of two FMA; and OpenCL, where nobody says which chip it is.
  for (const char* architecture : {"gfx1100", "gfx1201", "sm_61", "sm_86", "sm_89", "sm_90", "sm_120"})
    EXPECT_EQ(flops_of(traits_of_architecture(architecture).lane_units, DType::f32), 0) << architecture;
  EXPECT_EQ(flops_of(lane_units(GpuTarget::opencl, ""), DType::f32), 0);
}

KernelRequest products_of(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k) {
  const auto operand = [&](const Shape& shape) {
    return OperandDesc{dtype, shape, {}, contiguous_strides(shape)};
  };
  return {&find_op("batch_matmul"),
          {},
          {operand({batch, m, k}), operand({batch, k, n})},
          {operand({batch, m, n})},
          {}};
}

TilePoint first_guess(std::string_view architecture, DType dtype, int64_t batch, int64_t m, int64_t n,
                      int64_t k) {
  const TileProblem problem{gpu::GemmProblem(products_of(dtype, batch, m, n, k))};
  return tile_points(problem, traits_of_architecture(architecture)).front();
}

// By machine code 21.5 us for 32 x 64, and 17 for 64 x 64 and more.
TEST(TileCost, SmallTilesOfFastUnitsWaitForLocalMemory) {
  for (const char* architecture : {"sm_80", "sm_100"}) {
    const TilePoint first = first_guess(architecture, DType::f16, 1, 1024, 1024, 1024);
    EXPECT_GE(first.m * first.n, 64 * 64) << architecture;
  }
}

// 64 tiles of 128 x 128 leave 44 of an A100's 108 units without work: 27.9 us instead of 19.2.
TEST(TileCost, SmallTilesOf64LanesMultiplyAsFast) {
  const TilePoint first = first_guess("sm_80", DType::f32, 64, 128, 128, 128);
  EXPECT_LT(first.m * first.n, 128 * 128);
}

// An MI60 has four SIMDs with waves of 64 in each of 64 units. 128 groups of one wave leave half of them
// idle.
TEST(TileCost, FewItemsLeaveSimdsOfWideWavesIdle) {
  const TilePoint first = first_guess("gfx906", DType::f16, 1, 8192, 64, 1024);
  const int64_t groups = ceil_div(8192, first.m) * ceil_div(64, first.n) * first.splits;
  EXPECT_GE(groups * first.items(), int64_t{64} * 4 * 64);
}

}  // namespace
}  // namespace athanor::testing
