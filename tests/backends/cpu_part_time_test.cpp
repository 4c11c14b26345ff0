// Loops that part-time threads help with: each chunk runs once, errors arrive, and no bit changes.
#include "athanor/backends/cpu/part_time.h"

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "athanor/backends/cpu/parallel.h"
#include "athanor/base/clock.h"
#include "athanor/base/os/threads.h"
#include "athanor/base/threads.h"
#include "cpu_kernels.h"

namespace athanor::testing {
namespace {

using cpu::Chunks;

class CpuPartTime : public ::testing::Test {
 protected:
  ~CpuPartTime() override { set_cpu_threads(0); }
};

TEST_F(CpuPartTime, EachChunkRunsOnceWhoeverTakesIt) {
  Chunks chunks;
  std::atomic<bool> over{false};
  std::atomic<int64_t> helped{0};
  std::vector<std::jthread> helpers;
  for (int i = 0; i < 3; ++i)
    helpers.emplace_back([&, i] {
      while (!over)
        if (chunks.help(i)) ++helped;
    });
  const auto began = Clock::now();
  for (int loop = 0; (loop < 2000 || helped == 0) && seconds_since(began) < 60; ++loop) {
    const int64_t count = loop % 40;
    const int max_workers = 1 + loop % 5;
    std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
    std::atomic<int> wrong_workers{0};
    const Chunks::Body body = [&](int64_t chunk, int worker) {
      ++runs[static_cast<size_t>(chunk)];
      if (worker < 0 || worker >= max_workers) ++wrong_workers;
    };
    chunks.begin(count, 1, max_workers, body);
    while (chunks.run_one(0)) continue;
    chunks.end();
    for (const auto& times : runs) ASSERT_EQ(times, 1);
    ASSERT_EQ(wrong_workers, 0);
  }
  EXPECT_GT(helped, 0);
  over = true;
}

TEST_F(CpuPartTime, TheFirstErrorIsThrownAndTheNextLoopRuns) {
  set_cpu_threads(1, 2);
  for (int loop = 0; loop < 20; ++loop) {
    try {
      cpu::run_with_part_time_help(30, 3, [](int64_t chunk, int) {
        if (chunk % 7 == 5) throw std::runtime_error("chunk " + std::to_string(chunk));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "chunk 5");
    }
    std::atomic<int> runs{0};
    cpu::run_with_part_time_help(30, 3, [&](int64_t, int) { ++runs; });
    EXPECT_EQ(runs, 30);
  }
}

// A thread of its own must really come: it may be kept waiting on a busy machine, but not for a minute.
TEST_F(CpuPartTime, AnotherThreadHelps) {
  if (cpu_threads() == 1 || os::current_core() < 0) GTEST_SKIP() << "it needs a core of its own";
  set_cpu_threads(1, 1);
  const auto me = std::this_thread::get_id();
  std::atomic<int> helped{0};
  const auto began = Clock::now();
  while (helped == 0 && seconds_since(began) < 60)
    cpu::run_with_part_time_help(32, 2, [&](int64_t, int worker) {
      EXPECT_EQ(worker == 0, std::this_thread::get_id() == me);
      if (worker == 1) ++helped;
      const auto start = Clock::now();
      while (seconds_since(start) < 20e-6) continue;
    });
  EXPECT_GT(helped, 0);
}

TEST_F(CpuPartTime, LoopsInLoopsAndOnSeveralThreadsRun) {
  set_cpu_threads(2, 2);
  const auto sums = [] {
    constexpr int64_t rows = 64, columns = 4096;
    std::vector<int64_t> sum(rows);
    for (int loop = 0; loop < 50; ++loop)
      cpu::parallel_for(rows, rows * columns, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
          std::atomic<int64_t> of_row{0};
          cpu::parallel_for(columns, columns * columns, [&](int64_t first, int64_t last, int) {
            of_row += (last - first) * (first + last - 1) / 2;
          });
          sum[static_cast<size_t>(row)] += of_row;
        }
      });
    for (const int64_t of_row : sum) EXPECT_EQ(of_row, 50 * columns * (columns - 1) / 2);
  };
  std::jthread other(sums);
  sums();
}

// The kernels' own scratch memory is poisoned, and each worker has a part of it.
TEST_F(CpuPartTime, NoBitChanges) {
  const DType f32 = DType::f32;
  struct Problem {
    std::string op;
    Attrs attrs;
    std::vector<TestOperand> inputs;
    Shape shape;
    Layout layout;
  };
  const Shape x{4, 32, 30, 30}, w{48, 32, 3, 3}, y{4, 48, 30, 30};
  const Attrs conv{
      {"stride", Ints{1, 1}}, {"padding", Ints{1, 1}}, {"dilation", Ints{1, 1}}, {"groups", int64_t{1}}};
  const std::vector<TensorType> types = {{f32, x, {}}, {f32, w, {}}};
  const auto preferred = cpu().preferred_layouts(make_op("conv2d"), types, {f32, y, {}}, conv);
  const Layout blocked = preferred.empty() ? Layout{} : preferred[0];
  Attrs input_grad = conv, weight_grad = conv;
  input_grad.set("input_shape", x.to_ints());
  weight_grad.set("weight_shape", w.to_ints());
  const auto given = [&](const Shape& shape, unsigned seed, Layout layout = {}) {
    return random_value(f32, shape, seed, layout);
  };
  std::vector<Problem> problems = {
      {"conv2d", conv, {given(x, 1, blocked), given(w, 2)}, y, blocked},
      {"conv2d_input_grad", input_grad, {given(y, 1, blocked), given(w, 2)}, x, blocked},
      {"conv2d_weight_grad", weight_grad, {given(x, 1, blocked), given(y, 2, blocked)}, w, {}},
      {"batch_matmul", {}, {given({3, 200, 150}, 1), given({3, 150, 170}, 2)}, {3, 200, 170}, {}},
      {"lstm",
       {},
       {given({70, 5, 4 * 32}, 1), given({4 * 32, 32}, 2), given({70, 32}, 3), given({70, 32}, 4)},
       {70, 5, 64},
       {}},
      {"lstm",  // so few examples that threads divide the features
       {},
       {given({6, 5, 4 * 128}, 1), given({4 * 128, 128}, 2), given({6, 128}, 3), given({6, 128}, 4)},
       {6, 5, 256},
       {}},
  };
  const bool without_onednn = cpu().devices().front().properties.at("oneDNN").value == "not built in";
  for (Problem& problem : problems) {
    const Op& op = find_op(problem.op);
    if (without_onednn && problem.op.starts_with("conv2d")) continue;
    set_cpu_threads(1);
    const auto alone = run_all(op, problem.attrs, problem.inputs, f32, problem.shape, problem.layout);
    for (int i = 0; i < 5; ++i) {
      set_cpu_threads(1, 3);
      const auto helped = run_all(op, problem.attrs, problem.inputs, f32, problem.shape, problem.layout);
      ASSERT_EQ(helped.size(), alone.size());
      for (size_t c = 0; c < alone.size(); ++c) {
        EXPECT_EQ(helped[c].candidate, alone[c].candidate);
        EXPECT_EQ(helped[c].values, alone[c].values) << problem.op << " by " << alone[c].candidate;
      }
    }
  }
}

}  // namespace
}  // namespace athanor::testing
