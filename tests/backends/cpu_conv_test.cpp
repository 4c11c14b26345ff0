#include "cpu_kernels.h"

namespace athanor::testing {
namespace {

struct ConvCase {
  int64_t n, c, h, w, o, k_h, k_w;
  Ints stride{1, 1}, padding{0, 0}, dilation{1, 1};
  int64_t groups = 1;

  Shape x() const { return {n, c, h, w}; }
  Shape weights() const { return {o, c / groups, k_h, k_w}; }
  int64_t extent(int64_t in, int64_t k, size_t axis) const {
    return (in + 2 * padding[axis] - dilation[axis] * (k - 1) - 1) / stride[axis] + 1;
  }
  Shape y() const { return {n, o, extent(h, k_h, 0), extent(w, k_w, 1)}; }
  Attrs attrs() const {
    return {{"stride", stride}, {"padding", padding}, {"dilation", dilation}, {"groups", groups}};
  }

  /// f(index into x, into w, into y) for every product of the convolution.
  template <class F>
  void each(F f) const {
    const Shape out = y();
    const int64_t in_group = c / groups, out_group = o / groups;
    for (int64_t b = 0; b < n; ++b)
      for (int64_t q = 0; q < o; ++q)
        for (int64_t i = 0; i < out[2]; ++i)
          for (int64_t j = 0; j < out[3]; ++j)
            for (int64_t p = 0; p < in_group; ++p)
              for (int64_t u = 0; u < k_h; ++u)
                for (int64_t v = 0; v < k_w; ++v) {
                  const int64_t row = i * stride[0] - padding[0] + u * dilation[0];
                  const int64_t column = j * stride[1] - padding[1] + v * dilation[1];
                  if (row < 0 || row >= h || column < 0 || column >= w) continue;
                  const int64_t channel = q / out_group * in_group + p;
                  f(static_cast<size_t>(((b * c + channel) * h + row) * w + column),
                    static_cast<size_t>(((q * in_group + p) * k_h + u) * k_w + v),
                    static_cast<size_t>(((b * o + q) * out[2] + i) * out[3] + j));
                }
  }
};

const std::vector<ConvCase> cases = {
    {1, 1, 1, 1, 1, 1, 1},
    {2, 3, 7, 9, 5, 3, 3, {1, 1}, {1, 1}},
    {2, 16, 8, 8, 32, 3, 3, {1, 1}, {1, 1}},
    {1, 32, 9, 7, 16, 3, 3, {2, 2}, {1, 1}},
    {3, 32, 13, 10, 48, 3, 3, {1, 1}, {0, 2}},
    {9, 16, 21, 33, 16, 3, 3, {1, 1}, {2, 1}},
    {2, 160, 5, 3, 112, 3, 3, {1, 1}, {1, 1}},
    {3, 1, 12, 12, 16, 5, 5, {1, 1}, {2, 2}},
    {2, 3, 17, 17, 32, 7, 7, {2, 2}, {3, 3}},
    {1, 17, 13, 11, 19, 3, 2, {2, 3}, {2, 1}, {2, 1}},
    {2, 16, 10, 10, 16, 3, 3, {1, 1}, {2, 2}, {2, 2}},
    {2, 32, 6, 6, 64, 1, 1, {2, 2}},
    {1, 32, 8, 8, 32, 3, 3, {1, 1}, {1, 1}, {1, 1}, 32},
    {1, 32, 8, 8, 32, 3, 3, {1, 1}, {1, 1}, {1, 1}, 2},
    {1, 12, 6, 5, 6, 3, 3, {1, 2}, {1, 0}, {1, 1}, 3},
    {10, 32, 13, 17, 32, 3, 3, {1, 1}, {1, 1}},  // more windows than a product packs at a time
    {2, 64, 11, 9, 32, 3, 2, {2, 1}, {1, 3}, {1, 2}},
    {3, 96, 7, 7, 32, 1, 1},
    {2, 16, 3, 1, 16, 3, 3, {2, 2}, {1, 1}},  // rows shorter than the stride
    {2, 32, 4, 2, 16, 3, 3, {3, 3}, {1, 1}},
};

// Winograd's transforms lose a few bits.
double conv_tolerance(DType dtype) { return dtype == DType::bf16 ? 2e-2 : 2e-5; }

/// The layouts in which an op is tested: row-major, and the backend's preferred ones.
std::vector<std::vector<Layout>> layouts_of(const Op& op, const std::vector<TensorType>& inputs,
                                            const TensorType& output, const Attrs& attrs) {
  std::vector<std::vector<Layout>> all = {std::vector<Layout>(inputs.size() + 1)};
  const auto preferred = cpu().preferred_layouts(op, inputs, output, attrs);
  if (!preferred.empty() && preferred != all[0]) all.push_back(preferred);
  return all;
}

class CpuConv : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!supported()) GTEST_SKIP() << "no convolution kernels for " << to_string(GetParam()) << " here";
  }
  static bool supported() {
    const std::vector<TensorType> inputs = {{GetParam(), cases[1].x(), {}},
                                            {GetParam(), cases[1].weights(), {}}};
    return cpu().has_kernel(make_op("conv2d"), inputs, {GetParam(), cases[1].y(), {}}, cases[1].attrs());
  }

  /// Runs an op of two inputs in every layout and compares all candidates. `strides`: of the second input.
  void check(const Op& op, const Attrs& attrs, const Shape& first, const Shape& second, const Shape& output,
             const std::function<std::vector<double>(const std::vector<double>&, const std::vector<double>&)>&
                 expect,
             const Ints& strides = {}) {
    const DType dtype = GetParam();
    for (const auto& layouts :
         layouts_of(op, {{dtype, first, {}}, {dtype, second, {}}}, {dtype, output, {}}, attrs)) {
      std::vector<TestOperand> inputs = {random_value(dtype, first, 1, layouts[0]),
                                         random_value(dtype, second, 2, layouts[1], strides)};
      expect_all_near(
          run_all(op, attrs, inputs, dtype, output, layouts[2]), expect(inputs[0].values, inputs[1].values),
          conv_tolerance(dtype),
          op.name + to_string(first) + to_string(second) + to_string(layouts[0]) + " " + to_string(attrs));
    }
  }
};

TEST_P(CpuConv, Forward) {
  for (const ConvCase& c : cases)
    check(make_op("conv2d"), c.attrs(), c.x(), c.weights(), c.y(), [&](const auto& x, const auto& w) {
      std::vector<double> y(static_cast<size_t>(c.y().size()));
      c.each([&](size_t i, size_t j, size_t k) { y[k] += x[i] * w[j]; });
      return y;
    });
}

TEST_P(CpuConv, InputGradient) {
  for (const ConvCase& c : cases) {
    Attrs attrs = c.attrs();
    attrs.set("input_shape", c.x().to_ints());
    check(make_op("conv2d_input_grad"), attrs, c.y(), c.weights(), c.x(), [&](const auto& dy, const auto& w) {
      std::vector<double> dx(static_cast<size_t>(c.x().size()));
      c.each([&](size_t i, size_t j, size_t k) { dx[i] += dy[k] * w[j]; });
      return dx;
    });
  }
}

TEST_P(CpuConv, WeightGradient) {
  for (const ConvCase& c : cases) {
    Attrs attrs = c.attrs();
    attrs.set("weight_shape", c.weights().to_ints());
    check(make_op("conv2d_weight_grad"), attrs, c.x(), c.y(), c.weights(),
          [&](const auto& x, const auto& dy) {
            std::vector<double> dw(static_cast<size_t>(c.weights().size()));
            c.each([&](size_t i, size_t j, size_t k) { dw[j] += x[i] * dy[k]; });
            return dw;
          });
  }
}

TEST_P(CpuConv, Epilogues) {
  const DType dtype = GetParam();
  const Op op = make_op("conv2d");
  for (const ConvCase& c : {cases[1], cases[2], cases[6], cases[10]})
    for (const char* activation : {"", "relu", "tanh", "sigmoid"})
      for (const auto& layouts :
           layouts_of(op, {{dtype, c.x(), {}}, {dtype, c.weights(), {}}}, {dtype, c.y(), {}}, c.attrs())) {
        std::vector<TestOperand> inputs = {random_value(dtype, c.x(), 1, layouts[0]),
                                           random_value(dtype, c.weights(), 2),
                                           random_value(dtype, {c.o}, 3)};
        std::vector<double> y(static_cast<size_t>(c.y().size()));
        c.each([&](size_t i, size_t j, size_t k) { y[k] += inputs[0].values[i] * inputs[1].values[j]; });
        const int64_t pixels = c.y()[2] * c.y()[3];
        for (size_t i = 0; i < y.size(); ++i) {
          const double sum =
              y[i] + inputs[2].values[i / static_cast<size_t>(pixels) % static_cast<size_t>(c.o)];
          const std::string name = activation;
          y[i] = name == "relu"      ? std::max(sum, 0.0)
                 : name == "tanh"    ? std::tanh(sum)
                 : name == "sigmoid" ? 1 / (1 + std::exp(-sum))
                                     : sum;
        }
        expect_all_near(run_all(op, c.attrs(), inputs, dtype, c.y(), layouts[2],
                                {.bias = true, .activation = activation}),
                        y, conv_tolerance(dtype), activation);
      }
}

TEST_P(CpuConv, StridedInputs) {
  const DType dtype = GetParam();
  const ConvCase c{2, 4, 6, 5, 8, 3, 3, {1, 1}, {1, 1}};
  // Both are transposed views: x is [N, H, W, C] in memory, w is [I, O, H, W].
  std::vector<TestOperand> inputs = {random_value(dtype, c.x(), 1, {}, {120, 1, 20, 4}),
                                     random_value(dtype, c.weights(), 2, {}, {9, 72, 3, 1})};
  std::vector<double> y(static_cast<size_t>(c.y().size()));
  c.each([&](size_t i, size_t j, size_t k) { y[k] += inputs[0].values[i] * inputs[1].values[j]; });
  expect_all_near(run_all(make_op("conv2d"), c.attrs(), inputs, dtype, c.y()), y, conv_tolerance(dtype));
}

// The same with blocked channels. The weights are [I, O, H, W] in memory.
TEST_P(CpuConv, StridedWeights) {
  const ConvCase c{2, 32, 6, 5, 64, 3, 3, {1, 1}, {1, 1}};
  const Ints strides{9, 9 * 64, 3, 1};
  check(
      make_op("conv2d"), c.attrs(), c.x(), c.weights(), c.y(),
      [&](const auto& x, const auto& w) {
        std::vector<double> y(static_cast<size_t>(c.y().size()));
        c.each([&](size_t i, size_t j, size_t k) { y[k] += x[i] * w[j]; });
        return y;
      },
      strides);
  Attrs attrs = c.attrs();
  attrs.set("input_shape", c.x().to_ints());
  check(
      make_op("conv2d_input_grad"), attrs, c.y(), c.weights(), c.x(),
      [&](const auto& dy, const auto& w) {
        std::vector<double> dx(static_cast<size_t>(c.x().size()));
        c.each([&](size_t i, size_t j, size_t k) { dx[i] += dy[k] * w[j]; });
        return dx;
      },
      strides);
}

INSTANTIATE_TEST_SUITE_P(Types, CpuConv, ::testing::Values(DType::f32, DType::bf16),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

}  // namespace
}  // namespace athanor::testing
