// grouped_matmul and its gradient by the matrices.
#include "athanor/base/threads.h"
#include "cpu_kernels.h"
#include "tests/support/expect_error.h"

namespace athanor::testing {
namespace {

std::vector<double> meaning(const std::string& op, const std::vector<TestOperand>& inputs) {
  std::vector<RefArray> arrays;
  for (const TestOperand& input : inputs) {
    arrays.emplace_back(input.desc.shape);
    arrays.back().data = input.values;
  }
  return find_op(op).reference(arrays, {}).data;
}

void check_groups(DType dtype, int64_t rows, int64_t inner, int64_t columns, const std::vector<double>& ends,
                  bool turned) {
  const auto groups = static_cast<int64_t>(ends.size());
  const auto matrix = [&](const Shape& shape, unsigned seed) {
    return random_value(dtype, shape, seed, {}, turned ? Ints{1, shape[0] + 3} : Ints{});
  };
  const double tolerance = tolerance_of(dtype) * std::sqrt(static_cast<double>(std::max(rows, inner)));
  std::vector<TestOperand> inputs{
      matrix({rows, inner}, 1),
      random_value(dtype, {groups, inner, columns}, 2, {}, turned ? Ints{inner * columns, 1, inner} : Ints{}),
      make_value(DType::i64, {groups}, ends, {}, turned ? Ints{2} : Ints{})};
  expect_all_near(run_all(find_op("grouped_matmul"), {}, inputs, dtype, {rows, columns}),
                  meaning("grouped_matmul", inputs), tolerance);
  inputs[1] = matrix({rows, columns}, 3);
  expect_all_near(run_all(find_op("grouped_matmul_weight_grad"), {}, inputs, dtype, {groups, inner, columns}),
                  meaning("grouped_matmul_weight_grad", inputs), tolerance);
}

TEST(CpuGroupedMatmul, EveryTypeAndStride) {
  for (const DType dtype : float_dtypes())
    for (const bool turned : {false, true}) {
      check_groups(dtype, 23, 5, 9, {4, 4, 17, 20}, turned);
      check_groups(dtype, 700, 300, 70, {1, 650, 660}, turned);  // several blocks of rows, and along K
    }
  check_groups(DType::bf16, 1300, 9, 600, {1200}, false);  // several slabs of rows, several blocks of columns
  check_groups(DType::f32, 3, 1, 1, {1, 3}, false);
}

TEST(CpuGroupedMatmul, EachKernelLooksAtTheEnds) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& ends : std::vector<std::vector<double>>{{300, 200, 400}, {-1, 2, 3}, {1, 2, 401}})
      for (const bool gradient : {false, true}) {
        std::vector<TestOperand> inputs{random_value(dtype, {400, 20}, 1),
                                        random_value(dtype, gradient ? Shape{400, 30} : Shape{3, 20, 30}, 2),
                                        make_value(DType::i64, {3}, ends)};
        const Op& op = find_op(gradient ? "grouped_matmul_weight_grad" : "grouped_matmul");
        const KernelRequest request =
            request_of(op, {}, inputs, dtype, gradient ? Shape{3, 20, 30} : Shape{400, 30});
        for (const Candidate& candidate : cpu().candidates(0, request))
          expect_error(ErrorCode::value, {"ends at row", "[0, 400]"},
                       [&] { run_candidate(candidate, inputs, request.output()); });
      }
}

// Threads share rows and columns. More of them than cores are no error.
TEST(CpuGroupedMatmul, AnyNumberOfThreads) {
  for (const int threads : {1, 2, 3, 7, 16, 48}) {
    set_cpu_threads(threads);
    SCOPED_TRACE(threads);
    for (const int64_t rows : {1, 40, 1000})
      for (const int64_t columns : {1, 33, 260}) {
        const auto part = [&](int64_t i) {
          const int64_t row = rows * i / 8;
          return static_cast<double>(row);
        };
        check_groups(DType::f32, rows, 30, columns, {part(0), part(1), part(7), part(7)}, false);
      }
    check_groups(DType::f32, 64, 500, 8, {64}, false);
  }
  set_cpu_threads(0);
}

// The order of a sum does not depend on how rows are divided among threads.
TEST(CpuGroupedMatmul, TheSameBitsWithAnyNumberOfThreads) {
  std::vector<TestOperand> inputs{random_value(DType::f32, {500, 300}, 1),
                                  random_value(DType::f32, {3, 300, 100}, 2),
                                  make_value(DType::i64, {3}, {20, 400, 490})};
  std::vector<double> first;
  for (const int threads : {1, 3, 8}) {
    set_cpu_threads(threads);
    for (const auto& run : run_all(find_op("grouped_matmul"), {}, inputs, DType::f32, {500, 100})) {
      if (!run.candidate.starts_with("generic")) continue;  // libraries promise nothing
      if (first.empty()) first = run.values;
      EXPECT_EQ(run.values, first) << threads << " threads";
    }
  }
  set_cpu_threads(0);
}

}  // namespace
}  // namespace athanor::testing
