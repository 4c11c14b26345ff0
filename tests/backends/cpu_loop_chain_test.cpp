// Chains of loops over the same rows on the CPU, against the same loops one after the other.
#include <gtest/gtest.h>

#include "athanor/backends/cpu/loops/loop_chain.h"
#include "athanor/backends/cpu/loops/loop_kernel.h"
#include "athanor/kernels/row_chain.h"
#include "tests/backends/norm_loops.h"

namespace athanor {
namespace {

using namespace testing;  // NOLINT: Builder, Memory, ...

/// Whether there is a chain. If so, expects the same bits as those of the loops alone.
bool check_chain(const std::vector<LoopProgram>& loops) {
  std::mt19937 rng(5);
  const Memory start = memory_for_all(loops, rng);
  const std::optional<LoopChain> chain = LoopChain::make(loops);
  if (!chain) return false;
  Memory alone = start;
  for (const LoopProgram& p : loops) LoopKernel(p).run(alone.addresses(), 1);
  for (const int threads : {1, 2, 3}) {
    Memory together = start;
    chain->run(together.addresses(), threads);
    EXPECT_EQ(together.data, alone.data) << threads << " threads, " << chain->description();
  }
  return true;
}

TEST(CpuLoopChains, ANormAndItsGradientsHaveTheSameBits) {
  int narrow = 0;
  for (const Ints& space : {Ints{2048, 256}, Ints{16, 128, 256}, Ints{512, 512}, Ints{4096, 64}}) {
    SCOPED_TRACE(::testing::PrintToString(space));
    EXPECT_TRUE(check_chain(norm_loops(space, ++narrow % 2 == 0 ? DType::bf16 : DType::f32)));
  }
}

// Without sums over rows, whose pieces end at other rows, there are more shapes.
TEST(CpuLoopChains, OnlyForward) {
  for (const Ints& space :
       {Ints{24, 1000}, Ints{3, 40, 64}, Ints{8, 5003}, Ints{360, 30}, Ints{16, 20'000}}) {
    SCOPED_TRACE(::testing::PrintToString(space));
    auto loops = norm_loops(space, DType::f32);
    loops.resize(3);
    EXPECT_TRUE(check_chain(loops));
  }
}

TEST(CpuLoopChains, OddShapesHaveTheSameBitsOrNoChain) {
  std::mt19937 rng(3);
  int chains = 0;
  for (int i = 0; i < 60; ++i) {
    const auto extent = [&](int64_t most) {
      return 2 + static_cast<int64_t>(rng() % static_cast<uint64_t>(most));
    };
    const Ints space =
        i % 2 == 0 ? Ints{extent(900), extent(300)} : Ints{extent(20), extent(60), extent(200)};
    SCOPED_TRACE(::testing::PrintToString(space));
    auto loops = norm_loops(space, i % 3 == 0 ? DType::bf16 : DType::f32);
    if (i % 4 == 0) loops.resize(3);
    chains += check_chain(loops) ? 1 : 0;
  }
  EXPECT_GE(chains, 5);
}

// Rows that lie one column beside the other: tiles follow memory, so they do not follow the rows.
TEST(CpuLoopChains, TurnedRowsAreNoChain) {
  const Ints space{64, 512}, turned{1, 64}, one{1, 0};
  Builder total(space, {false, true});
  total.store(total.reduce(Prim::sum, total.load(0, DType::f32, turned), DType::f32), 1, DType::f32, one);
  Builder result(space);
  result.store(
      result.op(Prim::mul, DType::f32, result.load(0, DType::f32, turned), result.load(1, DType::f32, one)),
      2, DType::f32, turned);
  std::vector<LoopProgram> loops{total.p, result.p};
  for (LoopProgram& p : loops) p.buffers = 3;
  ASSERT_TRUE(row_chain(loops));
  EXPECT_FALSE(check_chain(loops));
}

// A piece of the sums over rows, with all that its loops read, would not stay in a cache.
TEST(CpuLoopChains, PartsFitACache) {
  EXPECT_FALSE(LoopChain::make(norm_loops({12288, 768}, DType::f32)));
  auto loops = norm_loops({12288, 768}, DType::f32);
  loops.resize(3);
  EXPECT_TRUE(LoopChain::make(loops));
}

TEST(CpuLoopChains, FewRowsAreNoChain) {
  auto loops = norm_loops({7, 4096}, DType::f32);
  loops.resize(3);
  EXPECT_FALSE(LoopChain::make(loops));
}

}  // namespace
}  // namespace athanor
