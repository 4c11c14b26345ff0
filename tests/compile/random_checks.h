// Compares the results of a random program with exact ones.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/compile/random_run.h"

namespace athanor::testing {

constexpr double disturbance = 1e-6;

/// Compares with the exact results. How far results move if the leaves do says how exact they can be; of a
/// gradient of 0, the sizes of the others.
inline void expect_close(const Results& got, const Results& exact, const Results& disturbed, double epsilon) {
  ASSERT_EQ(got.size(), exact.size());
  const double size = std::max(0.5, largest(exact));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].size(), exact[i].size());
    double moves = 0;
    for (size_t k = 0; k < exact[i].size(); ++k)
      moves = std::max(moves, std::abs(exact[i][k] - disturbed[i][k]));
    const double tolerance = epsilon * (40 * size + 8 * moves / disturbance);
    for (size_t k = 0; k < exact[i].size(); ++k)
      ASSERT_NEAR(got[i][k], exact[i][k], tolerance) << "result " << i << " element " << k;
  }
}

}  // namespace athanor::testing
