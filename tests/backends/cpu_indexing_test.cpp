// take_along, scatter_add, cumsum, argsort.
#include <algorithm>
#include <limits>
#include <numeric>

#include "athanor/base/error.h"
#include "cpu_kernels.h"

namespace athanor::testing {
namespace {

/// Strides of [outer, n, inner] transposed in memory (else row-major). Ops run along the middle axis.
Ints transposed(const Shape& shape) { return {1, shape[0] * shape[2], shape[0]}; }

TestOperand random_indices(DType dtype, const Shape& shape, int64_t extent, const Ints& strides = {}) {
  auto values = random_values(shape.size(), 7, 0, static_cast<double>(extent));
  for (double& value : values) value = std::floor(value);
  return make_value(dtype, shape, values, {}, strides);
}

size_t at(const Shape& shape, int64_t o, int64_t p, int64_t i) {
  return static_cast<size_t>((o * shape[1] + p) * shape[2] + i);
}

TEST(CpuTakeAlong, EveryTypeAndStride) {
  const Op take = make_op("take_along", Prim::take_along);
  for (const DType dtype : all_dtypes())
    for (const DType index_type : {DType::i64, DType::i32})
      for (const bool turned : {false, true}) {
        const Shape x{3, 5, 7}, index{3, 4, 7};
        std::vector<TestOperand> inputs = {
            random_value(dtype, x, 1, {}, turned ? transposed(x) : Ints{}),
            random_indices(index_type, index, 5, turned ? transposed(index) : Ints{})};
        std::vector<double> expected;
        for (int64_t o = 0; o < 3; ++o)
          for (int64_t p = 0; p < 4; ++p)
            for (int64_t i = 0; i < 7; ++i)
              expected.push_back(
                  inputs[0].values[at(x, o, static_cast<int64_t>(inputs[1].values[at(index, o, p, i)]), i)]);
        expect_all_near(run_all(take, {{"axis", int64_t{1}}}, inputs, dtype, index), expected, 0);
      }
}

TEST(CpuTakeAlong, Embedding) {  // rows of a table; the indices are broadcast along the row
  std::vector<TestOperand> inputs = {
      random_value(DType::f32, {11, 33}, 1),
      make_value(DType::i64, {4, 33}, std::vector<double>(132, 0), {}, {1, 0})};
  const int64_t rows[] = {10, 0, 3, 3};
  std::memcpy(inputs[1].address(), rows, sizeof rows);
  std::vector<double> expected;
  for (const int64_t row : rows)
    for (int64_t i = 0; i < 33; ++i) expected.push_back(inputs[0].values[static_cast<size_t>(row * 33 + i)]);
  expect_all_near(
      run_all(make_op("take_along", Prim::take_along), {{"axis", int64_t{0}}}, inputs, DType::f32, {4, 33}),
      expected, 0);
}

void expect_bad_index(const Op& op, const Attrs& attrs, std::vector<TestOperand> inputs, const Shape& out,
                      const std::string& index) {
  try {
    run_all(op, attrs, inputs, DType::f32, out);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::value);
    EXPECT_NE(std::string(error.what()).find(index), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("extent 3"), std::string::npos) << error.what();
  }
}

TEST(CpuTakeAlong, BadIndices) {
  for (const char* index : {"-1", "3", "99"})
    for (const DType type : {DType::i64, DType::i32}) {
      const double value = std::stod(index);
      expect_bad_index(make_op("take_along", Prim::take_along), {{"axis", int64_t{0}}},
                       {random_value(DType::f32, {3}, 1), make_value(type, {2}, {1, value})}, {2}, index);
      expect_bad_index(make_op("scatter_add", Prim::scatter_add),
                       {{"axis", int64_t{0}}, {"extent", int64_t{3}}},
                       {make_value(type, {2}, {1, value}), random_value(DType::f32, {2}, 1)}, {3}, index);
    }
  // Many rows, so that several threads find bad indices.
  std::vector<double> many(100000, 1);
  many[70000] = -5, many[99999] = 7;
  expect_bad_index(make_op("take_along", Prim::take_along), {{"axis", int64_t{0}}},
                   {random_value(DType::f32, {3}, 1), make_value(DType::i64, {100000}, many)}, {100000},
                   "index ");
}

TEST(CpuScatterAdd, EveryTypeAndStride) {
  const Op scatter = make_op("scatter_add", Prim::scatter_add);
  for (const DType dtype : all_dtypes())
    for (const DType index_type : {DType::i64, DType::i32})
      for (const bool turned : {false, true}) {
        const Shape source{3, 6, 7}, out{3, 4, 7};
        std::vector<TestOperand> inputs = {
            random_indices(index_type, source, 4, turned ? transposed(source) : Ints{}),
            random_value(dtype, source, 1, {}, turned ? transposed(source) : Ints{})};
        std::vector<double> expected(static_cast<size_t>(out.size()));
        for (int64_t o = 0; o < 3; ++o)
          for (int64_t p = 0; p < 6; ++p)
            for (int64_t i = 0; i < 7; ++i)
              expected[at(out, o, static_cast<int64_t>(inputs[0].values[at(source, o, p, i)]), i)] +=
                  inputs[1].values[at(source, o, p, i)];
        if (dtype == DType::b8)
          for (double& value : expected) value = value != 0;
        expect_all_near(run_all(scatter, {{"axis", int64_t{1}}, {"extent", int64_t{4}}}, inputs, dtype, out),
                        expected, tolerance_of(dtype));
      }
}

TEST(CpuScatterAdd, EmbeddingGradient) {
  const int64_t n = 50, width = 130, vocabulary = 9;
  std::vector<TestOperand> inputs = {
      make_value(DType::i64, {n, width}, std::vector<double>(static_cast<size_t>(n * width)), {}, {1, 0}),
      random_value(DType::f32, {n, width}, 2)};
  std::vector<double> expected(static_cast<size_t>(vocabulary * width));
  for (int64_t p = 0; p < n; ++p) {
    const int64_t row = p * p % vocabulary;
    std::memcpy(static_cast<int64_t*>(inputs[0].address()) + p, &row, sizeof row);
    for (int64_t i = 0; i < width; ++i)
      expected[static_cast<size_t>(row * width + i)] += inputs[1].values[static_cast<size_t>(p * width + i)];
  }
  expect_all_near(
      run_all(make_op("scatter_add", Prim::scatter_add), {{"axis", int64_t{0}}, {"extent", vocabulary}},
              inputs, DType::f32, {vocabulary, width}),
      expected, 1e-6);
}

TEST(CpuCumsum, EveryTypeAndStride) {
  for (const DType dtype : all_dtypes())
    for (const bool turned : {false, true})
      for (const Shape& shape : {Shape{3, 5, 7}, Shape{1, 3, 600}, Shape{2, 17, 1}, Shape{2, 0, 3}}) {
        if (dtype == DType::b8) continue;
        std::vector<TestOperand> inputs = {
            random_value(dtype, shape, 1, {}, turned ? transposed(shape) : Ints{})};
        std::vector<double> expected(inputs[0].values);
        for (int64_t o = 0; o < shape[0]; ++o)
          for (int64_t p = 1; p < shape[1]; ++p)
            for (int64_t i = 0; i < shape[2]; ++i)
              expected[at(shape, o, p, i)] += expected[at(shape, o, p - 1, i)];
        if (!is_float(dtype)) expected = to_doubles(from_doubles(dtype, shape, expected));
        expect_all_near(
            run_all(make_op("cumsum", Prim::cumsum), {{"axis", int64_t{1}}}, inputs, dtype, shape), expected,
            tolerance_of(dtype));
      }
}

TEST(CpuArgsort, StableBothWays) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (const DType dtype : all_dtypes())
    for (const bool descending : {false, true})
      for (const bool turned : {false, true}) {
        const Shape shape{3, 40, 5};
        auto values = random_values(shape.size(), 3, dtype == DType::u8 ? 0 : -4, 4);
        for (double& value : values) value = std::round(value);  // many equal values, and -0 beside 0
        if (is_float(dtype)) values[7] = values[100] = nan, values[8] = inf, values[9] = -inf;
        std::vector<TestOperand> inputs = {
            make_value(dtype, shape, values, {}, turned ? transposed(shape) : Ints{})};
        std::vector<double> expected(static_cast<size_t>(shape.size()));
        for (int64_t o = 0; o < shape[0]; ++o)
          for (int64_t i = 0; i < shape[2]; ++i) {
            std::vector<int64_t> order(static_cast<size_t>(shape[1]));
            std::iota(order.begin(), order.end(), 0);
            std::ranges::stable_sort(order, [&](int64_t p, int64_t q) {
              double a = inputs[0].values[at(shape, o, p, i)], b = inputs[0].values[at(shape, o, q, i)];
              if (descending) std::swap(a, b);
              return std::isnan(b) ? !std::isnan(a) : a < b;
            });
            for (int64_t p = 0; p < shape[1]; ++p)
              expected[at(shape, o, p, i)] = static_cast<double>(order[static_cast<size_t>(p)]);
          }
        expect_all_near(
            run_all(make_op("argsort", Prim::argsort), {{"axis", int64_t{1}}, {"descending", descending}},
                    inputs, DType::i64, shape),
            expected, 0, std::string(to_string(dtype)));
      }
}

}  // namespace
}  // namespace athanor::testing
