// Products and convolutions whose groups divide all tiles' steps along k evenly (stream-K): tiles of a single
// group, tiles of two and of several groups, and tiles that are not divided.
#include "athanor/kernels/gpu/gpu_access.h"
#include "athanor/kernels/gpu/templates/tile_gemm.h"
#include "athanor/kernels/gpu/templates/tile_stream.h"
#include "athanor/ops/conv_problem.h"
#include "gpu_kernels.h"

namespace athanor::testing {
namespace {

using gpu::TilePoint, gpu::TileProblem, gpu::TileStream;

TEST(TileStream, EachStepBelongsToOneGroup) {
  for (const auto& [tiles, steps, at_once] : std::vector<std::array<int64_t, 3>>{
           {5, 7, 4}, {3, 10, 8}, {9, 4, 2}, {40, 3, 16}, {1, 9, 4}, {8, 5, 4}}) {
    const TileStream stream(tiles, steps, at_once);
    EXPECT_LE(stream.groups, at_once);
    EXPECT_GE(stream.share * stream.groups, stream.divided * steps);
    EXPECT_LT(stream.share * (stream.groups - 1), stream.divided * steps) << "the last group has none";
    EXPECT_EQ((stream.tiles - stream.divided) % at_once, 0) << "whole rounds";
    if (tiles >= at_once) {
      EXPECT_GE(stream.share, steps);
      EXPECT_LE(stream.share, 2 * steps);
    }
  }
  EXPECT_FALSE(TileStream(8, 5, 4).shares());
  EXPECT_TRUE(TileStream(9, 5, 4).shares());
}

KernelRequest product_of(DType dtype, int64_t m, int64_t n, int64_t k) {
  const auto operand = [&](const Shape& shape) {
    return OperandDesc{dtype, shape, {}, contiguous_strides(shape)};
  };
  return {&find_op("batch_matmul"), {}, {operand({1, m, k}), operand({1, k, n})}, {operand({1, m, n})}, {}};
}

/// Whether a stream is among the points for a product.
bool streams(DType dtype, int64_t m, int64_t n, int64_t k, const GpuTraits& traits) {
  return std::ranges::any_of(tile_points(TileProblem(gpu::GemmProblem(product_of(dtype, m, n, k))), traits),
                             [](const TilePoint& point) { return point.streams > 0; });
}

// Units for f32 are 1 to 2 times as fast as lanes, others up to 16 times. Moving parts costs as much more.
TEST(TileStream, IsWorthTimingForUnitsOfAnyRate) {
  for (const std::string_view architecture : {"gfx908", "gfx90a:sramecc+:xnack-", "gfx942", "sm_80", "sm_86"})
    for (const DType dtype : {DType::f32, DType::f16}) {
      GpuTraits traits;
      const GpuTarget target = architecture.starts_with("gfx") ? GpuTarget::hip : GpuTarget::cuda;
      add_architecture(traits, target, architecture);
      set_driver_facts(traits, target, architecture);
      ASSERT_NE(traits.sheet, nullptr) << architecture;
      traits.compute_units = 64;
      EXPECT_FALSE(streams(dtype, 4096, 4096, 4096, traits)) << architecture;
      bool any = false;
      for (const int64_t side : {1280, 1792})
        for (const int64_t k : {2048, 8192}) any = any || streams(dtype, side, side, k, traits);
      EXPECT_TRUE(any) << architecture << ", " << to_string(dtype);
    }
}

class GpuStream : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    for (const DeviceInfo& info : gpu_devices())
      if (!gpu::gpu_device(info.device).facts().traits.lane_units.empty()) return;
    GTEST_SKIP() << "no device here has the tile engine";
  }

  /// With each number of groups, the product is right, and has the same bits each time.
  static void check(const std::vector<TestOperand>& inputs, const std::vector<int64_t>& groups,
                    const Epilogue& epilogue = {}) {
    const DType dtype = inputs[0].desc.dtype;
    const Shape shape{inputs[0].desc.shape[0], inputs[0].desc.shape[1], inputs[1].desc.shape[2]};
    const KernelRequest request = request_of(find_op("batch_matmul"), {}, inputs, dtype, shape, {}, epilogue);
    const std::vector<double> want = reference_of(request, inputs);
    const TileProblem problem{gpu::GemmProblem(request)};
    for (const DeviceInfo& info : gpu_devices()) {
      gpu::GpuDevice& device = gpu::gpu_device(info.device);
      const GpuTraits& traits = device.facts().traits;
      std::vector<athanor::testing::Run> runs;
      std::vector<TilePoint> points = tile_points(problem, traits);
      // Sums of dot products are streamed in small tiles only (TileKernel::can_stream).
      if (!points.empty()) {
        points.push_back(points.front());
        points.back().m = points.back().n = 64;
        points.back().waves_m = points.back().waves_n = 2;
      }
      for (TilePoint point : points) {
        if (point.unit->reads_local()) continue;
        point.splits = 1;
        for (const int64_t number : groups) {
          point.streams = number;
          if (!fits(problem, point, traits)) continue;
          const GpuCandidate candidate = gpu::tile_candidate({problem}, {point}, traits);
          runs.push_back({candidate.name, run_on(device, candidate, inputs, request.output())});
          EXPECT_EQ(run_on(device, candidate, inputs, request.output()), runs.back().values)
              << candidate.name;
        }
        if (!runs.empty()) break;
      }
      EXPECT_FALSE(runs.empty()) << request.key();
      expect_all_near(runs, want, dtype == DType::f32 ? 2e-5 : 2e-2, request.key());
    }
  }
};

TEST_P(GpuStream, WholeTiles) {
  check({view(GetParam(), {1, 256, 192}, 1), view(GetParam(), {1, 192, 384}, 2)}, {5});
}

TEST_P(GpuStream, OddShapes) {
  check({view(GetParam(), {1, 131, 167}, 1), view(GetParam(), {1, 167, 137}, 2)}, {3, 7});
  check({view(GetParam(), {3, 20, 140}, 1), view(GetParam(), {3, 140, 24}, 2)}, {2, 8});
}

TEST_P(GpuStream, Epilogues) {
  for (const Ints& strides : {Ints{4000, 100, 1}, Ints{4000, 1, 40}})
    check({view(GetParam(), {2, 40, 100}, 1, strides), view(GetParam(), {2, 100, 37}, 2),
           view(GetParam(), {37}, 3), view(DType::f32, {1}, 4), view(GetParam(), {2, 40, 37}, 5)},
          {3}, {.chain = true});
  check({view(GetParam(), {1, 200, 160}, 1), view(GetParam(), {1, 160, 136}, 2), view(GetParam(), {136}, 3)},
        {3, 5}, {.bias = true, .activation = "relu"});
}

// If memory traffic cost nothing, a last round with few groups would be reason enough.
TEST_P(GpuStream, Convolutions) {
  const int64_t channels = GetParam() == DType::f32 ? 24 : 64;
  const Shape x{2, channels, 17, 19}, w{72, channels, 3, 3};
  const Attrs attrs = conv_attrs({.padding = 1});
  const std::vector<TestOperand> inputs = {view(GetParam(), x, 1), view(GetParam(), w, 2),
                                           view(GetParam(), {w[0]}, 3)};
  const KernelRequest request =
      request_of(find_op("conv2d"), attrs, inputs, GetParam(), ConvProblem(x, w, attrs).y, {},
                 {.bias = true, .activation = "relu"});
  const std::vector<double> want = reference_of(request, inputs);
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    GpuTraits traits = device.facts().traits;
    Grain grain = *traits.grain;
    grain.flops_per_byte = 1e-3;
    traits.grain = &grain;
    traits.sheet = nullptr;
    std::vector<athanor::testing::Run> runs;
    for (traits.compute_units = 2; traits.compute_units < 24 && runs.empty(); ++traits.compute_units)
      for (const GpuCandidate& candidate : candidates_for(request, traits))
        if (runs.empty() && candidate.parameters.contains("streams"))
          runs.push_back({candidate.name, run_on(device, candidate, inputs, request.output())});
    if (runs.empty()) GTEST_SKIP() << "no stream of this convolution is estimated to gain a tenth here";
    expect_all_near(runs, want, GetParam() == DType::f32 ? 2e-5 : 2e-2, request.key());
  }
}

// They are offered if they divide a round that is poorly filled, but not if it is full. Products of this size
// have large tiles, and sums of dot products are not streamed in those.
TEST_P(GpuStream, Points) {
  for (const DeviceInfo& info : gpu_devices()) {
    GpuTraits traits = gpu::gpu_device(info.device).facts().traits;
    traits.compute_units = 64;
    EXPECT_FALSE(streams(GetParam(), 4096, 4096, 4096, traits));
    bool any = false;
    for (const int64_t side : {1280, 1536, 1792, 2560})
      for (const int64_t k : {2048, 8192}) any = any || streams(GetParam(), side, side, k, traits);
    const auto best =
        tile_points(TileProblem(gpu::GemmProblem(product_of(GetParam(), 1280, 1280, 2048))), traits);
    const bool by_dots = !best.empty() && best.front().unit->form == MatrixUnit::Form::dot;
    EXPECT_EQ(any, !by_dots) << to_string(info.device);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuStream, ::testing::Values(DType::f16, DType::bf16, DType::f32),
                         [](const auto& instance) { return std::string(to_string(instance.param)); });

}  // namespace
}  // namespace athanor::testing
