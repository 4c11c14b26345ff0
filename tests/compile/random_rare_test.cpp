// Random programs of ops that others seldom have: indices, order, signals and volumes, recurrences, losses;
// also of tensors without elements. As random_layers_test.cpp.
#include <gtest/gtest.h>

#include "tests/compile/random_rare.h"
#include "tests/compile/random_ways.h"
#include "tests/support/gpu_devices.h"

namespace athanor {
namespace {

using testing::Numbers, testing::for_each_exact, testing::for_each_smooth, testing::for_each_real;

testing::Maker rare(int64_t ops, double empties = 0, double large = 0) {
  return [=](unsigned seed, Numbers numbers) {
    return testing::RareMaker(seed, numbers, empties, large).make(ops);
  };
}

std::vector<testing::Way> exact_ways(Device gpu) {
  return {{.dtype = DType::f32, .device = gpu},
          {.dtype = DType::f32, .device = gpu, .precision = Precision::bf16},
          {.dtype = DType::f32, .device = gpu, .precision = Precision::f16, .checkpoint = true}};
}

TEST(RandomRareOps, OfWholeNumbersAreExact) {
  const std::vector<int> checked =
      for_each_exact({0, 6}, rare(8),
                     {{.dtype = DType::f64},
                      {.dtype = DType::f32},
                      {.dtype = DType::f32, .precision = Precision::bf16},
                      {.dtype = DType::f32, .precision = Precision::f16},
                      {.dtype = DType::bf16},
                      {.dtype = DType::f32, .checkpoint = true},
                      {.dtype = DType::f32, .precision = Precision::bf16, .squeezed = true}});
  for (const int programs : checked) EXPECT_GT(programs, 0);
}

TEST(RandomRareOps, WithoutElementsAreExact) {
  const std::vector<int> checked =
      for_each_exact({0, 6}, rare(8, 0.15),
                     {{.dtype = DType::f64},
                      {.dtype = DType::f32, .precision = Precision::bf16},
                      {.dtype = DType::bf16},
                      {.dtype = DType::f32, .checkpoint = true, .squeezed = true}});
  for (const int programs : checked) EXPECT_GT(programs, 0);
}

TEST(RandomRareOps, OfWholeNumbersAreExactOnAGpu) {
  ATHANOR_NEEDS_GPU();
  const Device gpu = testing::gpu_devices().front().device;
  for_each_exact({60, 62}, rare(testing::gpu_ops(4)),
                 {{.dtype = DType::f32, .device = gpu},
                  {.dtype = DType::f32, .device = gpu, .precision = Precision::bf16},
                  {.dtype = DType::f32, .device = gpu, .precision = Precision::f16, .checkpoint = true},
                  {.dtype = DType::f32, .device = gpu, .precision = Precision::f16, .squeezed = true}});
}

TEST(RandomRareOps, WithoutElementsAreExactOnAGpu) {
  ATHANOR_NEEDS_GPU();
  const Device gpu = testing::gpu_devices().front().device;
  for_each_exact({60, 61}, rare(testing::gpu_ops(4), 0.15), exact_ways(gpu));
}

TEST(RandomRareOps, OfLargeShapesAreExact) {
  const std::vector<int> checked =
      for_each_exact({0, 4}, rare(8, 0, 0.4),
                     {{.dtype = DType::f32},
                      {.dtype = DType::f32, .precision = Precision::f16},
                      {.dtype = DType::bf16},
                      {.dtype = DType::f32, .checkpoint = true, .squeezed = true}});
  for (const int programs : checked) EXPECT_GT(programs, 0);
}

TEST(RandomRareOps, OfLargeShapesAreExactOnAGpu) {
  ATHANOR_NEEDS_GPU();
  const Device gpu = testing::gpu_devices().front().device;
  for_each_exact({60, 61}, rare(testing::gpu_ops(4), 0, 0.4), exact_ways(gpu));
}

TEST(RandomRareOps, RoundAsTheirValuesDo) { for_each_smooth({0, 4}, rare(8), testing::smooth_ways()); }

TEST(RandomRareOps, RoundAsTheirValuesDoOnAGpu) {
  ATHANOR_NEEDS_GPU();
  const Device gpu = testing::gpu_devices().front().device;
  for_each_smooth({60, 61}, rare(testing::gpu_ops(4)), testing::smooth_ways(gpu));
}

TEST(RandomRareOps, MeanTheSameWithAllPasses) { for_each_real({0, 6}, rare(10), testing::real_ways()); }

TEST(RandomRareOps, MeanTheSameOnAGpu) {
  ATHANOR_NEEDS_GPU();
  const Device gpu = testing::gpu_devices().front().device;
  for_each_real({60, 61}, rare(testing::gpu_ops(4)), testing::real_ways(gpu));
}

}  // namespace
}  // namespace athanor
