// The memory accesses of the CPU's fused loops: strides, several outputs, updates in place, results past the
// caches.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/backends/cpu_loops.h"

namespace athanor {
namespace {

using namespace testing;  // NOLINT: Builder, Memory, ...

// ---- strides ----

class LoopStrides : public LoopOnIsa {};

TEST_P(LoopStrides, BroadcastRowsAndColumns) {
  for (const Ints& space :
       {Ints{5, 7}, Ints{128, 10}, Ints{64, 512}, Ints{3, 5000}, Ints{700, 3}, Ints{1, 9}, Ints{9, 1}}) {
    Builder b(space);
    const int x = b.load(0, DType::f32, dense(space)), row = b.load(1, DType::f32, {0, 1});
    const int column = b.load(2, DType::f32, {1, 0}), one = b.load(3, DType::f32, {0, 0});
    const int s = b.op(Prim::mul, DType::f32, b.op(Prim::add, DType::f32, x, row),
                       b.op(Prim::max, DType::f32, column, one));
    b.store(s, 4, DType::f32, dense(space));
    check(b.p);
  }
}

TEST_P(LoopStrides, PerChannel) {
  for (const Ints& space : {Ints{4, 8, 49}, Ints{2, 3, 784}, Ints{2, 16, 5, 5, 16}, Ints{3, 64, 1}}) {
    Ints channel(space.size(), 0);
    channel[1] = space.size() == 5 ? 16 : 1;
    if (space.size() == 5) channel[4] = 1;
    Builder b(space);
    const int x = b.load(0, DType::f32, dense(space)), scale = b.load(1, DType::f32, channel),
              shift = b.load(2, DType::bf16, channel);
    b.store(b.op(Prim::add, DType::f32, b.op(Prim::mul, DType::f32, x, scale), shift), 3, DType::f32,
            dense(space));
    check(b.p);
  }
}

TEST_P(LoopStrides, TransposesReversesAndSkips) {
  for (DType t : {DType::f32, DType::f64, DType::u8, DType::f16}) {
    const DType r = Builder::register_type(t);
    for (Ints space : {Ints{33, 65}, Ints{300, 40}, Ints{7, 2100}}) {
      const int64_t n = space[0], m = space[1];
      Builder b(space);
      const int a = b.load(0, t, {1, n});               // transposed
      const int c = b.load(1, t, {-m, -1}, n * m - 1);  // reversed
      const int d = b.load(2, t, {2 * m, 2});           // every other
      const int s = b.op(Prim::max, r, b.op(Prim::add, r, a, c), d);
      b.store(s, 3, t, {m, 1});
      b.store(s, 4, t, {1, n});
      b.store(a, 5, t, {3 * m, 3}, 1);
      b.store(c, 6, t, {-m, -1}, n * m - 1);
      check(b.p, 1e-6);
    }
  }
}

// As rotary positions of neighbouring pairs read them.
TEST_P(LoopStrides, PairsSwappedAndTwice) {
  for (const DType t : {DType::u8, DType::f16, DType::f32, DType::f64}) {
    const DType r = Builder::register_type(t);
    for (const int64_t pairs : {1, 5, 32, 700}) {
      const Ints space{3, 9, pairs, 2};
      const int64_t row = 2 * pairs, all = 9 * row;
      Builder b(space);
      const int x = b.load(0, t, dense(space)), swapped = b.load(0, t, {all, row, 2, -1}, 1),
                twice = b.load(1, t, {0, pairs, 1, 0}), same_row = b.load(2, t, {0, 0, 2, -1}, 1),
                apart = b.load(3, t, {all, row, 1, pairs});
      const int s = b.op(Prim::max, r, b.op(Prim::add, r, x, swapped), b.op(Prim::min, r, twice, same_row));
      b.store(b.op(Prim::max, r, s, apart), 4, t, dense(space));
      check(b.p, 1e-6);
    }
  }
}

TEST_P(LoopStrides, FourDimensionsPermuted) {
  const Ints space{3, 5, 4, 6};
  Ints order{0, 1, 2, 3};
  do {
    Ints strides(4);
    int64_t stride = 1;
    for (int k = 3; k >= 0; --k) {
      strides[static_cast<size_t>(order[static_cast<size_t>(k)])] = stride;
      stride *= space[static_cast<size_t>(order[static_cast<size_t>(k)])];
    }
    Builder b(space);
    const int u = b.load(0, DType::f32, strides), v = b.load(1, DType::f32, {0, 6, 0, 1});
    const int i = b.op(Prim::cast, DType::f32, b.index({100, 10, 1, -7}, 3));
    b.store(b.op(Prim::add, DType::f32, b.op(Prim::mul, DType::f32, u, v), i), 2, DType::f32, dense(space));
    check(b.p);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_P(LoopStrides, ScalarsAndEmptySpaces) {
  Builder b({});
  b.store(b.op(Prim::add, DType::f32, b.load(0, DType::f32, {}), b.constant(DType::f32, 2)), 1, DType::f32,
          {});
  check(b.p);
  for (const Ints& space : {Ints{0}, Ints{3, 0}, Ints{0, 5}}) {
    Builder e(space);
    e.store(e.load(0, DType::f32, dense(space)), 1, DType::f32, dense(space));
    check(e.p);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, LoopStrides, ::testing::ValuesIn(isas), isa_name);

// ---- several outputs, updates in place ----

TEST(LoopInPlace, MomentumUpdate) {
  for (int64_t n : {1, 100, 5000}) {
    Builder b({n});
    const int p = b.load(0, DType::f32, {1}), v = b.load(1, DType::f32, {1}), g = b.load(2, DType::f32, {1});
    const int lr = b.load(3, DType::f32, {0}), mu = b.constant(DType::f32, 0.9);
    const int next = b.op(Prim::add, DType::f32, b.op(Prim::mul, DType::f32, mu, v), g);
    b.store(b.op(Prim::sub, DType::f32, p, b.op(Prim::mul, DType::f32, lr, next)), 0, DType::f32, {1});
    b.store(next, 1, DType::f32, {1});
    check(b.p);
  }
}

TEST(LoopInPlace, OldValueUsedAfterItsReplacementIsKnown) {
  Builder b({3000});
  const int x = b.load(0, DType::f32, {1}), one = b.constant(DType::f32, 1);
  b.store(b.op(Prim::add, DType::f32, x, one), 0, DType::f32, {1});
  b.store(b.op(Prim::mul, DType::f32, x, x), 1, DType::f32, {1});
  b.store(x, 2, DType::f32, {1});
  check(b.p);
}

TEST(LoopInPlace, Swap) {
  Builder b({3000});
  const int x = b.load(0, DType::f32, {1}), y = b.load(1, DType::f32, {1});
  b.store(y, 0, DType::f32, {1});
  b.store(x, 1, DType::f32, {1});
  check(b.p);
}

TEST(LoopInPlace, DifferentBuffersAtOneAddress) {
  std::vector<float> x(2500), before;
  std::iota(x.begin(), x.end(), 0.0F);
  before = x;
  std::vector<float> y(x.size());
  Builder b({2500});
  const int u = b.load(0, DType::f32, {1});
  b.store(b.op(Prim::neg, DType::f32, u), 1, DType::f32, {1});
  b.store(b.op(Prim::mul, DType::f32, u, u), 2, DType::f32, {1});
  void* const buffers[] = {x.data(), x.data(), y.data()};
  LoopKernel(b.p).run(buffers, 2);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(x[i], -before[i]);
    ASSERT_EQ(y[i], before[i] * before[i]);
  }
}

/// y = 2 x, and also x + 1, with results too large for any cache, which are stored past the caches.
class LoopLarge : public LoopOnIsa {};
TEST_P(LoopLarge, ResultsPastTheCaches) {
  constexpr int64_t n = (32 << 17) + 37;  // f64: 32 MiB and a bit
  for (const bool in_place : {false, true})
    for (const size_t skewed : {0, 3}) {
      Builder b({n});
      const int x = b.load(0, DType::f64, {1});
      b.store(b.op(Prim::add, DType::f64, x, x), 1, DType::f64, {1});
      b.store(b.op(Prim::add, DType::f64, x, b.constant(DType::f64, 1)), 2, DType::f64, {1});
      std::vector<double> in(n + skewed), twice(n + skewed), plus(n + skewed);
      std::iota(in.begin(), in.end(), -1000.0);
      const std::vector<double> was = in;
      double* const target = in_place ? in.data() : twice.data();
      const std::vector<void*> addresses{in.data() + skewed, target + skewed, plus.data() + skewed};
      LoopKernel(b.p).run(addresses, 2);
      size_t wrong = 0;
      for (size_t i = 0; i < skewed; ++i) wrong += plus[i] != 0;
      for (size_t i = skewed; i < was.size(); ++i) wrong += target[i] != 2 * was[i] || plus[i] != was[i] + 1;
      EXPECT_EQ(wrong, 0U);
    }
}
INSTANTIATE_TEST_SUITE_P(Isa, LoopLarge, ::testing::ValuesIn(isas), isa_name);

TEST(LoopInPlace, ReductionOfAnOverwrittenInput) {
  Builder b({40, 300}, {false, true});
  const int x = b.load(0, DType::f32, {300, 1});
  const int twice = b.op(Prim::add, DType::f32, x, x);
  b.store_in_body(twice, 0, DType::f32, {300, 1});
  b.store(b.reduce(Prim::sum, x, DType::f32), 1, DType::f32, {1, 0});
  check(b.p, 1e-5);
}

TEST(LoopInPlace, RunningStatistics) {
  Builder b({32, 16, 49}, {true, false, true});
  const int x = b.load(0, DType::f32, {784, 49, 1});
  const int total = b.reduce(Prim::sum, x, DType::f32);
  const int old = b.load(1, DType::f32, {0, 1, 0});
  const int mean = b.op(Prim::mul, DType::f32, total, b.constant(DType::f32, 1.0 / (32 * 49)));
  const int tenth = b.constant(DType::f32, 0.1);
  b.store(b.op(Prim::add, DType::f32, old,
               b.op(Prim::mul, DType::f32, tenth, b.op(Prim::sub, DType::f32, mean, old))),
          1, DType::f32, {0, 1, 0});
  check(b.p);
}

}  // namespace
}  // namespace athanor
