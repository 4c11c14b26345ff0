// The primitives of the CPU's fused loops, casts, mathematical functions and random numbers, on every
// instruction set that the machine has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "athanor/base/error.h"
#include "tests/backends/cpu_loops.h"

namespace athanor {
namespace {

using namespace testing;  // NOLINT: Builder, Memory, ...

// ---- primitives ----

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
        for (int uniform = 0; uniform < 3; ++uniform) {  // broadcast: neither, the first or the second
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
      for (int64_t n : sizes)
        for (int uniform = 0; uniform < 8; ++uniform)
          for (bool product_first : {false, true}) {
            Builder b({n});
            int r[3];
            for (int k = 0; k < 3; ++k) r[k] = b.load(k, t, {uniform >> k & 1 ? 0 : 1});
            const int m = b.op(Prim::mul, t, r[0], r[1]);
            b.store(product_first ? b.op(prim, t, m, r[2]) : b.op(prim, t, r[2], m), 3, t, {1});
            check(b.p, 1e-6);
          }
}

// The number of steps in "avx2, 1 tile of 1024, 5 steps".
int steps_of(const LoopProgram& p) {
  const std::string text = LoopKernel(p).description();
  return std::stoi(text.substr(text.rfind(", ", text.find(" step")) + 2));
}

/// A step of arithmetic, alone or with a product (a * b + c), and another one that uses its result.
struct TwoSteps {
  Prim first, second;
  bool first_is_fused, second_is_fused, turned;  // turned: the result is the second's last source

  /// Whether lowering makes two steps of it, with at most four sources.
  bool is_one() const {
    if (first_is_fused && (first == Prim::mul || second_is_fused)) return false;
    if (second_is_fused) return second != Prim::mul;
    return first != Prim::mul || second == Prim::mul;
  }
  /// `uniform`: the sources that are the same for all elements. `stored`: the first result is stored, too, so
  /// that it needs a step of its own.
  LoopProgram program(int64_t n, unsigned uniform, bool stored) const {
    const DType t = DType::f32;
    Builder b({n});
    const auto load = [&](int k) { return b.load(k, t, {uniform >> k & 1 ? 0 : 1}); };
    const int u = load(0), v = load(1), w = load(2), x = load(3);
    const int one = first_is_fused ? b.op(first, t, b.op(Prim::mul, t, u, v), x) : b.op(first, t, u, v);
    int left = one, right = w;
    if (second_is_fused) left = b.op(Prim::mul, t, turned ? w : one, turned ? one : w), right = x;
    b.store(turned ? b.op(second, t, right, left) : b.op(second, t, left, right), 4, t, {1});
    if (stored) b.store(one, 5, t, {1});
    return b.p;
  }
};

std::vector<TwoSteps> all_pairs() {
  constexpr Prim prims[] = {Prim::add, Prim::sub, Prim::mul};
  std::vector<TwoSteps> pairs;
  for (const Prim first : prims)
    for (const Prim second : prims)
      for (int i = 0; i < 8; ++i)
        if (const TwoSteps pair{first, second, (i & 1) != 0, (i & 2) != 0, (i & 4) != 0}; pair.is_one())
          pairs.push_back(pair);
  return pairs;
}

// Two steps in one give the bits of one step after the other.
TEST_P(LoopPrimitives, PairsHaveTheBitsOfSteps) {
  std::mt19937 rng(1);
  const std::vector<TwoSteps> pairs = all_pairs();
  EXPECT_EQ(pairs.size(), 38U);
  for (const TwoSteps& pair : pairs)
    for (const int64_t n : {7, 17, 1003}) {
      // At most one source of each step is uniform. (A step of uniform ones is no part of a pair.)
      const unsigned uniform = (1U << rng() % 3 | 8U * (rng() % 2)) & (pair.first_is_fused ? 7U : 15U);
      const LoopProgram one = pair.program(n, uniform, false), two = pair.program(n, uniform, true);
      Memory got = memory_for(two, rng), want = got;
      LoopKernel(one).run(got.addresses(), 1);
      LoopKernel(two).run(want.addresses(), 1);
      EXPECT_EQ(std::memcmp(got.addresses()[4], want.addresses()[4], static_cast<size_t>(n) * 4), 0)
          << to_string(one);
      EXPECT_LT(steps_of(one), steps_of(two)) << to_string(one);
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

TEST_P(LoopPrimitives, FloatsOfEightBitsConvertAsTheScalarTypes) {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < 0xfff00000; bits += 65521) x.push_back(std::bit_cast<float>(bits));
  std::vector<uint8_t> codes(256);
  for (size_t code = 0; code < 256; ++code) codes[code] = static_cast<uint8_t>(code);
  const auto check_type = [&]<class F8>(F8) {
    const auto convert = [](const auto& from, DType from_type, auto& to, DType to_type) {
      Builder b({std::ssize(from)});
      b.store(b.load(0, from_type, {1}), 1, to_type, {1});
      void* const buffers[] = {const_cast<void*>(static_cast<const void*>(from.data())), to.data()};
      LoopKernel(b.p).run(buffers, 1);
    };
    std::vector<uint8_t> narrow(x.size());
    convert(x, DType::f32, narrow, dtype_of<F8>);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(narrow[i], F8(x[i]).bits) << x[i];
    std::vector<float> wide(256);
    convert(codes, dtype_of<F8>, wide, DType::f32);
    for (size_t code = 0; code < 256; ++code) {
      F8 one;
      one.bits = codes[code];
      EXPECT_EQ(std::bit_cast<uint32_t>(wide[code]), std::bit_cast<uint32_t>(static_cast<float>(one)));
    }
  };
  check_type(f8e4m3{});
  check_type(f8e5m2{});
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
    // Half of the values are spread over the exponents.
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
  expect_ulps(Prim::tanh, std::tanh, -10, 10, 3);
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

}  // namespace
}  // namespace athanor
