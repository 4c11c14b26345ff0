// Elementwise arithmetic, comparison and logic.
//
// Operands broadcast as in NumPy and are promoted to one dtype (see promote()). A number takes the dtype of
// the tensor operand, but becomes f32 beside integers if it has a fraction, and i64 beside bool. Functions of
// real numbers convert integers to f32. All functions throw Error(shape) for shapes that do not broadcast and
// Error(dtype) for dtypes that they do not take.
#pragma once
#include "athanor/graph/tensor.h"

namespace athanor {

Tensor neg(Operand x);
Tensor exp(Operand x);
Tensor log(Operand x);  // natural
Tensor sin(Operand x);
Tensor cos(Operand x);
Tensor tanh(Operand x);
Tensor erf(Operand x);
Tensor sqrt(Operand x);
Tensor floor(Operand x);
Tensor abs(Operand x);
/// x converted: floats to integers truncate, then wrap; to bool: x != 0. Returns x itself if it has that
/// dtype.
Tensor cast(Operand x, DType dtype);

Tensor add(Operand a, Operand b);
Tensor sub(Operand a, Operand b);
Tensor mul(Operand a, Operand b);
/// The quotient; f32 for integers.
Tensor div(Operand a, Operand b);
/// Quotients rounded towards zero, and rounded down. An integer divided by zero gives 0.
Tensor trunc_divide(Operand a, Operand b);
Tensor floor_divide(Operand a, Operand b);
/// C's fmod (% for integers); the result has the sign of a. An integer modulo zero gives 0.
Tensor mod(Operand a, Operand b);
/// Python's %; the result has the sign of b.
Tensor remainder(Operand a, Operand b);
/// a to the power of b. Integers with an integral exponent b >= 0 stay integers; else they become f32.
Tensor pow(Operand a, Operand b);
/// NaN if either is NaN. If both are equal, each gets half of the gradient.
Tensor maximum(Operand a, Operand b);
Tensor minimum(Operand a, Operand b);

/// Comparisons. The result is bool.
Tensor less(Operand a, Operand b);
Tensor less_equal(Operand a, Operand b);
Tensor greater(Operand a, Operand b);
Tensor greater_equal(Operand a, Operand b);
Tensor equal(Operand a, Operand b);
Tensor not_equal(Operand a, Operand b);
Tensor is_nan(Operand x);
Tensor is_finite(Operand x);

/// Acts on the bits of integers, or on bool.
Tensor bit_and(Operand a, Operand b);
Tensor bit_or(Operand a, Operand b);
Tensor bit_xor(Operand a, Operand b);
/// Acts on truth values: a number other than 0 is true.
Tensor logical_and(Operand a, Operand b);
Tensor logical_or(Operand a, Operand b);
Tensor logical_xor(Operand a, Operand b);
Tensor logical_not(Operand x);

/// a where the condition is true, b elsewhere; all three broadcast.
Tensor where(Operand condition, Operand a, Operand b);

Tensor square(Operand x);
Tensor reciprocal(Operand x);  // 1 / x
Tensor rsqrt(Operand x);       // 1 / sqrt(x)
Tensor log1p(Operand x);       // log(1 + x), accurate near 0
Tensor expm1(Operand x);       // exp(x) - 1, accurate near 0
Tensor sign(Operand x);        // -1, 0 or 1
Tensor ceil(Operand x);
Tensor trunc(Operand x);
Tensor round(Operand x);  // halves to even
/// x within [low, high]; the gradient is 0 outside.
Tensor clamp(Operand x, double low, double high);
/// a + (b - a) * weight
Tensor lerp(Operand a, Operand b, Operand weight);
/// The same value without its history: gradients do not flow through it.
Tensor detach(Operand x);

inline Tensor operator-(const Operand& x) { return neg(x); }
inline Tensor operator+(const Operand& a, const Operand& b) { return add(a, b); }
inline Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b); }
inline Tensor operator*(const Operand& a, const Operand& b) { return mul(a, b); }
inline Tensor operator/(const Operand& a, const Operand& b) { return div(a, b); }
inline Tensor operator<(const Operand& a, const Operand& b) { return less(a, b); }
inline Tensor operator<=(const Operand& a, const Operand& b) { return less_equal(a, b); }
inline Tensor operator>(const Operand& a, const Operand& b) { return greater(a, b); }
inline Tensor operator>=(const Operand& a, const Operand& b) { return greater_equal(a, b); }
inline Tensor operator!(const Operand& x) { return logical_not(x); }
inline Tensor operator&(const Operand& a, const Operand& b) { return bit_and(a, b); }
inline Tensor operator|(const Operand& a, const Operand& b) { return bit_or(a, b); }

}  // namespace athanor
