// Products on Intel's matrix unit, which multiplies bf16.
#include "athanor/backends/cpu/amx/amx.h"

#include <fmt/format.h>

#include <limits>

#include "cpu_kernels.h"

namespace athanor::testing {
namespace {

const Op amx_matmul = make_op("batch_matmul", Prim::batch_matmul);

class CpuAmx : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cpu::has_amx()) GTEST_SKIP() << "this processor, or the system, has no AMX";
  }
};

// The result of the candidate of this name for a [1, m, k] x [1, k, n] product.
std::vector<double> amx_product(const std::string& name, std::vector<TestOperand> inputs) {
  const Shape shape{1, inputs[0].desc.shape[1], inputs[1].desc.shape[2]};
  const KernelRequest request = request_of(amx_matmul, {}, inputs, DType::f32, shape);
  for (const Candidate& candidate : cpu().candidates(0, request))
    if (candidate.name == name) return run_candidate(candidate, inputs, request.output());
  ADD_FAILURE() << "no candidate " << name;
  return {};
}

// Numbers of either sign from 2^low to 2^high.
std::vector<double> spread(int64_t count, unsigned seed, double low, double high) {
  std::vector<double> values = random_values(count, seed, low, high);
  const std::vector<double> signs = random_values(count, seed + 1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::copysign(std::exp2(values[i]), signs[i]);
  return values;
}

// The root of the mean square of errors, each as a share of the sum of its products' magnitudes.
double error_of(const std::vector<double>& got, const TestOperand& a, const TestOperand& b) {
  const int64_t m = a.desc.shape[1], k = a.desc.shape[2], n = b.desc.shape[2];
  double squares = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, magnitude = 0;
      for (int64_t p = 0; p < k; ++p) {
        const double term =
            a.values[static_cast<size_t>(i * k + p)] * b.values[static_cast<size_t>(p * n + j)];
        sum += term, magnitude += std::abs(term);
      }
      const double error = (got[static_cast<size_t>(i * n + j)] - sum) / magnitude;
      squares += error * error;
    }
  return std::sqrt(squares / static_cast<double>(m * n));
}

// `test_backends --gtest_filter='CpuAmx.Sums*' --gtest_output=json:FILE` records the errors.
TEST_F(CpuAmx, SumsAreAsExactAsThoseOfF32Instructions) {
  for (const int64_t k : {33, 500, 2100})
    for (const int reach : {1, 8, 30}) {
      const TestOperand a = make_value(DType::f32, {1, 70, k}, spread(70 * k, 1, -reach, reach)),
                        b = make_value(DType::f32, {1, k, 50}, spread(50 * k, 2, -reach, reach));
      const double ours = error_of(amx_product("AMX gemm, 3 bf16 parts", {a, b}), a, b),
                   vectors = error_of(amx_product("generic gemm", {a, b}), a, b);
      const std::string numbers = fmt::format("k {}, numbers from 2^-{} to 2^{}", k, reach, reach);
      RecordProperty(numbers, fmt::format("{:.2e}, vectors {:.2e}", ours, vectors));
      // If few terms make up a sum, it shows that each is added in six parts.
      EXPECT_LE(ours, (reach < 30 ? 1 : 1.4) * vectors) << numbers;
    }
}

// A product of two numbers is rounded a few times, where f32 instructions round once.
TEST_F(CpuAmx, ProductsOfTwoNumbersAreExactToTheLastBits) {
  const TestOperand a = make_value(DType::f32, {1, 300, 1}, spread(300, 3, -40, 40)),
                    b = make_value(DType::f32, {1, 1, 200}, spread(200, 4, -40, 40));
  const auto got = amx_product("AMX gemm, 3 bf16 parts", {a, b});
  for (size_t i = 0; i < 300; ++i)
    for (size_t j = 0; j < 200; ++j) {
      const double want = a.values[i] * b.values[j];
      ASSERT_LE(std::abs(got[i * 200 + j] - want), std::ldexp(std::abs(want), -22));
    }
}

// An infinite number has no bf16 parts: inf - inf is NaN. FLT_MAX rounds to infinity in bf16.
TEST_F(CpuAmx, InfinityAndNanAreThoseOfF32Instructions) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double special : {infinity, -infinity, std::nan(""), double{std::numeric_limits<float>::max()}})
    for (const bool left : {true, false})
      for (const int64_t m : {5, 700}) {
        std::vector<double> a_values = spread(m * 40, 5, -1, 1), b_values = spread(40 * 64, 6, -1, 1);
        (left ? a_values[static_cast<size_t>((m - 1) * 40 + 7)] : b_values[20 * 64 + 3]) = special;
        const TestOperand a = make_value(DType::f32, {1, m, 40}, a_values),
                          b = make_value(DType::f32, {1, 40, 64}, b_values);
        const auto got = amx_product("AMX gemm, 3 bf16 parts", {a, b}),
                   want = amx_product("generic gemm", {a, b});
        for (size_t i = 0; i < want.size(); ++i)
          ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
              << got[i] << " instead of " << want[i] << " with " << special;
      }
}

// A part can overflow before a product does, and parts of opposite signs can add up to NaN.
TEST_F(CpuAmx, OverflowIsThatOfF32Instructions) {
  for (const auto& [x, y] : {std::pair(1.006 * 0x1p100, 0x1p100), std::pair(1.998 * 0x1p64, 0x1p63),
                             std::pair(1.9965 * 0x1p64, -0x1p63)})
    for (const int64_t m : {3, 700}) {
      std::vector<double> a_values = spread(m * 40, 11, -1, 1), b_values = spread(40 * 64, 12, -1, 1);
      a_values[static_cast<size_t>((m - 1) * 40 + 7)] = x;
      b_values[7 * 64 + 3] = y;
      const TestOperand a = make_value(DType::f32, {1, m, 40}, a_values),
                        b = make_value(DType::f32, {1, 40, 64}, b_values);
      EXPECT_EQ(amx_product("AMX gemm, 3 bf16 parts", {a, b}), amx_product("generic gemm", {a, b}));
    }
}

// Parts, and products of parts, are 0 below 2^-126.
TEST_F(CpuAmx, ProductsOfSmallNumbersLoseTheirLastBits) {
  const TestOperand a = make_value(DType::f32, {1, 3, 1}, spread(3, 13, -60, -58)),
                    b = make_value(DType::f32, {1, 1, 3}, spread(3, 14, -60, -58));
  const auto got = amx_product("AMX gemm, 3 bf16 parts", {a, b}), want = amx_product("generic gemm", {a, b});
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 6 * std::exp2(-126));
}

TEST_F(CpuAmx, SmallNumbersLoseTheirLastBits) {
  const TestOperand a = make_value(DType::f32, {1, 3, 40}, spread(3 * 40, 7, -126, -100)),
                    b = make_value(DType::f32, {1, 40, 3}, spread(40 * 3, 8, 0, 1));
  const auto got = amx_product("AMX gemm, 3 bf16 parts", {a, b}), want = amx_product("generic gemm", {a, b});
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 40 * std::exp2(-125));
}

const Attrs padded_3x3{
    {"stride", Ints{1, 1}}, {"padding", Ints{1, 1}}, {"dilation", Ints{1, 1}}, {"groups", int64_t{1}}};

// The library's first kernel computes what has no parts.
TEST_F(CpuAmx, ConvolutionsOfInfinityAreThoseOfF32Instructions) {
  for (const double special : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    std::vector<double> values = random_values(2 * 32 * 5 * 7, 9);
    values[32 * 5 * 7 + 100] = special;
    std::vector<TestOperand> inputs = {make_value(DType::f32, {2, 32, 5, 7}, values, {16}),
                                       random_value(DType::f32, {32, 32, 3, 3}, 10)};
    const auto runs = run_all(make_op("conv2d"), padded_3x3, inputs, DType::f32, {2, 32, 5, 7}, {16});
    const auto ours = std::ranges::find(runs, "AMX conv, 3 bf16 parts", &Run::candidate);
    const auto library = std::ranges::find_if(
        runs, [](const auto& run) { return run.candidate.starts_with("oneDNN direct"); });
    if (library == runs.end()) GTEST_SKIP() << "built without oneDNN, which computes what has no parts";
    ASSERT_NE(ours, runs.end());
    expect_all_near({*ours}, library->values, 2e-5);
    EXPECT_FALSE(std::ranges::all_of(ours->values, [](double v) { return std::isfinite(v); }));
  }
}

// Results, a gradient by the image and one by weights. cpu_conv_test.cpp compares what they compute.
std::vector<std::string> amx_convs(DType dtype, int64_t channels, int64_t results, int64_t stride) {
  Attrs attrs = padded_3x3;
  attrs.set("stride", Ints{stride, stride});
  const auto operand = [&](const Shape& shape, Layout layout) {
    return OperandDesc{dtype, shape, layout, contiguous_strides(shape)};
  };
  const OperandDesc x = operand({2, channels, 8, 8}, {16}), w = operand({results, channels, 3, 3}, {}),
                    y = operand({2, results, (8 - 1) / stride + 1, (8 - 1) / stride + 1}, {16});
  const std::vector<std::pair<std::string, std::vector<OperandDesc>>> all = {
      {"conv2d", {x, w, y}}, {"conv2d_input_grad", {y, w, x}}, {"conv2d_weight_grad", {x, y, w}}};
  std::vector<std::string> found;
  for (const auto& [name, operands] : all) {
    const Op op = make_op(name);
    KernelRequest request{&op, attrs, {operands[0], operands[1]}, {operands[2]}, {}};
    request.epilogue = program_of({}, request);
    for (const Candidate& candidate : cpu().candidates(0, request))
      if (candidate.name.starts_with("AMX conv")) found.push_back(name);
  }
  return found;
}

TEST_F(CpuAmx, ConvolutionsAreOffered) {
  using Names = std::vector<std::string>;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    EXPECT_EQ(amx_convs(dtype, 32, 64, 1), Names({"conv2d", "conv2d_input_grad", "conv2d_weight_grad"}));
    EXPECT_EQ(amx_convs(dtype, 32, 48, 1), Names({"conv2d", "conv2d_weight_grad"}));
    EXPECT_EQ(amx_convs(dtype, 64, 32, 2), Names({"conv2d", "conv2d_weight_grad"}));
    EXPECT_EQ(amx_convs(dtype, 48, 48, 1), Names());
  }
}

}  // namespace
}  // namespace athanor::testing
