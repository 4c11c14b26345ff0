// Chains of loops over the same rows, against a plain interpreter that runs the loops one after the other.
#include "athanor/kernels/row_chain.h"
#include "tests/backends/gpu_loops.h"
#include "tests/backends/norm_loops.h"
#include "tests/support/gpu_devices.h"

namespace athanor::testing {
namespace {

std::vector<GpuTraits> traits_of(const gpu::GpuDevice& device) {
  GpuTraits fine = device.facts().traits;
  fine.grain = &fine_grain;
  fine.compute_units = 3;
  GpuTraits small = with_vectors(fine);
  small.max_group_size = std::min<int64_t>(48, fine.max_group_size);  // not a power of two
  GpuTraits one = with_vectors(fine);
  one.compute_units = 1;  // so that a group has several rows, one after the other
  return {fine, with_vectors(fine), small, one};
}

void check_chain(const std::vector<LoopProgram>& loops, double tolerance = 1e-3) {
  std::mt19937 rng(5);
  const Memory start = memory_for_all(loops, rng);
  Memory want = start;
  for (const LoopProgram& p : loops) reference::Interpreter(p, want.addresses()).run();
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    for (const GpuTraits& traits : traits_of(device)) {
      // Small groups have no room for the sums of long rows.
      if (traits.max_group_size < 64 && !gpu_takes_row_chain(loops, traits)) continue;
      ASSERT_TRUE(gpu_takes_row_chain(loops, traits)) << traits.compute_units << traits.registers;
      const GpuCandidate chain = gpu_row_chain(loops, traits);
      const Memory got = run_on(device, chain, start), again = run_on(device, chain, start);
      EXPECT_EQ(got.data, again.data);
      for (const LoopProgram& p : loops) expect_close(p, got, want, tolerance, chain.launches.front().source);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(GpuLoopChains, ANormAndItsGradientsMeanTheSame) {
  ATHANOR_NEEDS_GPU();
  const Ints spaces[] = {{5, 7}, {2, 40}, {3, 11, 33}, {37, 256}, {2, 9, 100}, {200, 24}, {6, 768}};
  int narrow = 0;
  for (const Ints& space : spaces) {
    SCOPED_TRACE(::testing::PrintToString(space));
    check_chain(norm_loops(space, ++narrow % 2 == 0 ? DType::bf16 : DType::f32));
    if (HasFatalFailure()) return;
  }
}

TEST(GpuLoopChains, OnlyForwardAndLongRows) {
  ATHANOR_NEEDS_GPU();
  for (const Ints& space : {Ints{7, 5003}, Ints{4, 17000}, Ints{300, 3}}) {
    auto loops = norm_loops(space, DType::bf16);
    loops.resize(3);
    check_chain(loops, 4e-3);
  }
}

TEST(GpuLoopChains, LargestExponentsAndSumOfRows) {
  ATHANOR_NEEDS_GPU();
  // A softmax: its maximum, its sum, and its elements, of rows with gaps behind them.
  for (const int64_t row : {10, 128, 333}) {
    const Ints space{13, row}, whole{row + 7, 1}, one{1, 0};
    Builder largest(space, {false, true});
    largest.store(largest.reduce(Prim::reduce_max, largest.load(0, DType::f32, whole), DType::f32), 1,
                  DType::f32, one);
    Builder total(space, {false, true});
    const auto power = [&](Builder& b) {
      return b.op(Prim::exp, DType::f32,
                  b.op(Prim::sub, DType::f32, b.load(0, DType::f32, whole), b.load(1, DType::f32, one)));
    };
    total.store(total.reduce(Prim::sum, power(total), DType::f32), 2, DType::f32, one);
    Builder result(space);
    result.store(result.op(Prim::div, DType::f32, power(result), result.load(2, DType::f32, one)), 3,
                 DType::f32, whole);
    std::vector<LoopProgram> loops{largest.p, total.p, result.p};
    for (LoopProgram& p : loops) p.buffers = 4;
    check_chain(loops);
  }
}

TEST(GpuLoopChains, SumsOverRowsHaveTwoLaunches) {
  GpuTraits traits;
  traits.registers = true;
  traits.compute_units = 132;
  traits.max_group_size = 1024;
  auto loops = norm_loops({8, 1024, 768}, DType::bf16);
  ASSERT_TRUE(gpu_takes_row_chain(loops, traits));
  const GpuCandidate both = gpu_row_chain(loops, traits);
  ASSERT_EQ(both.launches.size(), 2U);
  EXPECT_EQ(both.launches[0].group_size[0] * both.launches[0].group_size[1], 256);
  EXPECT_NE(both.launches[0].source.find("READ_ALIGNED("), std::string::npos);
  EXPECT_GE(both.launches[0].groups[0], 132);
  loops.resize(3);
  EXPECT_EQ(gpu_row_chain(loops, traits).launches.size(), 1U);
  // Sums of long rows have no room in registers, and a few long rows do not fill a device.
  EXPECT_FALSE(gpu_takes_row_chain(norm_loops({64, 50'000}, DType::bf16), traits));
  loops = norm_loops({8, 500'000}, DType::bf16);
  loops.resize(3);
  EXPECT_FALSE(gpu_takes_row_chain(loops, traits));
}

TEST(RowChains, NeedTheSameRows) {
  const Ints space{4, 6, 10};
  const auto loops = norm_loops(space, DType::f32);
  const auto chain = row_chain(loops);
  ASSERT_TRUE(chain);
  EXPECT_EQ(chain->space(), (Ints{24, 10}));
  EXPECT_EQ(chain->roles, (std::vector{RowRole::rows, RowRole::rows, RowRole::map, RowRole::columns,
                                       RowRole::rows, RowRole::columns}));
  const auto refused = [&](auto change) {
    auto changed = loops;
    change(changed);
    return !row_chain(changed);
  };
  // Nothing reduces rows.
  EXPECT_TRUE(refused([](auto& all) { all.erase(all.begin(), all.begin() + 2), all.resize(1); }));
  // A loop reads the next row's result, or a row's elements in another order.
  EXPECT_TRUE(refused([](auto& all) { all[1].operands[0].offset = 10; }));
  EXPECT_TRUE(refused([](auto& all) { all[1].operands[0].strides = {60, 1, 6}; }));
  // A loop reads sums over rows.
  EXPECT_TRUE(refused([](auto& all) {
    all[5].operands[0].buffer = dgamma;
    all[5].operands[0].strides = {0, 0, 1};
  }));
  // The rows of one are half as long, or there are fewer elements.
  EXPECT_TRUE(refused([](auto& all) { all[4].space = {4, 12, 5}, all[4].operands[0].strides = {60, 5, 1}; }));
  EXPECT_TRUE(refused([](auto& all) { all[2].space = {4, 6, 9}; }));
  // Two loops write the same buffer.
  EXPECT_TRUE(refused([](auto& all) { all.push_back(all[2]); }));
}

}  // namespace
}  // namespace athanor::testing
