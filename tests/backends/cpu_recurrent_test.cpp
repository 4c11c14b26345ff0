// lstm, gru and their gradients against their references, however the work is divided among threads.
#include "athanor/base/threads.h"
#include "cpu_kernels.h"

namespace athanor::testing {
namespace {

struct RecurrentSize {
  int64_t batch, times, h;
};

class CpuRecurrent : public ::testing::TestWithParam<RecurrentSize> {
 protected:
  void TearDown() override { set_cpu_threads(0); }

  static void check(const std::string& name, std::vector<TestOperand> inputs, const Shape& shape,
                    double tolerance) {
    const DType dtype = inputs[0].desc.dtype;
    const Op& op = find_op(name);
    std::vector<RefArray> arrays;
    for (const TestOperand& input : inputs) {
      arrays.emplace_back(input.desc.shape);
      arrays.back().data = input.values;
    }
    const std::vector<double> want = op.reference(arrays, {}).data;
    for (const int threads : {1, 2, 3}) {
      set_cpu_threads(threads);
      expect_all_near(run_all(op, {}, inputs, dtype, shape), want, tolerance,
                      name + ", " + std::to_string(threads) + " threads");
    }
  }
};

TEST_P(CpuRecurrent, IsItsReference) {
  const auto [n, t, h] = GetParam();
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double tolerance = 16 * tolerance_of(dtype);
    const auto given = [&](const Shape& shape, unsigned seed) { return random_value(dtype, shape, seed); };
    const auto weight = [&](int64_t gates) {
      const double reach = 1 / std::sqrt(static_cast<double>(h));
      return make_value(dtype, {gates * h, h}, random_values(gates * h * h, 2, -reach, reach));
    };
    check("lstm", {given({n, t, 4 * h}, 1), weight(4), given({n, h}, 3), given({n, h}, 4)}, {n, t, 2 * h},
          tolerance);
    check("gru", {given({n, t, 3 * h}, 1), weight(3), given({3 * h}, 3), given({n, h}, 4)}, {n, t, h},
          tolerance);
    check("lstm_grad",
          {given({n, t, 4 * h}, 1), weight(4), given({n, h}, 3), given({n, t, 2 * h}, 4),
           given({n, t, 2 * h}, 5)},
          {n, t, 5 * h}, 4 * tolerance);
    check("gru_grad",
          {given({n, t, 3 * h}, 1), given({n, t, 3 * h}, 6), weight(3), given({n, h}, 3), given({n, t, h}, 4),
           given({n, t, h}, 5)},
          {n, t, 5 * h}, 4 * tolerance);
  }
}

// Features that fill no vector; few examples, where threads divide the features, with one and several blocks
// of a row; more examples than the rows of one thread's tile.
INSTANTIATE_TEST_SUITE_P(Sizes, CpuRecurrent,
                         ::testing::Values(RecurrentSize{5, 3, 21}, RecurrentSize{1, 2, 1},
                                           RecurrentSize{3, 3, 128}, RecurrentSize{1, 2, 288},
                                           RecurrentSize{30, 2, 40}));

}  // namespace
}  // namespace athanor::testing
