// A slow, plain interpreter of loop programs: one element at a time, floats in f64 rounded to each register's
// type. It shares nothing with the kernels that it checks.
#pragma once
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "athanor/kernels/loop_program.h"

namespace athanor::reference {

struct Value {
  double f = 0;   // the value of a float type
  int64_t i = 0;  // the value of any other type
};

inline int64_t wrap(DType t, int64_t v) {
  switch (t) {
    case DType::i32:
      return static_cast<int32_t>(v);
    case DType::i8:
      return static_cast<int8_t>(v);
    case DType::u8:
      return static_cast<uint8_t>(v);
    case DType::b8:
      return v != 0;
    default:
      return v;
  }
}
inline Value rounded(DType t, Value v) {
  if (t == DType::f32) v.f = static_cast<double>(static_cast<float>(v.f));
  if (t == DType::f16) v.f = static_cast<double>(static_cast<float>(f16(static_cast<float>(v.f))));
  if (t == DType::bf16) v.f = static_cast<double>(static_cast<float>(bf16(static_cast<float>(v.f))));
  if (t == DType::f8e4m3) v.f = static_cast<double>(static_cast<float>(f8e4m3(static_cast<float>(v.f))));
  if (t == DType::f8e5m2) v.f = static_cast<double>(static_cast<float>(f8e5m2(static_cast<float>(v.f))));
  if (!is_float(t)) v.i = wrap(t, v.i);
  return v;
}
inline Value cast(Value v, DType from, DType to) {
  if (is_float(from) && is_float(to)) return rounded(to, v);
  if (is_float(from)) {
    if (to == DType::b8) return {0, v.f != 0};
    const bool fits = v.f >= -0x1p63 && v.f < 0x1p63;
    return {0, wrap(to, fits ? static_cast<int64_t>(v.f) : std::numeric_limits<int64_t>::min())};
  }
  if (!is_float(to)) return {0, wrap(to, v.i)};
  return to == DType::f32 ? Value{static_cast<double>(static_cast<float>(v.i)), 0}
                          : rounded(to, {static_cast<double>(v.i), 0});
}

inline Value read(const void* base, DType t, int64_t at) {
  return visit_dtype(t, [&](auto tag) -> Value {
    using T = decltype(tag);
    T x;
    std::memcpy(&x, static_cast<const char*>(base) + at * static_cast<int64_t>(sizeof(T)), sizeof(T));
    if constexpr (is_narrow_float(dtype_of<T>))
      return {static_cast<double>(static_cast<float>(x)), 0};
    else if constexpr (std::is_floating_point_v<T>)
      return {static_cast<double>(x), 0};
    else
      return {0, static_cast<int64_t>(x)};
  });
}
inline void write(void* base, DType t, int64_t at, Value v) {
  visit_dtype(t, [&](auto tag) {
    using T = decltype(tag);
    T x;
    if constexpr (is_narrow_float(dtype_of<T>))
      x = T(static_cast<float>(v.f));
    else if constexpr (std::is_floating_point_v<T>)
      x = static_cast<T>(v.f);
    else
      x = static_cast<T>(v.i);
    std::memcpy(static_cast<char*>(base) + at * static_cast<int64_t>(sizeof(T)), &x, sizeof(T));
  });
}

/// Philox4x32-10 of Salmon et al.
inline std::vector<uint32_t> philox(std::vector<uint32_t> c, uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0], p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}
inline double random_uniform(int64_t key, int64_t counter) {
  const auto k = static_cast<uint64_t>(key), block = static_cast<uint64_t>(counter) / 4;
  const auto words = philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                            static_cast<uint32_t>(k), static_cast<uint32_t>(k >> 32));
  return static_cast<double>(words[static_cast<size_t>(counter % 4)] >> 8) / 0x1p24;
}

inline int64_t int_pow(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
  uint64_t r = 1;
  for (int64_t k = 0; k < b; ++k) r *= static_cast<uint64_t>(a);
  return static_cast<int64_t>(r);
}

inline Value apply(Prim p, DType in, DType out, Value a, Value b, Value c) {
  const bool fl = is_float(in);
  const auto f = [&](double x) { return rounded(out, {x, 0}); };
  const auto i = [&](uint64_t x) { return Value{0, wrap(out, static_cast<int64_t>(x))}; };
  const auto ua = static_cast<uint64_t>(a.i), ub = static_cast<uint64_t>(b.i);
  switch (p) {
    case Prim::neg:
      return fl ? f(-a.f) : i(0 - ua);
    case Prim::abs:
      return fl ? f(std::fabs(a.f)) : i(a.i < 0 ? 0 - ua : ua);
    case Prim::exp:
      return f(std::exp(a.f));
    case Prim::log:
      return f(std::log(a.f));
    case Prim::sin:
      return f(std::sin(a.f));
    case Prim::cos:
      return f(std::cos(a.f));
    case Prim::tanh:
      return f(std::tanh(a.f));
    case Prim::erf:
      return f(std::erf(a.f));
    case Prim::sqrt:
      return f(std::sqrt(a.f));
    case Prim::floor:
      return fl ? f(std::floor(a.f)) : a;
    case Prim::cast:
      return cast(a, in, out);
    case Prim::add:
      return fl ? f(a.f + b.f) : i(ua + ub);
    case Prim::sub:
      return fl ? f(a.f - b.f) : i(ua - ub);
    case Prim::mul:
      return fl ? f(a.f * b.f) : i(ua * ub);
    case Prim::div:
      return fl          ? f(a.f / b.f)
             : b.i == 0  ? Value{}
             : b.i == -1 ? i(0 - ua)
                         : i(static_cast<uint64_t>(a.i / b.i));
    case Prim::mod:
      return fl ? f(std::fmod(a.f, b.f)) : b.i == 0 || b.i == -1 ? Value{} : Value{0, a.i % b.i};
    case Prim::pow:
      return fl ? f(std::pow(a.f, b.f)) : i(static_cast<uint64_t>(int_pow(a.i, b.i)));
    case Prim::max:
      if (!fl) return {0, std::max(a.i, b.i)};
      return f(std::isnan(a.f) || std::isnan(b.f) ? std::nan("") : std::max(a.f, b.f));
    case Prim::min:
      if (!fl) return {0, std::min(a.i, b.i)};
      return f(std::isnan(a.f) || std::isnan(b.f) ? std::nan("") : std::min(a.f, b.f));
    case Prim::less:
      return {0, fl ? a.f < b.f : a.i < b.i};
    case Prim::equal:
      return {0, fl ? a.f == b.f : a.i == b.i};
    case Prim::bit_and:
      return {0, a.i & b.i};
    case Prim::bit_or:
      return {0, a.i | b.i};
    case Prim::bit_xor:
      return {0, a.i ^ b.i};
    case Prim::where:
      return a.i != 0 ? b : c;
    case Prim::random_uniform:
      return {random_uniform(a.i, b.i), 0};
    default:
      throw std::runtime_error("not elementwise");
  }
}

/// The running result of one reduction. Floats are in f64.
struct Accumulator {
  Value v;
  int64_t best = -1;  // the index that argmax returns
  int64_t seen = 0;
  void add(Prim p, DType t, Value x, int64_t index) {
    const bool fl = is_float(t), first = seen++ == 0;
    const auto above = [&](Value l, Value r) {
      return fl ? (std::isnan(l.f) && !std::isnan(r.f)) || l.f > r.f : l.i > r.i;
    };
    switch (p) {
      case Prim::sum:
        v.f += x.f;
        v.i = wrap(t, static_cast<int64_t>(static_cast<uint64_t>(v.i) + static_cast<uint64_t>(x.i)));
        break;
      case Prim::prod:
        v.f = (first ? 1 : v.f) * x.f;
        v.i = wrap(t,
                   static_cast<int64_t>(static_cast<uint64_t>(first ? 1 : v.i) * static_cast<uint64_t>(x.i)));
        break;
      case Prim::reduce_max:
        if (first || above(x, v)) v = x;
        break;
      case Prim::reduce_min:
        if (first || (fl ? std::isnan(x.f) || x.f < v.f : x.i < v.i)) v = x;
        break;
      default:
        if (first || above(x, v)) {
          v = x;
          best = index;
        }
    }
  }
  Value result(Prim p, DType t) const {
    if (p == Prim::argmax) return {0, std::max<int64_t>(best, 0)};
    if (seen > 0) return rounded(t, v);
    const double inf = std::numeric_limits<double>::infinity();
    const auto lowest = [&](bool low) {
      return visit_dtype(t, [&](auto tag) {
        using T = decltype(tag);
        if constexpr (std::is_integral_v<T>)
          return static_cast<int64_t>(low ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max());
        else
          return int64_t{0};
      });
    };
    if (p == Prim::sum) return {};
    if (p == Prim::prod) return {1, 1};
    return p == Prim::reduce_max ? Value{-inf, lowest(true)} : Value{inf, lowest(false)};
  }
};

class Interpreter {
 public:
  Interpreter(const LoopProgram& p, std::span<void* const> buffers) : p_(p), buffers_(buffers) {
    for (const auto* part : {&p.body, &p.epilogue}) {
      for (const LoopStep& s : *part) types_.push_back(s.type);
      if (part == &p.body)
        for (const LoopReduction& r : p.reductions) types_.push_back(r.type);
    }
  }
  void run() {
    Ints index(p_.space.size(), 0);
    over(index, 0, false, [&] {
      std::vector<Accumulator> acc(p_.reductions.size());
      int64_t reduced_index = 0;
      over(index, 0, true, [&] {
        std::vector<Value> regs;
        steps(p_.body, index, regs);
        stores(p_.stores, index, regs);
        for (size_t r = 0; r < acc.size(); ++r) {
          const auto source = static_cast<size_t>(p_.reductions[r].source);
          acc[r].add(p_.reductions[r].prim, types_[source], regs[source], reduced_index);
        }
        ++reduced_index;
      });
      if (p_.reductions.empty()) return;
      std::vector<Value> regs;  // the body's registers at index 0 of the reduced dimensions
      if (p_.iterations() > 0)
        steps(p_.body, index, regs);
      else
        regs.resize(p_.body.size());
      for (size_t r = 0; r < acc.size(); ++r)
        regs.push_back(acc[r].result(p_.reductions[r].prim, p_.reductions[r].type));
      steps(p_.epilogue, index, regs);
      stores(p_.epilogue_stores, index, regs);
    });
  }

 private:
  template <class F>
  void over(Ints& index, size_t d, bool reduced, const F& f) {
    if (d == p_.space.size()) return f();
    if (p_.reduced[d] != reduced) return over(index, d + 1, reduced, f);
    for (index[d] = 0; index[d] < p_.space[d]; ++index[d]) over(index, d + 1, reduced, f);
    index[d] = 0;
  }
  static int64_t affine(int64_t at, const Ints& strides, const Ints& index) {
    for (size_t d = 0; d < index.size(); ++d) at += strides[d] * index[d];
    return at;
  }
  void steps(const std::vector<LoopStep>& list, const Ints& index, std::vector<Value>& regs) const {
    for (const LoopStep& s : list) {
      const auto reg = [&](int r) { return r < 0 ? Value{} : regs[static_cast<size_t>(r)]; };
      switch (s.kind) {
        case LoopStep::Kind::load: {
          const LoopOperand& o = p_.operands[static_cast<size_t>(s.operand)];
          regs.push_back(
              cast(read(buffers_[static_cast<size_t>(o.buffer)], o.dtype, affine(o.offset, o.strides, index)),
                   o.dtype, s.type));
          break;
        }
        case LoopStep::Kind::constant:
          regs.push_back(rounded(s.type, {s.value, s.int_value}));
          break;
        case LoopStep::Kind::index:
          regs.push_back({0, affine(s.index_offset, s.index_strides, index)});
          break;
        case LoopStep::Kind::primitive: {
          const int last = s.c >= 0 ? s.c : s.b >= 0 ? s.b : s.a;
          regs.push_back(
              apply(s.prim, types_[static_cast<size_t>(last)], s.type, reg(s.a), reg(s.b), reg(s.c)));
        }
      }
    }
  }
  void stores(const std::vector<LoopStore>& list, const Ints& index, const std::vector<Value>& regs) const {
    for (const LoopStore& s : list) {
      const LoopOperand& o = p_.operands[static_cast<size_t>(s.operand)];
      const auto source = static_cast<size_t>(s.source);
      write(buffers_[static_cast<size_t>(o.buffer)], o.dtype, affine(o.offset, o.strides, index),
            cast(regs[source], types_[source], o.dtype));
    }
  }

  const LoopProgram& p_;
  std::span<void* const> buffers_;
  std::vector<DType> types_;
};

}  // namespace athanor::reference
