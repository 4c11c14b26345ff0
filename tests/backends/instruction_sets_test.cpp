// With ATHANOR_TEST_AVX2 this program's kernels use at most AVX2, so that a newer processor tests that code
// too. ctest runs the CPU's tests a second time like this, with oneDNN limited in the same way.
#include <gtest/gtest.h>

#include <cstdlib>

#include "athanor/backends/cpu/amx/amx.h"
#include "athanor/backends/cpu/loops/steps.h"
#include "athanor/backends/cpu/winograd/kernels.h"

namespace athanor::testing {
namespace {

bool is_limited() { return std::getenv("ATHANOR_TEST_AVX2") != nullptr; }

class Limit : public ::testing::Environment {
  void SetUp() override {
    if (is_limited()) loops::limit_isa("avx2");
  }
};
[[maybe_unused]] const auto* const limit = ::testing::AddGlobalTestEnvironment(new Limit);

TEST(InstructionSets, AreLimitedWhereWanted) {
  if (!is_limited()) GTEST_SKIP() << "ATHANOR_TEST_AVX2 is not set";
  EXPECT_LE(cpu::winograd::kernels().lanes, 8);
  EXPECT_FALSE(cpu::has_amx());
}

}  // namespace
}  // namespace athanor::testing
