// Reductions in the CPU's fused loops, on every instruction set that the machine has.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/backends/cpu_loops.h"

namespace athanor {
namespace {

using namespace testing;  // NOLINT: Builder, Memory, ...

struct Shape2 {
  Ints space;
  std::vector<bool> reduced;
};
const std::vector<Shape2> reductions = {{{1000}, {true}},
                                        {{1}, {true}},
                                        {{70000}, {true}},
                                        {{128, 10}, {false, true}},
                                        {{5, 513}, {false, true}},
                                        {{3, 9000}, {false, true}},
                                        {{300, 1}, {false, true}},
                                        {{128, 10}, {true, false}},
                                        {{70, 512}, {true, false}},
                                        {{40, 3000}, {true, false}},
                                        {{9000, 3}, {true, false}},
                                        {{4, 8, 49}, {true, false, true}},
                                        {{2, 3, 784}, {true, false, true}},
                                        {{6, 40, 5}, {true, false, true}},
                                        {{3, 2, 49, 16}, {true, false, true, false}},
                                        {{8, 4, 100, 16}, {true, false, true, false}},
                                        {{20, 7, 3, 2}, {false, false, true, true}},
                                        {{30, 3, 7, 2}, {false, true, false, true}},
                                        {{9, 8, 7, 6}, {true, true, true, true}},
                                        {{5, 6, 7}, {false, false, false}},
                                        {{64, 33}, {true, true}},
                                        {{3, 3, 400}, {true, true, false}}};

Ints first_axis_innermost(const Ints& space) {
  Ints strides(space.size());
  int64_t stride = 1;
  for (size_t d = 0; d < space.size(); ++d) {
    strides[d] = stride;
    stride *= space[d];
  }
  return strides;
}

class LoopReductions : public LoopOnIsa {};

TEST_P(LoopReductions, EveryKindTypeAndShape) {
  for (const auto& [space, reduced] : reductions)
    for (Prim prim : {Prim::sum, Prim::prod, Prim::reduce_max, Prim::reduce_min, Prim::argmax})
      for (DType t : loop_types) {
        const int axes = static_cast<int>(std::count(reduced.begin(), reduced.end(), true));
        const bool small = space.size() <= 2 && std::accumulate(space.begin(), space.end(), int64_t{1},
                                                                std::multiplies<>()) < 5000;
        if (t != DType::f32 && t != DType::i32 && !small) continue;
        if (prim == Prim::argmax && axes == 0) continue;
        Builder b(space, reduced);
        const DType out = prim == Prim::argmax ? DType::i64 : t;
        const int x = b.load(0, t, dense(space));
        b.store(b.reduce(prim, x, out), 1, out, dense_kept(b.p));
        std::mt19937 rng(11);
        const bool product = prim == Prim::prod && is_float(t);  // factors near 1, because there are many
        check(b.p, memory_for(b.p, rng, product ? 0.99 : -3, product ? 1.01 : 3),
              t == DType::f64 ? 1e-11 : 2e-6 * (product ? 50 : 20));
      }
}

TEST_P(LoopReductions, StridedOperands) {
  for (const auto& [space, reduced] : reductions) {
    const Ints backwards = first_axis_innermost(space);
    Builder b(space, reduced);
    const int x = b.load(0, DType::f32, backwards), y = b.load(1, DType::f32, dense_kept(b.p));
    const int product = b.op(Prim::mul, DType::f32, x, y);
    const int s = b.reduce(Prim::sum, product, DType::f32);
    const int m = b.reduce(Prim::reduce_max, x, DType::f32);
    b.store(b.op(Prim::add, DType::f32, s, m), 2, DType::f32, dense_kept(b.p));
    check(b.p, 1e-4);
  }
}

// Several reductions of fused values, a body register in the epilogue, stores in the body and in the
// epilogue.
TEST_P(LoopReductions, SeveralWithEpilogueAndStores) {
  for (const auto& [space, reduced] : reductions) {
    Builder b(space, reduced);
    const int x = b.load(0, DType::f32, dense(space)), scale = b.load(1, DType::f32, dense_kept(b.p));
    const int y = b.op(Prim::mul, DType::f32, x, scale), y2 = b.op(Prim::mul, DType::f32, y, y);
    const int positive = b.op(Prim::less, DType::b8, b.constant(DType::f32, 0), y);
    const int count = b.op(Prim::cast, DType::i64, positive);
    b.store_in_body(y, 2, DType::f32, dense(space));
    b.store_in_body(y2, 3, DType::bf16, dense(space));
    const int s = b.reduce(Prim::sum, y, DType::f32), s2 = b.reduce(Prim::sum, y2, DType::f32);
    const int largest = b.reduce(Prim::reduce_max, y, DType::f32),
              positives = b.reduce(Prim::sum, count, DType::i64);
    const int e =
        b.op(Prim::sub, DType::f32, s2, b.op(Prim::mul, DType::f32, s, b.constant(DType::f32, 0.125)));
    b.store(b.op(Prim::add, DType::f32, e, scale), 4, DType::f32, dense_kept(b.p));
    b.store(largest, 5, DType::f32, dense_kept(b.p));
    b.store(positives, 6, DType::i32, dense_kept(b.p));
    const int place = b.op(Prim::cast, DType::f32, b.index(dense(space)));
    b.store(b.op(Prim::add, DType::f32, place, largest), 7, DType::f32, dense_kept(b.p));
    check(b.p, 1e-4);
  }
}

// Sums of products are accumulated without an array of the products, unless the product is also needed
// elsewhere.
TEST_P(LoopReductions, SumsOfProducts) {
  for (const auto& [space, reduced] : reductions)
    for (DType t : {DType::f32, DType::f64}) {
      Builder b(space, reduced);
      const int x = b.load(0, t, dense(space)), y = b.load(1, t, dense(space));
      const int xy = b.op(Prim::mul, t, x, y), shared = b.op(Prim::mul, t, y, y);
      const int cube = b.op(Prim::mul, t, shared, y);
      const int dot = b.reduce(Prim::sum, xy, t), sum = b.reduce(Prim::sum, x, t);
      const int squares = b.reduce(Prim::sum, shared, t), cubes = b.reduce(Prim::sum, cube, t);
      int buffer = 2;
      for (int r : {dot, sum, squares, cubes}) b.store(r, buffer++, t, dense_kept(b.p));
      std::mt19937 rng(9);
      check(b.p, memory_for(b.p, rng, 0.1, 3), t == DType::f32 ? 2e-5 : 1e-11);
    }
}

TEST_P(LoopReductions, Windows) {  // 3x3 maximum with stride 2, and its mean
  const Ints space{2, 5, 13, 13, 3, 3};
  Builder b(space, {false, false, false, false, true, true});
  const int x = b.load(0, DType::f32, {5 * 27 * 27, 27 * 27, 54, 2, 27, 1});
  const int top = b.reduce(Prim::reduce_max, x, DType::f32), total = b.reduce(Prim::sum, x, DType::f32);
  const int best = b.reduce(Prim::argmax, x, DType::i64);
  b.store(top, 1, DType::f32, dense_kept(b.p));
  b.store(b.op(Prim::mul, DType::f32, total, b.constant(DType::f32, 1.0 / 9)), 2, DType::f32,
          dense_kept(b.p));
  b.store(best, 3, DType::i64, dense_kept(b.p));
  check(b.p);
}

TEST_P(LoopReductions, ConstantsAndBroadcastSources) {
  for (const auto& [space, reduced] : reductions) {
    Builder b(space, reduced);
    const int one = b.constant(DType::f32, 1), kept = b.load(0, DType::f32, dense_kept(b.p));
    const int n = b.reduce(Prim::sum, one, DType::f32), s = b.reduce(Prim::sum, kept, DType::f32);
    b.store(n, 1, DType::f32, dense_kept(b.p));
    b.store(s, 2, DType::f32, dense_kept(b.p));
    check(b.p, 1e-5);
  }
}

TEST_P(LoopReductions, Empty) {
  const std::vector<Shape2> empty = {{{0}, {true}},
                                     {{5, 0}, {false, true}},
                                     {{0, 300}, {true, false}},
                                     {{0, 5}, {false, true}},
                                     {{2, 0, 3}, {false, true, false}}};
  for (const auto& [space, reduced] : empty)
    for (Prim prim : {Prim::sum, Prim::prod, Prim::reduce_max, Prim::reduce_min, Prim::argmax})
      for (DType t : loop_types) {
        Builder b(space, reduced);
        const DType out = prim == Prim::argmax ? DType::i64 : t;
        const int x = b.load(0, t, dense(space));
        b.store(b.reduce(prim, x, out), 1, out, dense_kept(b.p));
        check(b.p, 0);
      }
}

TEST_P(LoopReductions, ArgmaxTakesTheFirstAndNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), minus = -std::numeric_limits<float>::infinity();
  for (int64_t n : {3, 20, 3000, 200000}) {
    std::vector<float> x(static_cast<size_t>(n), 1);
    int64_t got = -1;
    Builder b({n}, {true});
    b.store(b.reduce(Prim::argmax, b.load(0, DType::f32, {1}), DType::i64), 1, DType::i64, {0});
    const LoopKernel kernel(b.p);
    void* const buffers[] = {x.data(), &got};
    const auto run = [&] {
      kernel.run(buffers, 2);
      return got;
    };
    EXPECT_EQ(run(), 0);
    const auto last = static_cast<size_t>(n - 1);
    x[last] = x[last - 1] = 2;
    EXPECT_EQ(run(), n - 2);
    x[last] = nan;
    EXPECT_EQ(run(), n - 1);
    x[1] = nan;
    EXPECT_EQ(run(), 1);
    std::fill(x.begin(), x.end(), minus);
    EXPECT_EQ(run(), 0);
  }
}

TEST_P(LoopReductions, ArgmaxOverColumnsAndSeveralAxes) {
  for (const auto& [space, reduced] : reductions) {
    if (std::find(reduced.begin(), reduced.end(), true) == reduced.end()) continue;
    const Ints backwards = first_axis_innermost(space);
    Builder b(space, reduced);
    const int x = b.op(Prim::floor, DType::f32, b.load(0, DType::f32, backwards));  // many equal values
    b.store(b.reduce(Prim::argmax, x, DType::i64), 1, DType::i64, dense_kept(b.p));
    check(b.p, 0);
  }
}

TEST_P(LoopReductions, NanSpreads) {
  Builder b({3, 500}, {false, true});
  const int x = b.load(0, DType::f32, {500, 1});
  b.store(b.reduce(Prim::reduce_max, x, DType::f32), 1, DType::f32, {1, 0});
  std::mt19937 rng(1);
  Memory m = memory_for(b.p, rng);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (size_t at : {0, 777, 1499}) std::memcpy(m.data[0].data() + 4 * at, &nan, 4);
  check(b.p, m, 0);
}

INSTANTIATE_TEST_SUITE_P(Isa, LoopReductions, ::testing::ValuesIn(isas), isa_name);

TEST(LoopAccuracy, SumsOfTenMillion) {
  constexpr int64_t n = 10'000'000;
  std::vector<float> x(n);
  std::mt19937 rng(2);
  std::uniform_real_distribution<float> u(0, 1);
  for (int equal = 0; equal < 2; ++equal) {
    for (float& v : x) v = equal ? 0.1F : u(rng);
    const double want = std::accumulate(x.begin(), x.end(), 0.0);
    std::vector<float> got(10);
    Builder all({n}, {true});
    all.store(all.reduce(Prim::sum, all.load(0, DType::f32, {1}), DType::f32), 1, DType::f32, {0});
    void* const buffers[] = {x.data(), got.data()};
    LoopKernel(all.p).run(buffers, 2);
    EXPECT_NEAR(static_cast<double>(got[0]) / want, 1, 1e-6);
    Builder columns({n / 10, 10}, {true, false});
    columns.store(columns.reduce(Prim::sum, columns.load(0, DType::f32, {10, 1}), DType::f32), 1, DType::f32,
                  {0, 1});
    LoopKernel(columns.p).run(buffers, 2);
    EXPECT_NEAR(std::accumulate(got.begin(), got.end(), 0.0) / want, 1, 1e-6);
  }
}

TEST(LoopThreads, SameBitsForAnyNumber) {
  for (const auto& [space, reduced] : std::vector<Shape2>{{{3'000'000}, {true}},
                                                          {{4000, 512}, {true, false}},
                                                          {{4000, 512}, {false, true}},
                                                          {{64, 32, 196}, {true, false, true}},
                                                          {{16, 4, 784, 16}, {true, false, true, false}}}) {
    Builder b(space, reduced);
    const int x = b.load(0, DType::f32, dense(space));
    b.store(b.reduce(Prim::sum, b.op(Prim::mul, DType::f32, x, x), DType::f32), 1, DType::f32,
            dense_kept(b.p));
    std::mt19937 rng(4);
    Memory one = memory_for(b.p, rng);
    const LoopKernel kernel(b.p);
    Memory other = one;
    kernel.run(one.addresses(), 1);
    for (int threads : {2, 3, 8}) {
      kernel.run(other.addresses(), threads);
      EXPECT_EQ(one.data[1], other.data[1]) << threads << " threads\n" << to_string(b.p);
    }
  }
}

}  // namespace
}  // namespace athanor
