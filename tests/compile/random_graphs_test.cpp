// Random programs give the same results whatever the compiler makes of them. ATHANOR_TEST_SEEDS=1000:3000
// takes these seeds instead, and does not stop at the first failure: one or two minutes on the host, and a
// second or more for each on PoCL. About one program in 1000 differs, because two elements that max compares
// are equal but for rounding.
#include <gtest/gtest.h>

#include "tests/compile/random_checks.h"
#include "tests/compile/random_ops.h"
#include "tests/compile/random_run.h"
#include "tests/compile/random_seeds.h"
#include "tests/support/gpu_devices.h"

namespace athanor {
namespace {

using testing::all_passes, testing::expect_close, testing::largest, testing::ProgramMaker,
    testing::RandomProgram, testing::Results;

void expect_finite(const Results& got) {
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(std::ranges::all_of(got[i], [](double x) { return std::isfinite(x); })) << "result " << i;
}

void expect_numbers(const Results& exact) {
  for (const std::vector<double>& result : exact)
    EXPECT_TRUE(std::ranges::none_of(result, [](double x) { return std::isnan(x); })) << "NaN without passes";
}

template <class Check>
void for_each_program(testing::Seeds usual, int64_t ops, const Check& check) {
  testing::for_each_seed(usual, [&](unsigned seed) {
    const RandomProgram program = ProgramMaker(seed).make(ops);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + program.listing());
    const Results exact = run(program, {.without = all_passes}),
                  disturbed = run(program, {.without = all_passes, .moved = testing::disturbance});
    expect_numbers(exact);
    if (largest(exact) >= 1e4) return false;  // the program diverges
    check(program, exact, disturbed);
    return true;
  });
}

TEST(RandomGraphs, MeanTheSameWithAllPasses) {
  for_each_program({0, 30}, 12,
                   [](const RandomProgram& program, const Results& exact, const Results& disturbed) {
                     expect_close(run(program, {}), exact, disturbed, 2e-14);
                     expect_close(run(program, {.dtype = DType::f32}), exact, disturbed, 2.4e-7);
                   });
}

TEST(RandomGraphs, AreFiniteInMixedPrecision) {
  for_each_program({40, 60}, 12, [](const RandomProgram& program, const Results&, const Results&) {
    expect_finite(run(program, {.dtype = DType::f32, .precision = Precision::bf16}));
  });
}

TEST(RandomGraphs, MeanTheSameOnAGpu) {
  ATHANOR_NEEDS_GPU();
  const Device gpu = testing::gpu_devices().front().device;
  for_each_program(
      {60, 62}, 3, [&](const RandomProgram& program, const Results& exact, const Results& disturbed) {
        expect_close(run(program, {.dtype = DType::f32, .device = gpu}), exact, disturbed, 2.4e-7);
      });
}

}  // namespace
}  // namespace athanor
