// What the kernel language's vector functions do, on every OpenCL device.
#include <fmt/format.h>

#include "gpu_kernels.h"

namespace athanor::testing {
namespace {

// The four ways to reorder two vectors of `width` lanes, one after another.
std::vector<double> reordered(int width) {
  std::vector<double> evens, odds, low, high;
  for (int i = 0; i < 2 * width; i += 2) evens.push_back(i), odds.push_back(i + 1);
  const int half = width / 2;
  for (int i = 0; i < half; ++i) {
    low.insert(low.end(), {static_cast<double>(i), static_cast<double>(width + i)});
    high.insert(high.end(), {static_cast<double>(half + i), static_cast<double>(width + half + i)});
  }
  std::vector<double> all;
  for (const auto& part : {evens, odds, low, high}) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(GpuLanguage, LanesOfVectors) {
  ATHANOR_NEEDS_GPU();
  for (const DeviceInfo& info : gpu_devices())
    for (const int width : {2, 4, 8, 16}) {
      std::string body;
      int at = 0;
      for (const char* word : {"EVENS", "ODDS", "ZIP_LOW", "ZIP_HIGH"})
        body += fmt::format("  VSTORE({0}, y, {1}, {2}({0}, VLOAD({0}, x, 0), VLOAD({0}, x, {0})));\n", width,
                            width * at++, word);
      GpuCandidate candidate{.name = "lanes"};
      candidate.launches.push_back({.name = "lanes",
                                    .source = "KERNEL void lanes(BUFFER(const f32, x), BUFFER(f32, y)) {\n  "
                                              "BIND(const f32, x);\n  BIND(f32, "
                                              "y);\n" +
                                              body + "}\n",
                                    .arguments = {{0}, {1}}});
      Value x = random_value(DType::f32, {2 * width}, 1);
      for (int i = 0; i < 2 * width; ++i)
        reinterpret_cast<float*>(x.memory.data())[i] = static_cast<float>(i);
      std::vector<Value> inputs{std::move(x)};
      const Shape shape{4 * width};
      EXPECT_EQ(run_on(gpu::gpu_device(info.device), candidate, inputs,
                       {DType::f32, shape, {}, contiguous_strides(shape)}),
                reordered(width));
    }
}

}  // namespace
}  // namespace athanor::testing
