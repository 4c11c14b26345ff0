// Our own products, with more threads than this machine may have.
#include "athanor/backends/cpu/generic/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace athanor::cpu {
namespace {

// The last columns that are packed together may be fewer panels than groups of threads.
TEST(Gemm, MoreGroupsThanPanels) {
  constexpr int64_t m = 300, k = 768;
  const int64_t columns = VectorProducts<float>().columns();
  std::vector<float> a(m * k);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(static_cast<int64_t>(i) / k % 3 + 1);
  for (const int64_t panels : {43, 67, 85}) {
    const int64_t n = panels * columns - 1;
    std::vector<float> b(static_cast<size_t>(n * k)), c(static_cast<size_t>(m * n));
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(static_cast<int64_t>(i) % n % 5);
    GemmShape shape(m, n, k, SimpleEpilogue{});
    shape.a = {0, k, 1};
    shape.b = {0, n, 1};
    for (const int threads : {1, 7, 64}) {
      const Gemm<float> gemm(shape, threads);
      std::vector<float> scratch(gemm.scratch_bytes() / sizeof(float) + 1);
      std::fill(c.begin(), c.end(), -1.0F);
      ASSERT_TRUE(gemm.run(a.data(), b.data(), nullptr, c.data(), scratch.data()));
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j)
          ASSERT_EQ(c[static_cast<size_t>(i * n + j)], static_cast<float>(k * (i % 3 + 1) * (j % 5)))
              << panels << " panels, " << threads << " threads, " << i << " " << j;
    }
  }
}

}  // namespace
}  // namespace athanor::cpu
