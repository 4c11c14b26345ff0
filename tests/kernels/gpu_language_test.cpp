// The kernel language's vector functions, on every device under test.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "athanor/backends/gpu/program.h"
#include "athanor/base/embedded.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/trust.h"
#include "gpu_kernels.h"
#include "tests/support/matches.h"

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

// The macros that a source text defines.
std::set<std::string> macros_of(std::string_view text) {
  std::set<std::string> names;
  for (const Match& define : matches(std::string(text), R"(#\s*define\s+(\w+))")) names.insert(define[1]);
  return names;
}

// A second definition would only cause a warning, and the kernel would use the word in another meaning.
TEST(GpuLanguage, KernelsDefineNoWordOfTheLanguage) {
  std::set<std::string> words;
  for (const EmbeddedFile& file : embedded_files())
    if (file.path.find("/gpu/language/") != std::string_view::npos) words.merge(macros_of(file.content));
  EXPECT_TRUE(words.contains("PACKED"));
  size_t kernels = 0;
  for (const EmbeddedFile& file : embedded_files()) {
    if (!file.path.ends_with(".kernel") || file.path.find("/gpu/language/") != std::string_view::npos)
      continue;
    ++kernels;
    for (const std::string& name : macros_of(file.content))
      EXPECT_FALSE(words.contains(name)) << file.path << " defines " << name;
  }
  EXPECT_GT(kernels, 10U);
}

// Sources that declare the same names, such as those of one template.
TEST(GpuLanguage, SourcesTogetherKeepTheirNamesApart) {
  ATHANOR_NEEDS_GPU();
  std::vector<GpuCandidate> candidates;
  for (const int factor : {3, 5}) {
    GpuCandidate candidate{.name = "scaled"};
    candidate.launches.push_back({.name = "scaled",
                                  .source = fmt::format(R"(#define FACTOR {0}
#define TIMES_FACTOR(x) ((x) * FACTOR)
typedef f32 number;
typedef struct {{
  number value;
}} Scaled;
CONSTANT i32 table[1] = {{{0}}};
DEVICE Scaled scaled_by(number x) {{
  Scaled result;
  result.value = TIMES_FACTOR(x) + table[0];
  return result;
}}
KERNEL void scaled(BUFFER(const f32, x), BUFFER(f32, y)) {{
  BIND(const f32, x);
  BIND(f32, y);
  y[LOCAL_ID(0)] = scaled_by(x[LOCAL_ID(0)]).value;
}}
)",
                                                        factor),
                                  .group_size = {factor, 1, 1},
                                  .arguments = {{0}, {1}}});
    candidates.push_back(std::move(candidate));
  }
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    const ExaminationScope scope;  // keeps no binaries, which another run of this test would find
    const int64_t before = compilations();
    gpu::compile_together(device, {&candidates[0].launches[0], &candidates[1].launches[0]});
    EXPECT_EQ(compilations() - before, 1) << info.name;
    for (const GpuCandidate& candidate : candidates) {
      const int64_t factor = candidate.launches[0].group_size[0];
      std::vector<TestOperand> inputs{random_value(DType::f32, {factor}, 1)};
      std::vector<double> expected;
      for (const double x : inputs[0].values) expected.push_back((x + 1) * static_cast<double>(factor));
      const auto got = run_on(device, candidate, inputs, {DType::f32, {factor}, {}, {1}});
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4) << factor;
    }
    EXPECT_EQ(compilations() - before, 1) << info.name << ": they are there";
  }
}

TEST(GpuLanguage, ATextForReadingSaysWhatItsCompilerNeeds) {
  GpuLaunch launch{.name = "f", .source = "KERNEL void f() {}\n"};
  EXPECT_TRUE(render_for_reading(launch).starts_with("#define"));
  launch.compile_options = "-DAMD_UNITS";
  EXPECT_TRUE(render_for_reading(launch).starts_with("// Compile it with -DAMD_UNITS\n#define"));
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
      TestOperand x = random_value(DType::f32, {2 * width}, 1);
      for (int i = 0; i < 2 * width; ++i)
        reinterpret_cast<float*>(x.memory.data())[i] = static_cast<float>(i);
      std::vector<TestOperand> inputs{std::move(x)};
      const Shape shape{4 * width};
      EXPECT_EQ(run_on(gpu::gpu_device(info.device), candidate, inputs,
                       {DType::f32, shape, {}, contiguous_strides(shape)}),
                reordered(width));
    }
}

// Rounded by the chip's instruction or by integers: to the nearest, ties to even, subnormal numbers too.
TEST(GpuLanguage, FloatsOfSixteenBitsAreTheNearest) {
  ATHANOR_NEEDS_GPU();
  std::vector<float> values = {0.0F, -0.0F, 1.0F, std::numeric_limits<float>::infinity(), 3.4e38F, -3.4e38F};
  for (const uint32_t kept : {0x3f800000U, 0x3f810000U, 0xc0490000U, 0x00010000U, 0x00030000U, 0x007f0000U,
                              0x7f7e0000U, 0x33000000U, 0x38a90000U, 0x477fe000U})
    for (const uint32_t rest : {0U, 1U, 0x0fffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU})
      values.push_back(std::bit_cast<float>(kept | rest));
  values.push_back(std::nanf(""));
  if (values.size() % 2 != 0) values.push_back(-2.5F);
  const auto count = static_cast<int64_t>(values.size());
  TestOperand x = random_value(DType::f32, {count}, 1);
  std::memcpy(x.memory.data(), values.data(), x.memory.size());
  const std::vector<TestOperand> inputs{std::move(x)};
  const std::vector<double> exact(values.begin(), values.end());
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const std::vector<double> once = to_doubles(from_doubles(dtype, {count}, exact));
    std::vector<double> want = once;
    want.insert(want.end(), once.begin(), once.end());
    GpuCandidate candidate{.name = "rounds"};
    candidate.launches.push_back(
        {.name = "rounds",
         .source = fmt::format("KERNEL void rounds(BUFFER(const f32, x), BUFFER(STORED({0}), y)) {{\n"
                               "  BIND(const f32, x);\n  BIND(STORED({0}), y);\n"
                               "  for (int i = 0; i < {1}; i += 2) {{\n"
                               "    STORE({0}, y, i, x[i]);\n    STORE({0}, y, i + 1, x[i + 1]);\n"
                               "    const u32 both = PACKED({0}, x[i], x[i + 1]);\n"
                               "    y[{1} + i] = (STORED({0}))both;\n"
                               "    y[{1} + i + 1] = (STORED({0}))(both >> 16);\n  }}\n}}\n",
                               to_string(dtype), count),
         .arguments = {{0}, {1}}});
    for (const DeviceInfo& info : gpu_devices()) {
      const auto got = run_on(gpu::gpu_device(info.device), candidate, inputs,
                              {dtype, {2 * count}, {}, contiguous_strides({2 * count})});
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
            << to_string(dtype) << " of " << values[i % values.size()] << ": " << got[i];
    }
  }
}

// In units in the last place of the result, from the smallest numbers on, and on both sides of where the
// polynomial ends.
TEST(GpuLanguage, TanhIsWithinThreeUnits) {
  ATHANOR_NEEDS_GPU();
  constexpr float infinite = std::numeric_limits<float>::infinity();
  std::vector<float> values = {0.0F,     -0.0F,    infinite,          -infinite,     1e-40F, -1e-30F, 1e-4F,
                               0.89999F, -0.9F,    0.90001F,          std::nanf(""), 9.0F,   9.1F,    -44.0F,
                               88.0F,    -3.4e38F, std::nanf("0x123")};
  for (float x = 1e-3F; x < 12; x *= 1.013F) values.push_back(values.size() % 2 == 0 ? x : -x);
  const auto count = static_cast<int64_t>(values.size());
  TestOperand x = random_value(DType::f32, {count}, 1);
  std::memcpy(x.memory.data(), values.data(), x.memory.size());
  const std::vector<TestOperand> inputs{std::move(x)};
  GpuCandidate candidate{.name = "tanhs"};
  candidate.launches.push_back(
      {.name = "tanhs",
       .source = fmt::format("KERNEL void tanhs(BUFFER(const f32, x), BUFFER(f32, y)) {{\n"
                             "  BIND(const f32, x);\n  BIND(f32, y);\n"
                             "  for (int i = 0; i < {}; ++i) y[i] = tanh_f32(x[i]);\n}}\n",
                             count),
       .arguments = {{0}, {1}}});
  for (const DeviceInfo& info : gpu_devices()) {
    const auto got = run_on(gpu::gpu_device(info.device), candidate, inputs,
                            {DType::f32, {count}, {}, contiguous_strides({count})});
    for (size_t i = 0; i < got.size(); ++i) {
      const double want = std::tanh(static_cast<double>(values[i]));
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got[i])) << "of NaN: " << got[i];
        continue;
      }
      const auto nearest = static_cast<float>(std::abs(want));
      const double unit = std::nextafter(nearest, infinite) - nearest;
      EXPECT_LE(std::abs(got[i] - want), 3 * unit) << info.name << ": tanh of " << values[i];
      EXPECT_EQ(std::signbit(got[i]), std::signbit(want)) << info.name << ": tanh of " << values[i];
    }
  }
}

}  // namespace
}  // namespace athanor::testing
