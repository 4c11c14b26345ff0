// The template of grouped_matmul and its gradient by the matrices.
#include <functional>

#include "gpu_kernels.h"

namespace athanor::testing {
namespace {

void check_groups(DType dtype, int64_t rows, int64_t inner, int64_t columns, const std::vector<double>& ends,
                  bool turned = false) {
  const double tolerance = dtype == DType::f32 ? 2e-5 : 4 * tolerance_of(dtype);
  const auto groups = static_cast<int64_t>(ends.size());
  const TestOperand end = make_value(DType::i64, {groups}, ends, {}, turned ? Ints{3} : Ints{});
  const auto matrix = [&](const Shape& shape, unsigned seed) {
    return view(dtype, shape, seed, turned ? Ints{1, shape[0] + 3} : Ints{});
  };
  const TestOperand x = matrix({rows, inner}, 1), dy = matrix({rows, columns}, 3),
                    w = view(dtype, {groups, inner, columns}, 2,
                             turned ? Ints{inner * columns, 1, inner} : Ints{});
  check_candidates("grouped_matmul", {}, {x, w, end}, {rows, columns}, tolerance);
  check_candidates("grouped_matmul_weight_grad", {}, {x, dy, end}, {groups, inner, columns}, tolerance);
}

// Each call runs the next candidate, of tiles for CPUs and for GPUs.
TEST(GpuGroupedMatmul, UnequalGroups) {
  ATHANOR_NEEDS_GPU();
  for (int i = 0; i < (is_reduced() ? 1 : 4); ++i) {
    check_groups(DType::f32, 150, 21, 70, {0, 3, 3, 140, 141, 150});
    check_groups(DType::f32, 150, 21, 70, {0, 64, 64, 128, 131}, true);
  }
  check_groups(DType::f32, 9, 33, 5, {9});
  check_groups(DType::f32, 40, 3, 9, {0, 0, 0});  // only rows behind the last end
  check_groups(DType::f32, 3, 2, 1, {0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3});
}

TEST(GpuGroupedMatmul, OtherTypes) {
  ATHANOR_NEEDS_GPU();
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64})
    check_groups(dtype, 50, 19, 37, {7, 7, 40, 48}, dtype == DType::bf16);
}

// Every slot of a tile finds its group: many groups of every length from 0 to 66, in another order.
TEST(GpuGroupedMatmul, EveryLengthOfAGroup) {
  ATHANOR_NEEDS_GPU();
  std::vector<double> ends;
  double end = 0;
  for (int i = 0; i < 67; ++i) ends.push_back(end += i * 29 % 67);
  const auto rows = static_cast<int64_t>(end) + 5;
  for (int i = 0; i < (is_reduced() ? 1 : 4); ++i) check_groups(DType::f32, rows, 3, 2, ends);
}

bool by_tiles(const GpuCandidate& candidate) { return candidate.parameters.contains("tile_k"); }

struct TiledGroups {
  int64_t rows, inner, columns;
  std::vector<double> ends;
  bool x_turned = false, w_turned = false;
  int64_t apart = 1;  // of ends
  Epilogue epilogue = {};
};

/// A number for each row.
Shape rows_of(const Shape& shape) {
  Ints rows = shape.to_ints();
  rows.back() = 1;
  return Shape(rows);
}

/// Checks the tile engine's candidates, and returns how many there were.
size_t check_tiles(gpu::GpuDevice& device, DType dtype, bool gradient, const TiledGroups& g) {
  const auto groups = static_cast<int64_t>(g.ends.size());
  const auto matrix = [&](const Shape& shape, unsigned seed) {
    return view(dtype, shape, seed, g.x_turned ? Ints{1, shape[0] + 3} : Ints{});
  };
  const TestOperand w = view(dtype, {groups, g.inner, g.columns}, 2,
                             g.w_turned ? Ints{g.inner * g.columns, 1, g.inner} : Ints{});
  std::vector<TestOperand> inputs{matrix({g.rows, g.inner}, 1), gradient ? matrix({g.rows, g.columns}, 3) : w,
                                  make_value(DType::i64, {groups}, g.ends, {}, Ints{g.apart})};
  const Op& op = find_op(gradient ? "grouped_matmul_weight_grad" : "grouped_matmul");
  const Shape shape = gradient ? Shape{groups, g.inner, g.columns} : Shape{g.rows, g.columns};
  if (g.epilogue.bias || g.epilogue.chain) inputs.push_back(view(dtype, {g.columns}, 4));
  if (g.epilogue.rows) inputs.push_back(view(dtype, rows_of(shape), 5));
  if (g.epilogue.gate) inputs.push_back(view(dtype, shape, 5));
  if (g.epilogue.chain) inputs.push_back(view(DType::f32, {1}, 5)), inputs.push_back(view(dtype, shape, 6));
  const KernelRequest request = request_of(op, {}, inputs, dtype, shape, {}, g.epilogue);
  std::vector<GpuCandidate> candidates = candidates_for(request, traits_of(device));
  EXPECT_LE(candidates.size(), 8U) << "each is compiled and timed: " << request.key();
  // With an epilogue, others are products with a loop behind.
  if (!request.has_epilogue()) std::erase_if(candidates, std::not_fn(by_tiles));
  for (const GpuCandidate& one : candidates)
    EXPECT_NE(by_tiles(one), one.name.ends_with(" and a loop")) << one.name;
  std::vector<athanor::testing::Run> runs;
  for (const GpuCandidate& one : reduced(std::move(candidates)))
    runs.push_back({one.name, run_on(device, one, inputs, request.output())});
  expect_all_near(runs, reference_of(request, inputs), dtype == DType::f32 ? 1e-4 : 8 * tolerance_of(dtype),
                  request.key());
  return runs.size();
}

// The groups cut the tiles' edges and, of the first size, so do K and N. Rows of the second are read 16 bytes
// at a time.
TEST(GpuGroupedMatmul, ByTiles) {
  ATHANOR_NEEDS_GPU();
  size_t tried = 0;
  for (const DeviceInfo& info : gpu_devices())
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32})
      for (const Ints& sizes : {Ints{75, 140}, Ints{96, 128}})
        for (const bool gradient : {false, true})
          for (const auto& [x_turned, w_turned] : {std::pair{false, false}, {false, true}, {true, true}})
            tried += check_tiles(gpu::gpu_device(info.device), dtype, gradient,
                                 {230, sizes[0], sizes[1], {3, 3, 195, 221}, x_turned, w_turned});
  if (tried == 0) GTEST_SKIP() << "no device here multiplies by tiles";
}

// Many groups of every length, one, and only rows behind the last end.
TEST(GpuGroupedMatmul, SlotsOfTiles) {
  ATHANOR_NEEDS_GPU();
  std::vector<double> many;
  for (int i = 0; i < 37; ++i) many.push_back((many.empty() ? 0 : many.back()) + i * 29 % 67);
  size_t tried = 0;
  for (const DeviceInfo& info : gpu_devices())
    for (const bool gradient : {false, true})
      for (const std::vector<double>& ends : {many, {40}, {0, 0, 0}})
        tried += check_tiles(gpu::gpu_device(info.device), DType::f32, gradient,
                             {.rows = static_cast<int64_t>(ends.back()) + 5,
                              .inner = 24,
                              .columns = 40,
                              .ends = ends,
                              .apart = 3});
  if (tried == 0) GTEST_SKIP() << "no device here multiplies by tiles";
}

// What becomes of rows behind the last end, too: of 0.
TEST(GpuGroupedMatmul, Epilogues) {
  ATHANOR_NEEDS_GPU();
  for (const DeviceInfo& info : gpu_devices())
    for (const DType dtype : {DType::f16, DType::f32})
      for (const bool gradient : {false, true})
        for (const Epilogue& epilogue :
             {Epilogue{.bias = true, .activation = "sigmoid", .gate = true}, {.chain = true}, {.rows = true}})
          for (const int64_t columns : {75, 128})
            EXPECT_GT(check_tiles(gpu::gpu_device(info.device), dtype, gradient,
                                  {.rows = 230,
                                   .inner = 40,
                                   .columns = columns,
                                   .ends = {3, 3, 195, 221},
                                   .epilogue = epilogue}),
                      0U);
}

// Nothing beyond the result is written, and nothing beyond the inputs is read.
TEST(GpuGroupedMatmul, BadEndsStayInMemory) {
  ATHANOR_NEEDS_GPU();
  const TestOperand x = view(DType::f32, {40, 24}, 1), w = view(DType::f32, {4, 24, 40}, 2),
                    dy = view(DType::f32, {40, 40}, 3);
  const auto expect_error = [&](gpu::GpuDevice& device, const GpuCandidate& candidate,
                                const std::vector<TestOperand>& inputs, const OperandDesc& output) {
    try {
      run_on(device, candidate, inputs, output);
      ADD_FAILURE() << candidate.name << ": no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::value) << error.what();
    }
  };
  for (const auto& ends : std::vector<std::vector<double>>{{30, 10, 35, 2},
                                                           {-50, -3, -2, -1},
                                                           {1e9, 3e9, 1e12, 9e15},
                                                           {40, 41, 39, 99},
                                                           {-9e15, 9e15, 5, 40}})
    for (const bool gradient : {false, true}) {
      const std::vector<TestOperand> inputs{x, gradient ? dy : w, make_value(DType::i64, {4}, ends)};
      const Op& op = find_op(gradient ? "grouped_matmul_weight_grad" : "grouped_matmul");
      const KernelRequest request =
          request_of(op, {}, inputs, DType::f32, gradient ? Shape{4, 24, 40} : Shape{40, 40});
      for (const DeviceInfo& info : gpu_devices()) {
        gpu::GpuDevice& device = gpu::gpu_device(info.device);
        GpuTraits fine = traits_of(device);
        fine.grain = &fine_grain;
        // The first of tiles, and the first that is not.
        for (const GpuTraits& traits : {device.facts().traits, fine})
          for (const bool tiled : {false, true}) {
            const auto all = candidates_for(request, traits);
            const auto one = std::ranges::find(all, tiled, by_tiles);
            if (one != all.end()) expect_error(device, *one, inputs, request.output());
          }
      }
    }
}

}  // namespace
}  // namespace athanor::testing
