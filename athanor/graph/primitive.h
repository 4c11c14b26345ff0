// The primitives: a closed set of operations. Every other op decomposes into them, and every backend can
// generate them.
#pragma once
#include <cstdint>
#include <string_view>

namespace athanor {

/// Elementwise primitives compute in f32 for floats narrower than f32. Integer results wrap. `u` and `v` are
/// elements of the first and second input.
enum class Prim : uint8_t {
  // Leaves
  input,     // a value in memory
  constant,  // a number known when the graph is built
  iota,      // the index along an axis, i64
  // Elementwise, one input
  neg,
  exp,
  log,
  sin,
  cos,
  tanh,
  erf,
  sqrt,
  floor,
  abs,
  cast,  // to the result's dtype: floats to integers truncate, then wrap; to bool: u != 0
  // Elementwise, two inputs of one dtype
  add,
  sub,
  mul,
  div,  // integers truncate; an integer divided by zero gives 0
  mod,  // C's fmod, and % for integers; an integer modulo zero gives 0
  pow,
  max,
  min,  // NaN if either is NaN
  less,
  equal,  // the result is bool
  bit_and,
  bit_or,
  bit_xor,  // integers and bool
  // Elementwise, others
  where,           // bool c, u, v: c ? u : v
  random_uniform,  // i64 key, i64 counter: Philox4x32-10; counter/4 is the block, counter%4 the word in it.
                   // The word's upper 24 bits / 2^24: f32 in [0, 1)
  // Movement: each one is a view of its input if strides can express it
  reshape,
  permute,
  broadcast,
  slice,   // start, stop, step (not 0) for each axis
  unfold,  // windows: an axis of extent n becomes two, [windows, window size]
  pad,     // with a number
  concat,
  fold,  // the transpose of unfold: overlapping windows are summed
  // Reductions over axes
  sum,
  prod,
  reduce_max,
  reduce_min,
  argmax,  // i64, over one axis; the first of equal elements; NaN is largest
  // Contraction, indexing, order
  batch_matmul,  // [B, M, K] x [B, K, N] -> [B, M, N]
  take_along,    // out[i, j] = u[index[i, j], j] along an axis; as NumPy's take_along_axis
  scatter_add,   // the transpose of take_along: zeros with every element added at its index
  cumsum,
  argsort,  // i64, stable, ascending along an axis; NaN last
  to,       // the same elements on another device: a copy, for which no backend needs a kernel
  none,     // not a primitive: it decomposes
};

constexpr bool is_elementwise(Prim p) { return p >= Prim::neg && p <= Prim::random_uniform; }
constexpr bool is_movement(Prim p) { return p >= Prim::reshape && p <= Prim::concat; }
constexpr bool is_reduction(Prim p) { return p >= Prim::sum && p <= Prim::argmax; }

}  // namespace athanor
