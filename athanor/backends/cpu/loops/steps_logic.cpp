#include "athanor/backends/cpu/loops/tables.h"
#include "athanor/backends/cpu/loops/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "athanor/backends/cpu/loops/steps_logic.cpp"
#include "hwy/foreach_target.h"
//
#include "athanor/backends/cpu/loops/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::loops::HWY_NAMESPACE {
namespace {

struct And {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::And(a, b);
  }
};
struct Or {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Or(a, b);
  }
};
struct Xor {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Xor(a, b);
  }
};
struct Copy {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a) const {
    return a;
  }
};
// For booleans, which are 0 or 1:
struct Below {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::AndNot(a, b);
  }
};
struct Same {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return hn::Xor(hn::Xor(a, b), hn::Set(d, uint8_t{1}));
  }
};

struct Less {
  template <class V>
  HWY_INLINE auto operator()(V a, V b) const {
    return hn::Lt(a, b);
  }
};
struct Equal {
  template <class V>
  HWY_INLINE auto operator()(V a, V b) const {
    return hn::Eq(a, b);
  }
};

/// A (partial) vector of u8 with as many lanes as a vector of D.
template <class D>
using Bytes = hn::Rebind<uint8_t, D>;

/// A mask as bytes 0 and 1.
template <class D, class M>
HWY_INLINE hn::Vec<Bytes<D>> to_bytes(D, M mask) {
  if constexpr (sizeof(hn::TFromD<D>) == 1) {
    const hn::RebindToUnsigned<D> du;
    return hn::IfThenElseZero(hn::RebindMask(du, mask), hn::Set(du, uint8_t{1}));
  } else {
    const hn::RebindToUnsigned<D> du;
    using U = hn::TFromD<decltype(du)>;
    return hn::TruncateTo(Bytes<D>(), hn::IfThenElseZero(hn::RebindMask(du, mask), hn::Set(du, U{1})));
  }
}

/// Bytes 0 and 1 as a mask for lanes of T.
template <class D>
HWY_INLINE hn::Mask<D> to_mask(D d, hn::Vec<Bytes<D>> bytes) {
  const hn::RebindToUnsigned<D> du;
  if constexpr (sizeof(hn::TFromD<D>) == 1) {
    return hn::RebindMask(d, hn::Ne(bytes, hn::Zero(du)));
  } else if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return hn::RebindMask(d, hn::Ne(hn::PromoteTo(du, bytes), hn::Zero(du)));
  } else {
    const hn::Rebind<uint32_t, D> d32;
    return hn::RebindMask(d, hn::Ne(hn::PromoteTo(du, hn::PromoteTo(d32, bytes)), hn::Zero(du)));
  }
}

template <class T, class F>
void compare_loop(void* dst, const void* const* src, size_t n, unsigned uniform) {
  const hn::ScalableTag<T> d;
  const Bytes<decltype(d)> d8;
  const size_t lanes = hn::Lanes(d);
  Source<T> a(src, 0, uniform, lanes), b(src, 1, uniform, lanes);
  auto* out = static_cast<uint8_t*>(dst);
  for (; n >= lanes; n -= lanes, out += lanes, a.advance(1), b.advance(1))
    hn::StoreU(to_bytes(d, F()(a.load(d), b.load(d))), d8, out);
  if (n > 0) store_some(d8, to_bytes(d, F()(a.load_some(d, n), b.load_some(d, n))), out, n);
}

template <class T>
void where_loop(void* dst, const void* const* src, size_t n, unsigned uniform) {
  const hn::ScalableTag<T> d;
  const Bytes<decltype(d)> d8;
  const size_t lanes = hn::Lanes(d);
  Source<uint8_t> c(src, 0, uniform, lanes);
  Source<T> a(src, 1, uniform, lanes), b(src, 2, uniform, lanes);
  auto* out = static_cast<T*>(dst);
  for (; n >= lanes; n -= lanes, out += lanes, c.advance(1), a.advance(1), b.advance(1))
    hn::StoreU(hn::IfThenElse(to_mask(d, c.load(d8)), a.load(d), b.load(d)), d, out);
  if (n > 0) {
    const auto mask = to_mask(d, c.load_some(d8, n));
    store_some(d, hn::IfThenElse(mask, a.load_some(d, n), b.load_some(d, n)), out, n);
  }
}

struct WhereLess {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, V u, V v) const {
    return hn::IfThenElse(hn::Lt(a, b), u, v);
  }
};

template <class T>
void copy_loop(void* dst, const void* const* src, size_t n, unsigned uniform) {
  if (uniform == 0) {
    std::memcpy(dst, src[0], n * sizeof(T));
    return;
  }
  const T value = *static_cast<const T*>(src[0]);
  auto* out = static_cast<T*>(dst);
  for (size_t i = 0; i < n; ++i) out[i] = value;
}

template <class T>
StepFn typed_step(Opcode op) {
  switch (op) {
    case Opcode::less:
      return compare_loop<T, Less>;
    case Opcode::equal:
      return compare_loop<T, Equal>;
    case Opcode::where_less:
      return vector_loop<T, WhereLess, 4>;
    default:
      return nullptr;
  }
}

template <class T>
StepFn bits_step(Opcode op) {
  switch (op) {
    case Opcode::bit_and:
      return vector_loop<T, And, 2>;
    case Opcode::bit_or:
      return vector_loop<T, Or, 2>;
    case Opcode::bit_xor:
      return vector_loop<T, Xor, 2>;
    case Opcode::floor:
      return vector_loop<T, Copy, 1>;
    default:
      return typed_step<T>(op);
  }
}

/// Arithmetic on 0 and 1. A result other than 0 becomes 1.
StepFn bool_step(Opcode op) {
  switch (op) {
    case Opcode::neg:
    case Opcode::abs:
      return vector_loop<uint8_t, Copy, 1>;
    case Opcode::add:
    case Opcode::max:
      return vector_loop<uint8_t, Or, 2>;
    case Opcode::sub:
      return vector_loop<uint8_t, Xor, 2>;
    case Opcode::mul:
    case Opcode::div:
    case Opcode::min:
      return vector_loop<uint8_t, And, 2>;
    case Opcode::less:
      return vector_loop<uint8_t, Below, 2>;
    case Opcode::equal:
      return vector_loop<uint8_t, Same, 2>;
    default:
      return bits_step<uint8_t>(op);
  }
}

StepFn sized_step(Opcode op, size_t size) {
  switch (size) {
    case 1:
      return op == Opcode::copy ? copy_loop<uint8_t> : where_loop<uint8_t>;
    case 2:
      return op == Opcode::copy ? copy_loop<uint16_t> : nullptr;
    case 4:
      return op == Opcode::copy ? copy_loop<uint32_t> : where_loop<uint32_t>;
    default:
      return op == Opcode::copy ? copy_loop<uint64_t> : where_loop<uint64_t>;
  }
}

}  // namespace

StepFn logic(Opcode op, DType type) {
  if (op == Opcode::copy || op == Opcode::where) return sized_step(op, size_of(type));
  switch (type) {
    case DType::f64:
      return typed_step<double>(op);
    case DType::f32:
      return typed_step<float>(op);
    case DType::i64:
      return bits_step<int64_t>(op);
    case DType::i32:
      return bits_step<int32_t>(op);
    case DType::i8:
      return bits_step<int8_t>(op);
    case DType::u8:
      return bits_step<uint8_t>(op);
    case DType::b8:
      return bool_step(op);
    default:
      return nullptr;
  }
}

}  // namespace athanor::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::loops {
HWY_EXPORT(logic);
StepFn logic_step(Opcode op, DType type) { return HWY_DYNAMIC_DISPATCH(logic)(op, type); }
}  // namespace athanor::loops
#endif
