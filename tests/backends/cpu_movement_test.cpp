// pad, concat, fold, reorder.
#include "cpu_kernels.h"

namespace athanor::testing {
namespace {

TEST(CpuPad, PadsAndCrops) {
  const Op pad = make_op("pad", Prim::pad);
  const Ints lows[] = {{0, 0, 0}, {1, 2, 3}, {-1, 0, 1}, {2, -1, -2}},
             highs[] = {{0, 0, 0}, {3, 0, 1}, {1, -1, -3}};
  const Shape shape{3, 4, 7};
  for (const DType dtype : all_dtypes())
    for (const auto& low : lows)
      for (const auto& high : highs)
        for (const Ints& strides : {Ints{}, Ints{1, 21, 3}}) {
          std::vector<TestOperand> inputs = {random_value(dtype, shape, 1, {}, strides)};
          Ints extents;
          for (size_t i = 0; i < 3; ++i)
            extents.push_back(std::max<int64_t>(0, shape[static_cast<int>(i)] + low[i] + high[i]));
          const Shape out(extents);
          std::vector<double> expected;
          for (int64_t a = -low[0]; a < out[0] - low[0]; ++a)
            for (int64_t b = -low[1]; b < out[1] - low[1]; ++b)
              for (int64_t c = -low[2]; c < out[2] - low[2]; ++c) {
                const bool inside = a >= 0 && a < 3 && b >= 0 && b < 4 && c >= 0 && c < 7;
                expected.push_back(inside ? inputs[0].values[static_cast<size_t>((a * 4 + b) * 7 + c)] : 1);
              }
          expect_all_near(run_all(pad, {{"low", low}, {"high", high}, {"value", 1.0}}, inputs, dtype, out),
                          expected, 0, to_string(Shape{}) + to_string(dtype).data());
        }
}

TEST(CpuConcat, EveryAxis) {
  const Op concat = make_op("concat", Prim::concat);
  for (const DType dtype : all_dtypes())
    for (const int axis : {0, 1, 2}) {
      Shape first{3, 4, 5}, second = first.with(axis, 2), empty = first.with(axis, 0);
      std::vector<TestOperand> inputs = {
          random_value(dtype, first, 1), random_value(dtype, empty, 2),
          random_value(dtype, second, 3, {}, {1, second[0] * second[2], second[0]})};
      const Shape out = first.with(axis, first[axis] + 2);
      std::vector<double> expected;
      for (int64_t i = 0; i < out[0]; ++i)
        for (int64_t j = 0; j < out[1]; ++j)
          for (int64_t k = 0; k < out[2]; ++k) {
            int64_t at[] = {i, j, k};
            const bool in_first = at[axis] < first[axis];
            if (!in_first) at[axis] -= first[axis];
            const Shape& shape = in_first ? first : second;
            expected.push_back(
                inputs[in_first ? 0 : 2]
                    .values[static_cast<size_t>((at[0] * shape[1] + at[1]) * shape[2] + at[2])]);
          }
      expect_all_near(run_all(concat, {{"axis", int64_t{axis}}}, inputs, dtype, out), expected, 0);
    }
}

TEST(CpuFold, SumsOverlappingWindows) {
  const Op fold = make_op("fold", Prim::fold);
  struct Case {
    int64_t outer, windows, k, inner, size, step, dilation;
  };
  for (const auto& c : {Case{2, 3, 3, 1, 7, 2, 1}, Case{3, 4, 2, 5, 9, 1, 3}, Case{1, 2, 2, 300, 6, 4, 1},
                        Case{2, 0, 3, 2, 4, 1, 1}, Case{1, 1, 1, 1, 1, 1, 1}})
    for (const DType dtype : all_dtypes())
      for (const bool transposed : {false, true}) {
        if (dtype == DType::b8) continue;
        const Shape shape{c.outer, c.windows, c.k, c.inner}, out{c.outer, c.size, c.inner};
        const Ints strides =
            transposed ? Ints{c.inner, c.k * c.outer * c.inner, c.outer * c.inner, 1} : Ints{};
        std::vector<TestOperand> inputs = {random_value(dtype, shape, 1, {}, strides)};
        std::vector<double> expected(static_cast<size_t>(out.size()));
        for (int64_t o = 0; o < c.outer; ++o)
          for (int64_t w = 0; w < c.windows; ++w)
            for (int64_t j = 0; j < c.k; ++j)
              for (int64_t i = 0; i < c.inner; ++i)
                expected[static_cast<size_t>((o * c.size + w * c.step + j * c.dilation) * c.inner + i)] +=
                    inputs[0].values[static_cast<size_t>(((o * c.windows + w) * c.k + j) * c.inner + i)];
        const Attrs attrs = {
            {"axis", int64_t{1}}, {"size", c.size}, {"step", c.step}, {"dilation", c.dilation}};
        expect_all_near(run_all(fold, attrs, inputs, dtype, out), expected, tolerance_of(dtype));
      }
}

TEST(CpuFold, LastAxis) {
  std::vector<TestOperand> inputs = {random_value(DType::f32, {2, 3, 2}, 1)};
  const auto& v = inputs[0].values;
  const Attrs attrs = {
      {"axis", int64_t{1}}, {"size", int64_t{4}}, {"step", int64_t{1}}, {"dilation", int64_t{1}}};
  expect_all_near(run_all(make_op("fold", Prim::fold), attrs, inputs, DType::f32, {2, 4}),
                  {v[0], v[1] + v[2], v[3] + v[4], v[5], v[6], v[7] + v[8], v[9] + v[10], v[11]}, 1e-6);
}

TEST(CpuReorder, BothWays) {
  const Op reorder = make_op("reorder");
  for (const DType dtype : all_dtypes())
    for (const Shape& shape : {Shape{2, 16, 3, 5}, Shape{1, 48, 7, 7}, Shape{3, 16, 1, 1},
                               Shape{1, 32, 17, 23}, Shape{0, 16, 2, 2}})
      for (const int64_t block : {8, 16}) {
        const Layout blocked{static_cast<int>(block)};
        const Ints nhwc = {shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]};
        for (const Ints& strides : {Ints{}, nhwc}) {
          std::vector<TestOperand> rows = {random_value(dtype, shape, 1, {}, strides)};
          expect_all_near(run_all(reorder, {{"from_block", int64_t{0}}, {"to_block", block}}, rows, dtype,
                                  shape, blocked),
                          rows[0].values, 0);
        }
        std::vector<TestOperand> blocks = {random_value(dtype, shape, 1, blocked)};
        expect_all_near(
            run_all(reorder, {{"from_block", block}, {"to_block", int64_t{0}}}, blocks, dtype, shape),
            blocks[0].values, 0);
      }
}

TEST(CpuReorder, BroadcastInput) {
  std::vector<TestOperand> inputs = {
      make_value(DType::f32, {1, 16, 1, 2}, std::vector<double>(32, 3.0), {}, {0, 0, 0, 0})};
  expect_all_near(run_all(make_op("reorder"), {}, inputs, DType::f32, {1, 16, 1, 2}, {16}),
                  std::vector<double>(32, 3.0), 0);
}

}  // namespace
}  // namespace athanor::testing
