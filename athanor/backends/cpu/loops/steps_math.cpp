#include <cmath>

#include "athanor/backends/cpu/loops/tables.h"
#include "athanor/backends/cpu/loops/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "athanor/backends/cpu/loops/steps_math.cpp"
#include "hwy/foreach_target.h"
//
#include "athanor/backends/cpu/loops/lanes-inl.h"
#include "athanor/backends/cpu/loops/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::loops::HWY_NAMESPACE {
namespace {

struct Exp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a) const {
    return exp_of(d, a);
  }
};
struct Log {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a) const {
    return log_of(d, a);
  }
};
struct Sin {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a) const {
    return sin_of(d, a);
  }
};
struct Cos {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a) const {
    return cos_of(d, a);
  }
};
struct Tanh {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a) const {
    return tanh_of(d, a);
  }
};
struct Erf {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a) const {
    return erf_of(d, a);
  }
};
struct Pow {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return pow_of(d, a, b);
  }
};

// f64 is for gradient checks and references, where libm's last digits matter more than speed.
struct Exp64 {
  double operator()(double a) const { return std::exp(a); }
};
struct Log64 {
  double operator()(double a) const { return std::log(a); }
};
struct Sin64 {
  double operator()(double a) const { return std::sin(a); }
};
struct Cos64 {
  double operator()(double a) const { return std::cos(a); }
};
struct Tanh64 {
  double operator()(double a) const { return std::tanh(a); }
};
struct Erf64 {
  double operator()(double a) const { return std::erf(a); }
};
struct Pow64 {
  double operator()(double a, double b) const { return std::pow(a, b); }
};

}  // namespace

StepFn math(Opcode op, DType type) {
  const bool wide = type == DType::f64;
  if (!wide && type != DType::f32) return nullptr;
  switch (op) {
    case Opcode::exp:
      return wide ? scalar_loop1<double, double, Exp64> : vector_loop<float, Exp, 1>;
    case Opcode::log:
      return wide ? scalar_loop1<double, double, Log64> : vector_loop<float, Log, 1>;
    case Opcode::sin:
      return wide ? scalar_loop1<double, double, Sin64> : vector_loop<float, Sin, 1>;
    case Opcode::cos:
      return wide ? scalar_loop1<double, double, Cos64> : vector_loop<float, Cos, 1>;
    case Opcode::tanh:
      return wide ? scalar_loop1<double, double, Tanh64> : vector_loop<float, Tanh, 1>;
    case Opcode::erf:
      return wide ? scalar_loop1<double, double, Erf64> : vector_loop<float, Erf, 1>;
    case Opcode::pow:
      return wide ? scalar_loop2<double, Pow64> : vector_loop<float, Pow, 2>;
    default:
      return nullptr;
  }
}

}  // namespace athanor::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::loops {
HWY_EXPORT(math);
StepFn math_step(Opcode op, DType type) { return HWY_DYNAMIC_DISPATCH(math)(op, type); }
}  // namespace athanor::loops
#endif
