// Chains of loops over the same rows, against a plain interpreter that runs the loops one after the other.
#include <set>

#include "athanor/kernels/row_chain.h"
#include "tests/backends/gpu_loops.h"
#include "tests/support/gpu_devices.h"

namespace athanor::testing {
namespace {

/// The buffers of a norm's loops.
enum Buffer : int {
  x,
  branch,
  gamma,
  sum,
  mean,
  scale,
  y,
  dy,
  product,
  shift,
  dx,
  dgamma,
  dbeta,
  dbias,
  count
};

/// Strides of full-size values, of one value for each row, and of one for each column.
struct Places {
  Ints whole, row, column;
  explicit Places(const Ints& space) : whole(dense(space)), row(dense(space)), column(space.size(), 0) {
    row.back() = 0;
    for (size_t d = 0; d + 1 < space.size(); ++d) row[d] /= space.back();
    column.back() = 1;
  }
};

/// A norm of x + branch and its gradients: three loops forward, three backward.
std::vector<LoopProgram> norm_loops(const Ints& space, DType narrow) {
  const Places at(space);
  const auto f32 = DType::f32;
  std::vector<bool> rows(space.size(), false), columns(space.size(), true);
  rows.back() = true, columns.back() = false;
  const double share = 1.0 / static_cast<double>(space.back());
  std::vector<LoopProgram> loops;
  const auto centred = [&](Builder& b) {
    return b.op(Prim::sub, f32, b.load(sum, f32, at.whole), b.load(mean, f32, at.row));
  };
  {
    Builder b(space, rows);
    const int s = b.op(Prim::add, f32, b.load(x, f32, at.whole), b.load(branch, narrow, at.whole));
    b.store(s, sum, f32, at.whole);
    const int total = b.reduce(Prim::sum, s, f32);
    b.store(b.op(Prim::mul, f32, total, b.constant(f32, share)), mean, f32, at.row);
    loops.push_back(b.p);
  }
  {
    Builder b(space, rows);
    const int d = centred(b);
    const int squares = b.reduce(Prim::sum, b.op(Prim::mul, f32, d, d), f32);
    const int variance = b.op(Prim::mul, f32, squares, b.constant(f32, share));
    const int root = b.op(Prim::sqrt, f32, b.op(Prim::add, f32, variance, b.constant(f32, 1e-3)));
    b.store(b.op(Prim::div, f32, b.constant(f32, 1), root), scale, f32, at.row);
    loops.push_back(b.p);
  }
  const auto normal = [&](Builder& b) {
    return b.op(Prim::mul, f32, centred(b), b.load(scale, f32, at.row));
  };
  {
    Builder b(space);
    b.store(b.op(Prim::mul, f32, normal(b), b.load(gamma, f32, at.column)), y, narrow, at.whole);
    loops.push_back(b.p);
  }
  {
    Builder b(space, columns);
    const int g = b.load(dy, narrow, at.whole);
    b.store(b.op(Prim::mul, f32, g, b.load(gamma, f32, at.column)), product, f32, at.whole);
    const int weighted = b.op(Prim::mul, f32, g, normal(b));
    const int of_gamma = b.reduce(Prim::sum, weighted, f32), of_beta = b.reduce(Prim::sum, g, f32);
    b.store(b.op(Prim::mul, f32, of_gamma, b.constant(f32, 0.5)), dgamma, f32, at.column);
    b.store(of_beta, dbeta, narrow, at.column);
    loops.push_back(b.p);
  }
  {
    Builder b(space, rows);
    const int total = b.reduce(Prim::sum, b.load(product, f32, at.whole), f32);
    b.store(b.op(Prim::mul, f32, total, b.constant(f32, share)), shift, f32, at.row);
    loops.push_back(b.p);
  }
  {
    Builder b(space, columns);
    const int d = b.op(Prim::sub, f32, b.load(product, f32, at.whole), b.load(shift, f32, at.row));
    const int result = b.op(Prim::mul, f32, d, b.load(scale, f32, at.row));
    b.store(result, dx, f32, at.whole);
    b.store(b.reduce(Prim::sum, result, f32), dbias, f32, at.column);
    loops.push_back(b.p);
  }
  for (LoopProgram& p : loops) p.buffers = count;
  return loops;
}

/// Memory for all loops: of each buffer, what the loop that reaches furthest needs.
Memory memory_for_all(const std::vector<LoopProgram>& loops, std::mt19937& rng) {
  Memory all;
  all.data.resize(static_cast<size_t>(loops.front().buffers));
  for (const LoopProgram& p : loops) {
    Memory one = memory_for(p, rng, -1, 2);
    for (size_t b = 0; b < one.data.size(); ++b)
      if (one.data[b].size() > all.data[b].size()) all.data[b] = std::move(one.data[b]);
  }
  return all;
}

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
