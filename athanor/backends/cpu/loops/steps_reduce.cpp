#include <cmath>
#include <limits>

#include "athanor/backends/cpu/loops/tables.h"
#include "athanor/backends/cpu/loops/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "athanor/backends/cpu/loops/steps_reduce.cpp"
#include "hwy/foreach_target.h"
//
#include "athanor/backends/cpu/loops/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::loops::HWY_NAMESPACE {
namespace {

template <class T>
HWY_INLINE bool is_nan(T a) {
  return a != a;
}

// A reduction's operation on vectors and on values, and its neutral value.
struct Sum {
  template <class T>
  static constexpr bool vectorised = true;
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Add(a, b);
  }
  template <class T>
  HWY_INLINE T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
  template <class T>
  static constexpr T identity() {
    return 0;
  }
};
struct Product {
  template <class T>
  static constexpr bool vectorised = hwy::IsFloat<T>() || std::is_same_v<T, int32_t>;
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Mul(a, b);
  }
  template <class T>
  HWY_INLINE T operator()(T a, T b) const {
    if constexpr (hwy::IsFloat<T>())
      return a * b;
    else
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
  template <class T>
  static constexpr T identity() {
    return 1;
  }
};
struct Largest {
  template <class T>
  static constexpr bool vectorised = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return max_of(d, a, b);
  }
  template <class T>
  HWY_INLINE T operator()(T a, T b) const {
    return is_nan(a) || a > b ? a : b;
  }
  template <class T>
  static constexpr T identity() {
    return hwy::IsFloat<T>() ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  }
};
struct Smallest {
  template <class T>
  static constexpr bool vectorised = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return min_of(d, a, b);
  }
  template <class T>
  HWY_INLINE T operator()(T a, T b) const {
    return is_nan(a) || a < b ? a : b;
  }
  template <class T>
  static constexpr T identity() {
    return hwy::IsFloat<T>() ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
};

template <class T, class F, class D>
HWY_INLINE T fold_lanes(D d, hn::Vec<D> v) {
  alignas(64) T lanes[64 / sizeof(T)];
  hn::Store(v, d, lanes);
  for (size_t width = hn::Lanes(d) / 2; width > 0; width /= 2)
    for (size_t j = 0; j < width; ++j) lanes[j] = F()(lanes[j], lanes[j + width]);
  return lanes[0];
}

/// Reduces one row in four vectors of partial results. This is faster than one vector, and rounding errors
/// are those of 64 separate sums (AVX-512).
template <class T, class F>
HWY_INLINE T fold_row(const T* p, size_t n) {
  const F f;
  if constexpr (!F::template vectorised<T>) {
    T r = F::template identity<T>();
    for (size_t i = 0; i < n; ++i) r = f(r, p[i]);
    return r;
  } else {
    const hn::ScalableTag<T> d;
    const size_t lanes = hn::Lanes(d);
    const auto identity = hn::Set(d, F::template identity<T>());
    auto r0 = identity;
    size_t i = 0;
    if (n >= 4 * lanes) {
      auto r1 = identity, r2 = identity, r3 = identity;
      for (; i + 4 * lanes <= n; i += 4 * lanes) {
        r0 = f(d, r0, hn::LoadU(d, p + i));
        r1 = f(d, r1, hn::LoadU(d, p + i + lanes));
        r2 = f(d, r2, hn::LoadU(d, p + i + 2 * lanes));
        r3 = f(d, r3, hn::LoadU(d, p + i + 3 * lanes));
      }
      r0 = f(d, f(d, r0, r1), f(d, r2, r3));
    }
    for (; i + lanes <= n; i += lanes) r0 = f(d, r0, hn::LoadU(d, p + i));
    if (i < n) {
      const auto rest = hn::IfThenElse(hn::FirstN(d, n - i), load_some(d, p + i, n - i), identity);
      r0 = f(d, r0, rest);
    }
    return fold_lanes<T, F>(d, r0);
  }
}

template <class T, class W, class F>
void fold_rows(void* acc, int64_t*, const void* src, const int64_t*, size_t rows, size_t len) {
  auto* a = static_cast<W*>(acc);
  const auto* p = static_cast<const T*>(src);
  for (size_t r = 0; r < rows; ++r) a[r] = F()(a[r], static_cast<W>(fold_row<T, F>(p + r * len, len)));
}

/// The same for the sum of products.
template <class T, class W>
void fold_product_rows(void* acc, const void* a, const void* b, size_t rows, size_t len) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  auto* sum = static_cast<W*>(acc);
  const auto* p = static_cast<const T*>(a);
  const auto* q = static_cast<const T*>(b);
  const auto at = [&](const T* x, size_t i) HWY_ATTR { return hn::LoadU(d, x + i); };
  for (size_t r = 0; r < rows; ++r, p += len, q += len) {
    auto r0 = hn::Zero(d), r1 = r0, r2 = r0, r3 = r0;
    size_t i = 0;
    for (; i + 4 * lanes <= len; i += 4 * lanes) {
      r0 = hn::MulAdd(at(p, i), at(q, i), r0);
      r1 = hn::MulAdd(at(p, i + lanes), at(q, i + lanes), r1);
      r2 = hn::MulAdd(at(p, i + 2 * lanes), at(q, i + 2 * lanes), r2);
      r3 = hn::MulAdd(at(p, i + 3 * lanes), at(q, i + 3 * lanes), r3);
    }
    r0 = hn::Add(hn::Add(r0, r1), hn::Add(r2, r3));
    for (; i + lanes <= len; i += lanes) r0 = hn::MulAdd(at(p, i), at(q, i), r0);
    if (i < len) r0 = hn::MulAdd(load_some(d, p + i, len - i), load_some(d, q + i, len - i), r0);
    sum[r] += static_cast<W>(fold_lanes<T, Sum>(d, r0));
  }
}

struct MultiplyAdd {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, V c) const {
    return hn::MulAdd(a, b, c);
  }
};
template <class T>
void accumulate_product(void* acc, const void* a, const void* b, size_t n) {
  const void* const sources[] = {a, b, acc};
  vector_loop<T, MultiplyAdd, 3>(acc, sources, n, 0);
}

template <class T, class F>
void accumulate(void* acc, int64_t*, const void* src, const int64_t*, size_t n) {
  const void* const sources[] = {acc, src};
  if constexpr (F::template vectorised<T>)
    vector_loop<T, F, 2>(acc, sources, n, 0);
  else
    scalar_loop2<T, F>(acc, sources, n, 0);
}

template <class T, class W, class F>
void flush(void* wide, void* acc, size_t n) {
  auto* w = static_cast<W*>(wide);
  auto* a = static_cast<T*>(acc);
  for (size_t i = 0; i < n; ++i) {
    w[i] = F()(w[i], static_cast<W>(a[i]));
    a[i] = F::template identity<T>();
  }
}

// argmax: NaN is larger than everything; of equal values the lower index wins.
template <class T>
HWY_INLINE bool beats(T a, int64_t ia, T b, int64_t ib) {
  const bool equal = a == b || (is_nan(a) && is_nan(b));
  return a > b || (is_nan(a) && !is_nan(b)) || (equal && ia < ib);
}
template <class T>
void argmax_rows(void* acc, int64_t* acc_index, const void* src, const int64_t* index, size_t rows,
                 size_t len) {
  auto* a = static_cast<T*>(acc);
  const auto* p = static_cast<const T*>(src);
  for (size_t r = 0; r < rows; ++r, p += len, index += len) {
    const T top = fold_row<T, Largest>(p, len);
    size_t i = 0;
    while (i + 1 < len && !(p[i] == top || (is_nan(top) && is_nan(p[i])))) ++i;
    if (beats(top, index[i], a[r], acc_index[r])) {
      a[r] = top;
      acc_index[r] = index[i];
    }
  }
}
template <class T>
void argmax_accumulate(void* acc, int64_t* acc_index, const void* src, const int64_t* index, size_t n) {
  auto* a = static_cast<T*>(acc);
  const auto* p = static_cast<const T*>(src);
  for (size_t i = 0; i < n; ++i) {
    const bool better = beats(p[i], index[i], a[i], acc_index[i]);
    a[i] = better ? p[i] : a[i];
    acc_index[i] = better ? index[i] : acc_index[i];
  }
}

template <class T, class F>
ReduceFns reduce_fns(DType type) {
  ReduceFns fns{type, fold_rows<T, T, F>, accumulate<T, F>, accumulate<T, F>};
  if constexpr (std::is_same_v<T, double> && std::is_same_v<F, Sum>) {
    fns.fold_product_rows = fold_product_rows<T, T>;
    fns.accumulate_product = accumulate_product<T>;
  }
  return fns;
}

/// f32 sums and products are computed in f64, so that their error does not grow with the number of elements.
template <class F>
ReduceFns widened() {
  ReduceFns fns{DType::f64, fold_rows<float, double, F>, accumulate<float, F>, accumulate<double, F>};
  fns.flush = flush<float, double, F>;
  if constexpr (std::is_same_v<F, Sum>) {
    fns.fold_product_rows = fold_product_rows<float, double>;
    fns.accumulate_product = accumulate_product<float>;
  }
  return fns;
}

template <class T>
ReduceFns typed(Prim prim, DType type) {
  switch (prim) {
    case Prim::sum:
      if constexpr (std::is_same_v<T, float>)
        return widened<Sum>();
      else
        return reduce_fns<T, Sum>(type);
    case Prim::prod:
      if constexpr (std::is_same_v<T, float>)
        return widened<Product>();
      else
        return reduce_fns<T, Product>(type);
    case Prim::reduce_max:
      return reduce_fns<T, Largest>(type);
    case Prim::reduce_min:
      return reduce_fns<T, Smallest>(type);
    case Prim::argmax:
      return {type, argmax_rows<T>, argmax_accumulate<T>, argmax_accumulate<T>};
    default:
      return {};
  }
}

}  // namespace

ReduceFns reduction(Prim prim, DType type) {
  switch (type) {
    case DType::f64:
      return typed<double>(prim, type);
    case DType::f32:
      return typed<float>(prim, type);
    case DType::i64:
      return typed<int64_t>(prim, type);
    case DType::i32:
      return typed<int32_t>(prim, type);
    case DType::i8:
      return typed<int8_t>(prim, type);
    case DType::u8:
      return typed<uint8_t>(prim, type);
    case DType::b8:  // of 0 and 1, the sum is the maximum (or) and the product the minimum (and)
      if (prim == Prim::sum) return typed<uint8_t>(Prim::reduce_max, type);
      if (prim == Prim::prod) return typed<uint8_t>(Prim::reduce_min, type);
      return typed<uint8_t>(prim, type);
    default:
      return {};
  }
}

}  // namespace athanor::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::loops {
HWY_EXPORT(reduction);
ReduceFns reduce_steps(Prim prim, DType type) { return HWY_DYNAMIC_DISPATCH(reduction)(prim, type); }
}  // namespace athanor::loops
#endif
