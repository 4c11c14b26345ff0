// Random programs of layers, in every precision and with little memory. Of whole numbers they give the same
// bits, whatever the compiler makes of them; others give the same numbers to rounding. ATHANOR_TEST_SEEDS
// works as in random_graphs_test.cpp.
#include <gtest/gtest.h>

#include "tests/compile/random_layers.h"
#include "tests/compile/random_ways.h"
#include "tests/support/gpu_devices.h"

namespace athanor {
namespace {

using testing::Numbers, testing::LayerMaker, testing::for_each_exact, testing::for_each_smooth,
    testing::for_each_real;

testing::Maker layers(int64_t ops) {
  return [ops](unsigned seed, Numbers numbers) { return LayerMaker(seed, numbers).make(ops); };
}

TEST(RandomLayers, OfWholeNumbersAreExact) {
  const std::vector<int> checked =
      for_each_exact({0, 12}, layers(10),
                     {{.dtype = DType::f64},
                      {.dtype = DType::f32},
                      {.dtype = DType::f32, .precision = Precision::bf16},
                      {.dtype = DType::f32, .precision = Precision::f16},
                      {.dtype = DType::bf16},
                      {.dtype = DType::f32, .checkpoint = true},
                      {.dtype = DType::f32, .precision = Precision::bf16, .squeezed = true}});
  for (const int programs : checked) EXPECT_GT(programs, 0);
}

TEST(RandomLayers, OfWholeNumbersAreExactOnAGpu) {
  ATHANOR_NEEDS_GPU();
  const Device gpu = testing::gpu_devices().front().device;
  for_each_exact({60, 62}, layers(testing::gpu_ops(5)),
                 {{.dtype = DType::f32, .device = gpu},
                  {.dtype = DType::f32, .device = gpu, .precision = Precision::bf16},
                  {.dtype = DType::f32, .device = gpu, .precision = Precision::f16, .checkpoint = true},
                  {.dtype = DType::f32, .device = gpu, .precision = Precision::bf16},
                  {.dtype = DType::f32, .device = gpu, .precision = Precision::f16},
                  {.dtype = DType::f32, .device = gpu, .precision = Precision::f16, .squeezed = true}});
}

TEST(RandomLayers, RoundAsTheirValuesDo) { for_each_smooth({0, 8}, layers(8), testing::smooth_ways()); }

TEST(RandomLayers, RoundAsTheirValuesDoOnAGpu) {
  ATHANOR_NEEDS_GPU();
  const Device gpu = testing::gpu_devices().front().device;
  for_each_smooth({60, 62}, layers(testing::gpu_ops(5)), testing::smooth_ways(gpu));
}

TEST(RandomLayers, MeanTheSameWithAllPasses) { for_each_real({0, 12}, layers(12), testing::real_ways()); }

TEST(RandomLayers, MeanTheSameOnAGpu) {
  ATHANOR_NEEDS_GPU();
  const Device gpu = testing::gpu_devices().front().device;
  for_each_real({60, 62}, layers(testing::gpu_ops(5)), testing::real_ways(gpu));
}

}  // namespace
}  // namespace athanor
