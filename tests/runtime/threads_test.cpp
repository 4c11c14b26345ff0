// Threads that evaluate at the same time: each has its own graph and plans, and all share the tables of ops
// and kernels and the tuner's winners. Their graphs may start from the same parameters. The preset tsan shows
// races here.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <string>
#include <thread>

#include "athanor/graph/op.h"
#include "athanor/kernels/tuning_cache.h"
#include "athanor/ops/ops.h"

namespace athanor {
namespace {

// Products with a number of rows that no other thread has, and the loop that fusion makes of the rest.
double computed(int64_t own) {
  const Tensor x = full({own, 24}, 0.5), w = full({24, 40}, 0.25), v = full({40, 8}, 2.0);
  return sum(relu(matmul(matmul(x, w), v) - 1.0)).item();
}

TEST(Threads, EvaluateSideBySide) {
  static std::atomic<int> defined = 0;  // counts over all repetitions
  std::array<std::thread, 2> threads;
  std::array<bool, 2> right{true, true};
  for (size_t t = 0; t < threads.size(); ++t)
    threads[t] = std::thread([&right, t] {
      for (int64_t i = 0; i < 8; ++i) {
        const int64_t rows = 16 + 16 * i + static_cast<int64_t>(t % 2);
        const double expected = static_cast<double>(rows) * 8 * (24 * 0.5 * 0.25 * 40 * 2 - 1);
        if (std::abs(computed(rows) - expected) > 1e-3 * expected) right[t] = false;
        Op op;
        op.name = "test_of_thread_" + std::to_string(++defined);
        define_op(op);
        if (all_ops().empty() || find_op("sum").prim != Prim::sum) right[t] = false;
        (void)TuningCache::instance().used();
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(right[0] && right[1]);
}

TEST(Threads, EvaluateWithTheSameParameters) {
  const Tensor w = full({24, 40}, 0.25), v = full({40, 24}, 2.0);
  eval({w, v});
  // The parameters are at other positions in each thread's graph.
  const auto wide = [&] { return matmul(matmul(full({8, 24}, 0.5), w), v); };
  const auto tall = [&] { return matmul(v, matmul(w, full({40, 8}, 0.5))); };
  constexpr double element = 24 * 40 * 0.5 * 0.25 * 2;
  constexpr int evaluations = 200;
  std::array<int, 2> right{};
  std::array<std::thread, 2> threads;
  for (size_t t = 0; t < threads.size(); ++t)
    threads[t] = std::thread([&, t] {
      for (int i = 0; i < evaluations; ++i)
        right[t] += t == 0 ? sum(wide()).item() == 8 * 24 * element : sum(tall()).item() == 40 * 8 * element;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right[0], evaluations);
  EXPECT_EQ(right[1], evaluations);
}

}  // namespace
}  // namespace athanor
