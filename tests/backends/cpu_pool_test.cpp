#include <limits>

#include "cpu_kernels.h"

namespace athanor::testing {
namespace {

struct PoolCase {
  Shape x;
  Ints kernel, stride, padding;
  Shape y() const {
    return {x[0], x[1], (x[2] + 2 * padding[0] - kernel[0]) / stride[0] + 1,
            (x[3] + 2 * padding[1] - kernel[1]) / stride[1] + 1};
  }
  Attrs attrs() const { return {{"kernel", kernel}, {"stride", stride}, {"padding", padding}}; }

  /// f(output index, input indices of its window)
  template <class F>
  void each_window(F f) const {
    const Shape out = y();
    for (int64_t plane = 0; plane < x[0] * x[1]; ++plane)
      for (int64_t i = 0; i < out[2]; ++i)
        for (int64_t j = 0; j < out[3]; ++j) {
          std::vector<size_t> window;
          for (int64_t u = 0; u < kernel[0]; ++u)
            for (int64_t v = 0; v < kernel[1]; ++v) {
              const int64_t row = i * stride[0] - padding[0] + u, column = j * stride[1] - padding[1] + v;
              if (row >= 0 && row < x[2] && column >= 0 && column < x[3])
                window.push_back(static_cast<size_t>((plane * x[2] + row) * x[3] + column));
            }
          f(static_cast<size_t>((plane * out[2] + i) * out[3] + j), window);
        }
  }
};

const std::vector<PoolCase> pool_cases = {
    {{1, 1, 1, 1}, {1, 1}, {1, 1}, {0, 0}},    {{2, 3, 8, 8}, {2, 2}, {2, 2}, {0, 0}},
    {{2, 16, 7, 9}, {3, 3}, {2, 2}, {1, 1}},   {{1, 32, 13, 11}, {3, 2}, {1, 3}, {1, 0}},
    {{1, 17, 5, 6}, {5, 3}, {2, 1}, {2, 1}},   {{3, 16, 4, 4}, {4, 4}, {1, 1}, {0, 0}},
    {{1, 48, 28, 28}, {2, 2}, {2, 2}, {0, 0}}, {{0, 3, 4, 4}, {2, 2}, {2, 2}, {0, 0}},
};

std::vector<Layout> layouts_for(const Shape& shape) {
  std::vector<Layout> layouts = {{0}};
  for (const int block : {8, 16})
    if (shape[1] % block == 0) layouts.push_back({block});
  return layouts;
}

class CpuPool : public ::testing::TestWithParam<DType> {};

// Few different values, so that windows have equal maxima.
TestOperand with_ties(DType dtype, const Shape& shape, Layout layout) {
  auto values = random_values(shape.size(), 5, -3, 3);
  for (double& value : values) value = std::round(value);
  return make_value(dtype, shape, values, layout);
}

TEST_P(CpuPool, Max) {
  for (const PoolCase& c : pool_cases)
    for (const Layout layout : layouts_for(c.x)) {
      std::vector<TestOperand> inputs = {random_value(GetParam(), c.x, 1, layout)};
      std::vector<double> y(static_cast<size_t>(c.y().size()), -std::numeric_limits<double>::infinity());
      c.each_window([&](size_t out, const auto& window) {
        for (const size_t i : window) y[out] = std::max(y[out], inputs[0].values[i]);
      });
      expect_all_near(run_all(make_op("max_pool2d"), c.attrs(), inputs, GetParam(), c.y(), layout), y, 0,
                      to_string(c.x));
    }
}

TEST_P(CpuPool, Average) {
  for (const PoolCase& c : pool_cases)
    for (const bool count_padding : {false, true})
      for (const Layout layout : layouts_for(c.x)) {
        std::vector<TestOperand> inputs = {random_value(GetParam(), c.x, 1, layout)};
        Attrs attrs = c.attrs();
        attrs.set("count_include_pad", count_padding);
        std::vector<double> y(static_cast<size_t>(c.y().size()));
        c.each_window([&](size_t out, const auto& window) {
          for (const size_t i : window) y[out] += inputs[0].values[i];
          y[out] /= static_cast<double>(count_padding ? static_cast<size_t>(c.kernel[0] * c.kernel[1])
                                                      : window.size());
        });
        expect_all_near(run_all(make_op("avg_pool2d"), attrs, inputs, GetParam(), c.y(), layout), y,
                        tolerance_of(GetParam()), to_string(c.x));
      }
}

TEST_P(CpuPool, MaxGradientGoesToTheFirstMaximum) {
  for (const PoolCase& c : pool_cases)
    for (const Layout layout : layouts_for(c.x)) {
      std::vector<TestOperand> inputs = {with_ties(GetParam(), c.x, layout),
                                         random_value(GetParam(), c.y(), 2, layout)};
      std::vector<double> dx(static_cast<size_t>(c.x.size()));
      c.each_window([&](size_t out, const auto& window) {
        size_t first = window[0];
        for (const size_t i : window)
          if (inputs[0].values[i] > inputs[0].values[first]) first = i;
        dx[first] += inputs[1].values[out];
      });
      expect_all_near(run_all(make_op("max_pool2d_grad"), c.attrs(), inputs, GetParam(), c.x, layout), dx,
                      tolerance_of(GetParam()), to_string(c.x));
    }
}

TEST_P(CpuPool, AverageGradient) {
  for (const PoolCase& c : pool_cases)
    for (const bool count_padding : {false, true})
      for (const Layout layout : layouts_for(c.x)) {
        std::vector<TestOperand> inputs = {random_value(GetParam(), c.y(), 2, layout)};
        Attrs attrs = c.attrs();
        attrs.set("count_include_pad", count_padding);
        attrs.set("input_shape", c.x.to_ints());
        std::vector<double> dx(static_cast<size_t>(c.x.size()));
        c.each_window([&](size_t out, const auto& window) {
          const auto divisor = static_cast<double>(
              count_padding ? static_cast<size_t>(c.kernel[0] * c.kernel[1]) : window.size());
          for (const size_t i : window) dx[i] += inputs[0].values[out] / divisor;
        });
        expect_all_near(run_all(make_op("avg_pool2d_grad"), attrs, inputs, GetParam(), c.x, layout), dx,
                        tolerance_of(GetParam()), to_string(c.x));
      }
}

TEST_P(CpuPool, StridedInputs) {
  const PoolCase c{{2, 3, 6, 8}, {2, 2}, {2, 2}, {0, 0}};
  std::vector<TestOperand> inputs = {random_value(GetParam(), c.x, 1, {}, {144, 1, 24, 3}),
                                     random_value(GetParam(), c.y(), 2, {}, {36, 1, 12, 3})};
  std::vector<double> dx(static_cast<size_t>(c.x.size()));
  c.each_window([&](size_t out, const auto& window) {
    size_t first = window[0];
    for (const size_t i : window)
      if (inputs[0].values[i] > inputs[0].values[first]) first = i;
    dx[first] += inputs[1].values[out];
  });
  expect_all_near(run_all(make_op("max_pool2d_grad"), c.attrs(), inputs, GetParam(), c.x), dx, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Types, CpuPool, ::testing::Values(DType::f32, DType::f64, DType::f16, DType::bf16),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

TEST(CpuPoolNaN, TakesTheGradient) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<TestOperand> inputs = {make_value(DType::f32, {1, 1, 2, 2}, {1, nan, 3, 2}),
                                     make_value(DType::f32, {1, 1, 1, 1}, {5})};
  const Attrs attrs = {{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}, {"padding", Ints{0, 0}}};
  expect_all_near(run_all(make_op("max_pool2d_grad"), attrs, inputs, DType::f32, {1, 1, 2, 2}), {0, 5, 0, 0},
                  0);
}

}  // namespace
}  // namespace athanor::testing
