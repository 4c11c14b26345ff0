// The CPU's fused loops against a plain interpreter, on every instruction set that the machine has.
#include "athanor/backends/cpu/loops/loop_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "athanor/backends/cpu/loops/steps.h"
#include "athanor/base/error.h"
#include "tests/backends/loop_programs.h"

namespace athanor {
namespace {

using namespace testing;  // NOLINT: Builder, Memory, ...
constexpr double inf = std::numeric_limits<double>::infinity();

/// Runs a program on the kernel and the reference, on copies of one memory.
void check(const LoopProgram& p, const Memory& start, double tolerance, int threads = 2) {
  Memory got = start, want = start;
  LoopKernel(p).run(got.addresses(), threads);
  const auto addresses = want.addresses();
  reference::Interpreter(p, addresses).run();
  expect_close(p, got, want, tolerance, LoopKernel(p).description());
}
void check(const LoopProgram& p, double tolerance = 1e-5, unsigned seed = 1) {
  std::mt19937 rng(seed);
  check(p, memory_for(p, rng), tolerance);
}

const char* const isas[] = {"", "avx2", "scalar"};

/// Each test runs on every instruction set.
class LoopOnIsa : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { loops::limit_isa(GetParam()); }
  void TearDown() override { loops::limit_isa(""); }
};
std::string isa_name(const ::testing::TestParamInfo<const char*>& i) {
  return *i.param == 0 ? "best" : i.param;
}

// ---- primitives ----

constexpr DType loop_types[] = {DType::f64, DType::f32, DType::i64, DType::i32,
                                DType::i8,  DType::u8,  DType::b8};
constexpr int64_t sizes[] = {0, 1, 3, 17, 129, 1000, 4099};

bool is_math(Prim p) { return (p >= Prim::exp && p <= Prim::erf) || p == Prim::pow; }
bool supports(Prim p, DType t) {
  if (is_math(p) || p == Prim::sqrt) return is_float(t) || (p == Prim::pow && t != DType::b8);
  if (p == Prim::bit_and || p == Prim::bit_or || p == Prim::bit_xor) return !is_float(t);
  if (p == Prim::mod) return t != DType::b8;
  return true;
}

class LoopPrimitives : public LoopOnIsa {};

TEST_P(LoopPrimitives, Unary) {
  for (Prim prim : {Prim::neg, Prim::exp, Prim::log, Prim::sin, Prim::cos, Prim::tanh, Prim::erf, Prim::sqrt,
                    Prim::floor, Prim::abs})
    for (DType t : loop_types)
      for (int64_t n : sizes) {
        Builder b({n});
        const int u = b.load(0, t, {1});
        b.store(b.op(prim, t, u), 1, t, {1});
        if (supports(prim, t)) {
          check(b.p, is_math(prim) ? (t == DType::f64 ? 1e-13 : 1e-6) : 0);
        } else {
          EXPECT_THROW(LoopKernel{b.p}, Error) << to_string(prim) << " " << to_string(t);
        }
      }
}

TEST_P(LoopPrimitives, Binary) {
  for (Prim prim : {Prim::add, Prim::sub, Prim::mul, Prim::div, Prim::mod, Prim::pow, Prim::max, Prim::min,
                    Prim::less, Prim::equal, Prim::bit_and, Prim::bit_or, Prim::bit_xor})
    for (DType t : loop_types)
      for (int64_t n : sizes)
        for (int uniform = 0; uniform < 3; ++uniform) {  // neither, the first or the second broadcast
          const DType out = prim == Prim::less || prim == Prim::equal ? DType::b8 : t;
          Builder b({n});
          const int u = b.load(0, t, {uniform == 1 ? 0 : 1}), v = b.load(1, t, {uniform == 2 ? 0 : 1});
          b.store(b.op(prim, out, u, v), 2, out, {1});
          if (supports(prim, t)) {
            check(b.p, prim == Prim::pow ? 1e-5 : 0, static_cast<unsigned>(uniform));
          } else {
            EXPECT_THROW(LoopKernel{b.p}, Error) << to_string(prim) << " " << to_string(t);
          }
        }
}

TEST_P(LoopPrimitives, Where) {
  for (DType t : loop_types)
    for (int64_t n : sizes)
      for (int uniform = 0; uniform < 8; ++uniform) {
        Builder b({n});
        const auto stride = [&](int k) { return Ints{uniform >> k & 1 ? 0 : 1}; };
        const int c = b.load(0, DType::b8, stride(0)), u = b.load(1, t, stride(1)),
                  v = b.load(2, t, stride(2));
        b.store(b.op(Prim::where, t, c, u, v), 3, t, {1});
        check(b.p, 0);
      }
}

TEST_P(LoopPrimitives, WhereLessIsFused) {
  for (DType t : loop_types)
    for (int uniform = 0; uniform < 16; uniform += 3) {
      Builder b({1003});
      int r[4];
      for (int k = 0; k < 4; ++k) r[k] = b.load(k, t, {uniform >> k & 1 ? 0 : 1});
      const int c = b.op(Prim::less, DType::b8, r[0], r[1]);
      b.store(b.op(Prim::where, t, c, r[2], r[3]), 4, t, {1});
      check(b.p, 0);
    }
}

TEST_P(LoopPrimitives, MultiplyAdd) {
  for (DType t : {DType::f32, DType::f64})
    for (Prim prim : {Prim::add, Prim::sub})
      for (int variant = 0; variant < 4; ++variant) {
        Builder b({1003});
        const int x = b.load(0, t, {1}), y = b.load(1, t, {variant & 2 ? 0 : 1}), z = b.load(2, t, {1});
        const int m = b.op(Prim::mul, t, x, y);
        b.store(variant & 1 ? b.op(prim, t, m, z) : b.op(prim, t, z, m), 3, t, {1});
        check(b.p, 1e-6);
      }
}

TEST_P(LoopPrimitives, CastsLoadsAndStores) {
  for (int from = 0; from < dtype_count; ++from)
    for (int to = 0; to < dtype_count; ++to)
      for (int64_t n : {1, 17, 1000, 4099})
        for (int64_t stride : {1, 3}) {
          Builder b({n});
          const int u = b.load(0, static_cast<DType>(from), {stride});
          b.store(b.op(Prim::cast, Builder::register_type(static_cast<DType>(to)), u), 1,
                  static_cast<DType>(to), {stride});
          std::mt19937 rng(3);
          check(b.p, memory_for(b.p, rng, -300, 300), 0);
        }
}

TEST_P(LoopPrimitives, HalfTypesRoundAsTheScalarTypes) {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < 0xfff00000; bits += 65521) x.push_back(std::bit_cast<float>(bits));
  for (float v : {0.0F, -0.0F, 65504.0F, 65519.9F, 65520.0F, 1e-8F, 5.9e-8F, -6e-5F, 3.4e38F}) x.push_back(v);
  for (DType t : {DType::f16, DType::bf16}) {
    Builder b({static_cast<int64_t>(x.size())});
    b.store(b.load(0, DType::f32, {1}), 1, t, {1});
    std::vector<uint16_t> out(x.size());
    void* const buffers[] = {x.data(), out.data()};
    LoopKernel(b.p).run(buffers, 1);
    for (size_t i = 0; i < x.size(); ++i) {
      const uint16_t want = t == DType::f16 ? f16(x[i]).bits : bf16(x[i]).bits;
      if (std::isnan(x[i])) {
        EXPECT_GT(out[i] & 0x7fff, t == DType::f16 ? 0x7c00 : 0x7f80);
      } else {
        ASSERT_EQ(out[i], want) << x[i];
      }
    }
  }
}

TEST_P(LoopPrimitives, SpecialValues) {
  const std::vector<float> specials = {0.0F,
                                       -0.0F,
                                       1.0F,
                                       -1.0F,
                                       2.5F,
                                       -2.5F,
                                       3.0F,
                                       1e-40F,
                                       -1e-40F,
                                       1e30F,
                                       -1e30F,
                                       1e-30F,
                                       std::numeric_limits<float>::max(),
                                       std::numeric_limits<float>::infinity(),
                                       -std::numeric_limits<float>::infinity(),
                                       std::numeric_limits<float>::quiet_NaN(),
                                       40000.0F,
                                       88.7F,
                                       89.0F,
                                       -87.5F,
                                       -103.0F,
                                       -104.5F,
                                       0.5F};
  std::vector<float> x, y;
  for (float a : specials)
    for (float b : specials) {
      x.push_back(a);
      y.push_back(b);
    }
  const auto n = static_cast<int64_t>(x.size());
  for (int p = static_cast<int>(Prim::neg); p <= static_cast<int>(Prim::equal); ++p) {
    const Prim prim = static_cast<Prim>(p);
    if (prim == Prim::cast) continue;
    const bool compares = prim == Prim::less || prim == Prim::equal;
    const DType out = compares ? DType::b8 : DType::f32;
    Builder b({n});
    const int u = b.load(0, DType::f32, {1}), v = b.load(1, DType::f32, {1});
    b.store(b.op(prim, out, u, prim >= Prim::add ? v : -1), 2, out, {1});
    std::vector<std::byte> result(x.size() * 4), expected(x.size() * 4);
    void* const buffers[] = {x.data(), y.data(), result.data()};
    LoopKernel(b.p).run(buffers, 1);
    void* const want_buffers[] = {x.data(), y.data(), expected.data()};
    reference::Interpreter(b.p, want_buffers).run();
    for (int64_t i = 0; i < n; ++i) {
      const auto g = reference::read(result.data(), out, i), w = reference::read(expected.data(), out, i);
      const auto at = static_cast<size_t>(i);
      if (compares) {
        EXPECT_EQ(g.i, w.i) << to_string(prim) << " " << x[at] << " " << y[at];
        continue;
      }
      const bool close = std::isnan(w.f)
                             ? std::isnan(g.f)
                             : g.f == w.f || std::fabs(g.f - w.f) <= 4e-7 * std::fabs(w.f) + 6e-45;
      EXPECT_TRUE(close) << to_string(prim) << " " << x[at] << " " << y[at] << ": " << g.f << " for " << w.f;
      if (w.f == 0 && prim != Prim::max && prim != Prim::min) {
        EXPECT_EQ(std::signbit(g.f), std::signbit(w.f)) << to_string(prim) << " " << x[at] << " " << y[at];
      }
    }
  }
}

template <class T>
void check_integers(DType t) {
  const T lowest = std::numeric_limits<T>::lowest(), most = std::numeric_limits<T>::max();
  const T specials[] = {0, 1, static_cast<T>(-1), 2, static_cast<T>(-2), 7, lowest, most};
  std::vector<T> x, y;
  for (T a : specials)
    for (T b : specials) {
      x.push_back(a);
      y.push_back(b);
    }
  for (Prim prim :
       {Prim::add, Prim::sub, Prim::mul, Prim::div, Prim::mod, Prim::max, Prim::min, Prim::neg, Prim::abs}) {
    Builder b({static_cast<int64_t>(x.size())});
    const int u = b.load(0, t, {1}), v = b.load(1, t, {1});
    b.store(b.op(prim, t, u, prim >= Prim::add ? v : -1), 2, t, {1});
    std::vector<T> got(x.size()), want(x.size());
    void* const buffers[] = {x.data(), y.data(), got.data()};
    LoopKernel(b.p).run(buffers, 1);
    void* const want_buffers[] = {x.data(), y.data(), want.data()};
    reference::Interpreter(b.p, want_buffers).run();
    EXPECT_EQ(got, want) << to_string(prim) << " " << to_string(t);
  }
}
TEST_P(LoopPrimitives, IntegersWrapAndDivideByZero) {
  check_integers<int64_t>(DType::i64);
  check_integers<int32_t>(DType::i32);
  check_integers<int8_t>(DType::i8);
  check_integers<uint8_t>(DType::u8);
}

INSTANTIATE_TEST_SUITE_P(Isa, LoopPrimitives, ::testing::ValuesIn(isas), isa_name);

// ---- accuracy of the mathematical functions ----

class LoopMath : public LoopOnIsa {};

double ulps(float got, double want) {
  if (std::isnan(want) && std::isnan(got)) return 0;
  const float nearest = static_cast<float>(want);
  if (got == nearest) return 0;
  if (std::isinf(got) || std::isinf(nearest) || std::isnan(got)) return inf;
  const double spacing =
      std::max(std::ldexp(1.0, std::ilogb(nearest == 0 ? 1e-45F : nearest) - 23), 0x1p-149);
  return std::fabs(static_cast<double>(got) - want) / spacing;
}

void expect_ulps(Prim prim, double (*f)(double), float low, float high, double limit) {
  constexpr int n = 200000;
  std::vector<float> x(n), y(n);
  std::mt19937 rng(5);
  std::uniform_real_distribution<float> flat(low, high);
  for (float& v : x) {
    v = flat(rng);
    // Half of them spread over the exponents.
    if (rng() & 1) v = std::clamp(v * std::ldexp(1.0F, -static_cast<int>(rng() % 40)), low, high);
  }
  Builder b({n});
  b.store(b.op(prim, DType::f32, b.load(0, DType::f32, {1})), 1, DType::f32, {1});
  void* const buffers[] = {x.data(), y.data()};
  LoopKernel(b.p).run(buffers, 1);
  double worst = 0;
  float where = 0;
  for (size_t i = 0; i < n; ++i) {
    const double e = ulps(y[i], f(static_cast<double>(x[i])));
    if (e > worst) {
      worst = e;
      where = x[i];
    }
  }
  EXPECT_LE(worst, limit) << to_string(prim) << " at " << where;
  ::testing::Test::RecordProperty(std::string(to_string(prim)), std::to_string(worst));
}

TEST_P(LoopMath, WithinFourUlps) {
  expect_ulps(Prim::exp, std::exp, -104, 89, 2);
  expect_ulps(Prim::log, std::log, 0, 1e30F, 2);
  expect_ulps(Prim::log, std::log, 0.5F, 2, 2);
  expect_ulps(Prim::tanh, std::tanh, -10, 10, 4);
  expect_ulps(Prim::erf, std::erf, -5, 5, 4);
  expect_ulps(Prim::sin, std::sin, -3, 3, 4);
  expect_ulps(Prim::sin, std::sin, -39000, 39000, 4);
  expect_ulps(Prim::cos, std::cos, -39000, 39000, 4);
  expect_ulps(Prim::sin, std::sin, -1e8F, 1e8F, 4);
}

TEST_P(LoopMath, Powers) {
  constexpr int n = 100000;
  std::vector<float> x(n), y(n), z(n);
  std::mt19937 rng(6);
  std::uniform_real_distribution<float> base(0, 20), exponent(-25, 25);
  for (size_t i = 0; i < n; ++i) {
    x[i] = base(rng);
    y[i] = exponent(rng);
  }
  Builder b({n});
  const int u = b.load(0, DType::f32, {1}), v = b.load(1, DType::f32, {1});
  b.store(b.op(Prim::pow, DType::f32, u, v), 2, DType::f32, {1});
  void* const buffers[] = {x.data(), y.data(), z.data()};
  LoopKernel(b.p).run(buffers, 1);
  for (size_t i = 0; i < n; ++i)
    ASSERT_LE(ulps(z[i], std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]))), 1)
        << x[i] << " " << y[i];
}

TEST_P(LoopMath, ConstantPowers) {
  for (double e : {-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0}) {
    Builder b({100});
    const int u = b.load(0, DType::f32, {1});
    b.store(b.op(Prim::pow, DType::f32, u, b.constant(DType::f32, e)), 1, DType::f32, {1});
    check(b.p, 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, LoopMath, ::testing::ValuesIn(isas), isa_name);

// ---- random numbers ----

class LoopRandom : public LoopOnIsa {};

TEST_P(LoopRandom, KnownAnswers) {
  using reference::philox;  // the vectors published with Random123
  EXPECT_EQ(philox({0, 0, 0, 0}, 0, 0),
            (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, ones, ones),
            (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  std::vector<float> out(4);
  Builder b({4});
  b.store(b.op(Prim::random_uniform, DType::f32, b.constant(DType::i64, 0), b.index({1})), 0, DType::f32,
          {1});
  void* const buffers[] = {out.data()};
  LoopKernel(b.p).run(buffers, 1);
  EXPECT_EQ(out, (std::vector<float>{0x6627e8p-24F, 0xe169c5p-24F, 0xbc57acp-24F, 0x9b00dbp-24F}));
}

TEST_P(LoopRandom, ConsecutiveAndScatteredCounters) {
  for (int64_t n : {1, 5, 64, 1000, 3001})
    for (int64_t start : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{1} << 36})
      for (int64_t stride : {0, 1, 3}) {
        Builder b({n});
        const int counter = b.index({stride}, start);
        const int key = b.load(0, DType::i64, {0}), keys = b.load(1, DType::i64, {1});
        b.store(b.op(Prim::random_uniform, DType::f32, key, counter), 2, DType::f32, {1});
        b.store(b.op(Prim::random_uniform, DType::f32, keys, counter), 3, DType::f32, {1});
        std::mt19937_64 rng(8);
        Memory m = memory_for(b.p, rng);
        for (size_t k = 0; k < 2; ++k)
          for (std::byte& byte : m.data[k]) byte = static_cast<std::byte>(rng());
        check(b.p, m, 0);
      }
}

INSTANTIATE_TEST_SUITE_P(Isa, LoopRandom, ::testing::ValuesIn(isas), isa_name);

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

/// y = 2 x, and x + 1 besides, where results are too large for any cache and are stored past them.
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

// ---- reductions ----

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
        const bool product = prim == Prim::prod && is_float(t);  // of many factors near 1
        check(b.p, memory_for(b.p, rng, product ? 0.99 : -3, product ? 1.01 : 3),
              t == DType::f64 ? 1e-11 : 2e-6 * (product ? 50 : 20));
      }
}

TEST_P(LoopReductions, StridedOperands) {
  for (const auto& [space, reduced] : reductions) {
    Ints backwards(space.size());
    int64_t stride = 1;
    for (size_t d = 0; d < space.size(); ++d) {
      backwards[d] = stride;
      stride *= space[d];
    }
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

// Sums of products are accumulated without an array of the products; not when the product is needed
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
    Ints backwards(space.size());
    int64_t stride = 1;
    for (size_t d = 0; d < space.size(); ++d) {
      backwards[d] = stride;
      stride *= space[d];
    }
    Builder b(space, reduced);
    const int x = b.op(Prim::floor, DType::f32, b.load(0, DType::f32, backwards));  // many equals
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

// ---- simplification ----

TEST(LoopSimplify, MergesAndOrders) {
  Builder b({4, 1, 5, 6});
  b.store(b.load(0, DType::f32, {30, 9, 6, 1}), 1, DType::f32, {30, 0, 6, 1});
  EXPECT_EQ(simplify(b.p).space, (Ints{120}));
  EXPECT_EQ(b.p.iterations(), 120);

  Builder t({6, 5});  // written column by column
  t.store(t.load(0, DType::f32, {1, 6}), 1, DType::f32, {1, 6});
  EXPECT_EQ(simplify(t.p).space, (Ints{30}));

  Builder bias({4, 5, 6});
  bias.store(bias.op(Prim::add, DType::f32, bias.load(0, DType::f32, {30, 6, 1}),
                     bias.load(1, DType::f32, {0, 0, 1})),
             2, DType::f32, {30, 6, 1});
  EXPECT_EQ(simplify(bias.p).space, (Ints{20, 6}));
  EXPECT_EQ(bias.p.flops(), 120);

  Builder sum({4, 5, 6}, {true, false, true});
  sum.store(sum.reduce(Prim::sum, sum.load(0, DType::f32, {30, 6, 1}), DType::f32), 1, DType::f32, {0, 1, 0});
  EXPECT_EQ(simplify(sum.p).space, (Ints{4, 5, 6}));
  EXPECT_EQ(sum.p.flops(), 120);
}

TEST(LoopSimplify, KeepsTheOrderOfArgmax) {
  Builder b({3, 4}, {true, true});
  b.store(b.reduce(Prim::argmax, b.load(0, DType::f32, {1, 3}), DType::i64), 1, DType::i64, {0, 0});
  EXPECT_EQ(simplify(b.p).operands[0].strides, (Ints{1, 3}));
}

TEST(LoopSimplify, ListsTheProgram) {
  Builder b({2, 3}, {false, true});
  const int x = b.load(0, DType::f32, {3, 1});
  const int m = b.op(Prim::mul, DType::f32, x, x);
  b.store(b.reduce(Prim::sum, m, DType::f32), 1, DType::f32, {1, 0});
  const std::string text = to_string(b.p);
  for (const char* part : {"for [2, 3 reduced]", "r0 = f32 load f32 buffer0[0 + (3, 1)]",
                           "r1 = f32 mul r0 r0", "r2 = f32 sum r1", "store r2"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_EQ(to_string(Prim::random_uniform), "random_uniform");
  EXPECT_EQ(to_string(Prim::none), "none");
}

// ---- random programs ----

class LoopRandomPrograms : public LoopOnIsa {};
TEST_P(LoopRandomPrograms, MeanTheSame) {
  std::mt19937 rng(2024);
  for (int k = 0; k < 400; ++k) {
    const LoopProgram p = random_program(rng);
    Memory m = memory_for(p, rng, -2, 2);
    check(p, m, 2e-4, 1 + k % 3);
    if (HasFatalFailure()) {
      FAIL() << "program " << k;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Isa, LoopRandomPrograms, ::testing::ValuesIn(isas), isa_name);

}  // namespace
}  // namespace athanor
