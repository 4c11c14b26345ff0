// Two steps of arithmetic in one: what the first computes stays in a register.
#include <cstddef>
#include <type_traits>
#include <utility>

#include "athanor/backends/cpu/loops/steps.h"
#include "athanor/backends/cpu/loops/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "athanor/backends/cpu/loops/steps_pairs.cpp"
#include "hwy/foreach_target.h"
//
#include "athanor/backends/cpu/loops/arithmetic-inl.h"
#include "athanor/backends/cpu/loops/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::loops::HWY_NAMESPACE {
namespace {

template <class F, class D, class V, size_t... k>
HWY_INLINE V call(D d, const V* sources, std::index_sequence<k...>) {
  return F()(d, sources[k]...);
}

/// Source `place` of Second is what First computes. The others follow First's sources.
template <class First, size_t firsts, class Second, size_t seconds, size_t place>
struct Both {
  template <class D, class V, class... More>
  HWY_INLINE V operator()(D d, V v, More... more) const {
    const V all[] = {v, more...};
    V sources[seconds];
    for (size_t k = 0, next = firsts; k < seconds; ++k)
      sources[k] = k == place ? call<First>(d, all, std::make_index_sequence<firsts>()) : all[next++];
    return call<Second>(d, sources, std::make_index_sequence<seconds>());
  }
};

template <class First, size_t firsts, class Second, size_t seconds, size_t place>
constexpr StepFn loop() {
  using Pair = Both<First, firsts, Second, seconds, place>;
  constexpr size_t sources = firsts + seconds - 1;
  static_assert(sources <= max_sources);
  return vector_loop<float, Pair, sources>;
}

/// A second step of two sources. A product is multiplied here, not added: that is one step, fma.
template <class First, size_t firsts>
StepFn then_two(Opcode second, int place) {
  if constexpr (std::is_same_v<First, Mul>)
    return second == Opcode::mul && place == 0 ? loop<Mul, 2, Mul, 2, 0>() : nullptr;
  switch (second) {
    case Opcode::add:
      return place == 0 ? loop<First, firsts, Add, 2, 0>() : nullptr;
    case Opcode::sub:
      return place == 0 ? loop<First, firsts, Sub, 2, 0>() : loop<First, firsts, Sub, 2, 1>();
    case Opcode::mul:
      return place == 0 ? loop<First, firsts, Mul, 2, 0>() : nullptr;
    default:
      return nullptr;
  }
}

/// A second step of two or three sources: the first one's result is a factor, or the third source.
template <class First>
StepFn then_any(Opcode second, int place) {
  switch (second) {
    case Opcode::fma:
      return place == 0 ? loop<First, 2, Fma, 3, 0>() : place == 2 ? loop<First, 2, Fma, 3, 2>() : nullptr;
    case Opcode::fms:
      return place == 0 ? loop<First, 2, Fms, 3, 0>() : place == 2 ? loop<First, 2, Fms, 3, 2>() : nullptr;
    case Opcode::fnma:
      return place == 0 ? loop<First, 2, Fnma, 3, 0>() : place == 2 ? loop<First, 2, Fnma, 3, 2>() : nullptr;
    default:
      return then_two<First, 2>(second, place);
  }
}

}  // namespace

StepFn pairs(const StepPair& pair) {
  switch (pair.first) {
    case Opcode::add:
      return then_any<Add>(pair.second, pair.place);
    case Opcode::sub:
      return then_any<Sub>(pair.second, pair.place);
    case Opcode::mul:
      return then_any<Mul>(pair.second, pair.place);
    case Opcode::fma:
      return then_two<Fma, 3>(pair.second, pair.place);
    case Opcode::fms:
      return then_two<Fms, 3>(pair.second, pair.place);
    case Opcode::fnma:
      return then_two<Fnma, 3>(pair.second, pair.place);
    default:
      return nullptr;
  }
}

}  // namespace athanor::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::loops {
HWY_EXPORT(pairs);
StepFn find_pair(const StepPair& pair, DType type) {
  return type == DType::f32 ? HWY_DYNAMIC_DISPATCH(pairs)(pair) : nullptr;
}
}  // namespace athanor::loops
#endif
