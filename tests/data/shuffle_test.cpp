#include "athanor/data/shuffle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

namespace athanor {
namespace {

TEST(Shuffle, IsAPermutation) {
  for (const int64_t count : {0, 1, 2, 1000}) {
    auto order = shuffled_order(count, 1, 2);
    std::sort(order.begin(), order.end());
    std::vector<int64_t> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all);
  }
}

TEST(Shuffle, DependsOnSeedAndEpoch) {
  const auto order = shuffled_order(100, 1, 2);
  EXPECT_EQ(shuffled_order(100, 1, 2), order);
  EXPECT_NE(shuffled_order(100, 2, 2), order);
  EXPECT_NE(shuffled_order(100, 1, 3), order);
  EXPECT_NE(shuffled_order(100, 1 + (uint64_t{1} << 32), 2), order) << "the high half of the seed counts";
}

// Resumed runs depend on these numbers. A second implementation, in Python, computed them.
TEST(Shuffle, NeverChanges) {
  EXPECT_EQ(shuffled_order(8, 42, 0), (std::vector<int64_t>{6, 2, 5, 0, 1, 7, 3, 4}));
}

TEST(Shuffle, IsUniform) {
  std::map<std::vector<int64_t>, int> counts;
  const int draws = 24000;
  for (int i = 0; i < draws; ++i) ++counts[shuffled_order(4, 7, static_cast<uint64_t>(i))];
  ASSERT_EQ(counts.size(), 24);
  double chi_squared = 0;
  for (const auto& [order, count] : counts) chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_squared, 49.7) << "the 0.999 quantile for 23 degrees of freedom";
}

}  // namespace
}  // namespace athanor
