#include <cmath>
#include <limits>

#include "athanor/backends/cpu/loops/tables.h"
#include "athanor/backends/cpu/loops/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "athanor/backends/cpu/loops/steps_arithmetic.cpp"
#include "hwy/foreach_target.h"
//
#include "athanor/backends/cpu/loops/arithmetic-inl.h"
#include "athanor/backends/cpu/loops/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::loops::HWY_NAMESPACE {
namespace {

struct Neg {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) return hn::Neg(a);
    return hn::Sub(hn::Zero(d), a);  // also for unsigned types; the lowest integer stays itself
  }
};
struct Abs {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a) const {
    using T = hn::TFromD<D>;
    if constexpr (std::is_unsigned_v<T>)
      return a;
    else if constexpr (hwy::IsFloat<T>())
      return hn::Abs(a);
    else
      return hn::Max(a, hn::Sub(hn::Zero(d), a));
  }
};
struct Floor {  // -0 stays -0, unlike in Highway's scalar code
  template <class D, class V>
  HWY_INLINE V operator()(D, V a) const {
    return hn::CopySign(hn::Floor(a), a);
  }
};
struct Sqrt {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a) const {
    return hn::Sqrt(a);
  }
};
struct Div {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Div(a, b);
  }
};
struct Max {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return max_of(d, a, b);
  }
};
struct Min {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return min_of(d, a, b);
  }
};

// Integers wrap; C++ defines that only for unsigned types.
template <class T>
struct IntMul {
  T operator()(T a, T b) const { return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }
};
template <class T>
struct IntDiv {
  T operator()(T a, T b) const {
    if (b == 0) return 0;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - static_cast<uint64_t>(a));
    return static_cast<T>(a / b);
  }
};
template <class T>
struct IntMod {
  T operator()(T a, T b) const {
    if (b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1))) return 0;
    return static_cast<T>(a % b);
  }
};
/// A negative power of 1 or -1 is exact; of other integers it is 0 (truncated), like division by zero.
template <class T>
struct IntPow {
  T operator()(T a, T b) const {
    if (b < 0) {
      if (a == 1) return 1;
      if (a == static_cast<T>(-1)) return static_cast<T>(b % 2 == 0 ? 1 : -1);
      return 0;
    }
    uint64_t result = 1, base = static_cast<uint64_t>(a);
    for (auto e = static_cast<uint64_t>(b); e != 0; e >>= 1, base *= base)
      if (e & 1) result *= base;
    return static_cast<T>(result);
  }
};
template <class T>
struct FloatMod {
  T operator()(T a, T b) const { return std::fmod(a, b); }
};

template <class T>
StepFn common_step(Opcode op) {
  switch (op) {
    case Opcode::neg:
      return vector_loop<T, Neg, 1>;
    case Opcode::abs:
      return vector_loop<T, Abs, 1>;
    case Opcode::add:
      return vector_loop<T, Add, 2>;
    case Opcode::sub:
      return vector_loop<T, Sub, 2>;
    case Opcode::max:
      return vector_loop<T, Max, 2>;
    case Opcode::min:
      return vector_loop<T, Min, 2>;
    default:
      return nullptr;
  }
}

template <class T>
StepFn float_step(Opcode op) {
  switch (op) {
    case Opcode::floor:
      return vector_loop<T, Floor, 1>;
    case Opcode::sqrt:
      return vector_loop<T, Sqrt, 1>;
    case Opcode::mul:
      return vector_loop<T, Mul, 2>;
    case Opcode::div:
      return vector_loop<T, Div, 2>;
    case Opcode::mod:
      return scalar_loop2<T, FloatMod<T>>;
    case Opcode::fma:
      return vector_loop<T, Fma, 3>;
    case Opcode::fms:
      return vector_loop<T, Fms, 3>;
    case Opcode::fnma:
      return vector_loop<T, Fnma, 3>;
    default:
      return common_step<T>(op);
  }
}

template <class T>
StepFn int_step(Opcode op) {
  switch (op) {
    case Opcode::mul:
      if constexpr (std::is_same_v<T, int32_t>)
        return vector_loop<T, Mul, 2>;
      else
        return scalar_loop2<T, IntMul<T>>;
    case Opcode::div:
      return scalar_loop2<T, IntDiv<T>>;
    case Opcode::mod:
      return scalar_loop2<T, IntMod<T>>;
    case Opcode::pow:
      return scalar_loop2<T, IntPow<T>>;
    default:
      return common_step<T>(op);
  }
}

}  // namespace

StepFn arithmetic(Opcode op, DType type) {
  switch (type) {
    case DType::f64:
      return float_step<double>(op);
    case DType::f32:
      return float_step<float>(op);
    case DType::i64:
      return int_step<int64_t>(op);
    case DType::i32:
      return int_step<int32_t>(op);
    case DType::i8:
      return int_step<int8_t>(op);
    case DType::u8:
      return int_step<uint8_t>(op);
    default:
      return nullptr;
  }
}

}  // namespace athanor::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::loops {
HWY_EXPORT(arithmetic);
StepFn arithmetic_step(Opcode op, DType type) { return HWY_DYNAMIC_DISPATCH(arithmetic)(op, type); }
}  // namespace athanor::loops
#endif
