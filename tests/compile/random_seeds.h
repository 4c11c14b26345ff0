// The seeds that tests of random programs run: a few, or those in ATHANOR_TEST_SEEDS.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace athanor::testing {

struct Seeds {
  unsigned first, last;
};
/// The seeds of a test, unless ATHANOR_TEST_SEEDS names others.
inline Seeds seeds(Seeds usual) {
  if (const char* text = std::getenv("ATHANOR_TEST_SEEDS")) {
    EXPECT_EQ(std::sscanf(text, "%u:%u", &usual.first, &usual.last), 2) << text;
  }
  return usual;
}

/// Few ops by default; more with seeds of ATHANOR_TEST_SEEDS.
inline int64_t gpu_ops(int64_t usual) {
  return std::getenv("ATHANOR_TEST_SEEDS") == nullptr ? usual : 2 * usual;
}

/// Calls check(seed), which says whether the seed's program can be checked, up to the first failure; with
/// seeds of ATHANOR_TEST_SEEDS for all of them.
template <class Check>
void for_each_seed(Seeds usual, const Check& check) {
  const Seeds range = seeds(usual);
  const bool goes_on = range.first != usual.first || range.last != usual.last;
  unsigned checked = 0;
  for (unsigned seed = range.first; seed < range.last && (goes_on || !::testing::Test::HasFailure()); ++seed)
    checked += check(seed) ? 1 : 0;
  EXPECT_GE(2 * checked, range.last - range.first) << "most programs cannot be checked";
}

}  // namespace athanor::testing
