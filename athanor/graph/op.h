// Ops: everything about an operation, in one declaration.
#pragma once
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "athanor/graph/node.h"
#include "athanor/graph/primitive.h"
#include "athanor/graph/tensor.h"

namespace athanor {

/// A float64 array. An op's reference computes with it.
struct RefArray {
  Shape shape;
  std::vector<double> data;  // row-major

  RefArray() = default;
  explicit RefArray(const Shape& s, double fill = 0) : shape(s), data(static_cast<size_t>(s.size()), fill) {}
  double& operator[](int64_t i) { return data[static_cast<size_t>(i)]; }
  double operator[](int64_t i) const { return data[static_cast<size_t>(i)]; }
};

/// One input of a test case: random in [low, high). Without a dtype, the case is run for each of the op's
/// dtypes.
struct Sample {
  Shape shape;
  double low = -2, high = 2;
  std::optional<DType> dtype = {};
};

/// Inputs and attributes to test an op with, on every backend, against `reference` and against finite
/// differences.
struct OpCase {
  std::vector<Sample> inputs;
  Attrs attrs = {};
};

/// The arguments of an op's gradient rule.
struct GradArgs {
  const std::vector<Tensor>& inputs;
  const Tensor& output;
  const Tensor& grad;  // the output's gradient, of the output's type
  const Attrs& attrs;
  const std::vector<bool>& needed;  // which inputs need a gradient; others may be {}
};

/// The type in which an op computes on f32 values in an Autocast of bf16 or f16, as in PyTorch's autocast
/// lists for CUDA.
enum class CastPolicy : uint8_t {
  promote,  // the widest type of its inputs; operands that are broadcast over the result do not count
  allow,    // bf16 or f16, because it is faster; sums are f32
  deny,     // f32, because the result would lose too much precision
};

/// An operation: its name, meaning, types, gradient, decomposition and tests.
struct Op {
  /// The field's standard term: "conv2d".
  std::string name;
  /// One line: what it means, with shapes.
  std::string doc;
  /// Set for primitives. All other ops decompose.
  Prim prim = Prim::none;
  /// How many tensors it takes; -1: one or more.
  int arity = 1;
  /// The dtypes that tests use. The first one is used for gradients if it is a float. `infer` decides what is
  /// accepted.
  std::vector<DType> dtypes = {DType::f32, DType::f64, DType::f16, DType::bf16};
  /// The result's type. Throws Error(shape|dtype|value) if the inputs do not fit. The caller fills in the
  /// device: the attribute "device" if the op has one, else the inputs' device.
  std::function<TensorType(std::span<const TensorType>, const Attrs&)> infer;
  /// The gradient of each input. If it is empty, the decomposition is differentiated.
  std::function<std::vector<Tensor>(const GradArgs&)> grad = {};
  /// The op in terms of other ops; empty for primitives.
  std::function<Tensor(const std::vector<Tensor>&, const Attrs&)> decompose = {};
  /// The op in plain float64 loops, independent of the decomposition.
  std::function<RefArray(std::span<const RefArray>, const Attrs&)> reference = {};
  std::vector<OpCase> cases = {};
  /// Whether gradients flow through it. False for comparisons, arg-max, random numbers.
  bool differentiable = true;
  /// The name of an op that shares work with this one, so that one kernel may compute both, and those that
  /// it shares work with in turn; "": none. The attributes must be the same, and the other op's inputs must
  /// be some or all of this op's, in order.
  std::string shares_with = {};
  /// Floating-point operations of one evaluation; empty: one per element of the result, none for movement.
  std::function<int64_t(std::span<const TensorType>, const TensorType&, const Attrs&)> flops = {};
  /// Of these, the operations that a kernel does only once if it also computes `shares_with`.
  std::function<int64_t(std::span<const TensorType>, const TensorType&, const Attrs&)> shared_flops = {};
  /// A factor for the relative error that tests allow: some units in the last place, times the square root of
  /// the number of terms (from `flops`) that are summed in an element.
  double tolerance = 1;
  /// Whether its kernels may also compute the elementwise ops after it (compile/epilogue.cpp).
  bool is_contraction = false;
  CastPolicy cast_policy = CastPolicy::promote;
  /// Indices of inputs that `allow` leaves in f32: statistics of rows.
  std::vector<size_t> exact_inputs = {};
  /// The index of the input matrix that the state is multiplied by at each time step. Kernels are compared
  /// with small numbers in it, because with large ones rounding errors grow with each step.
  std::optional<size_t> fed_back = {};
  /// The index of an input of integers at which groups of rows of the first input end: at least 0, not
  /// falling, at most the number of rows. Tests and timings fill it so.
  std::optional<size_t> group_ends = {};
};

/// Adds an op until the program ends. Throws Error(internal) if the name is taken.
const Op& define_op(Op op);
/// Throws Error(name) with the nearest match.
const Op& find_op(const std::string& name);
/// All ops, sorted by name.
std::vector<const Op*> all_ops();

/// Makes a node: checks types and devices, and records the caller's line. Throws errors with that line.
Tensor apply(const Op& op, std::span<const Operand> inputs, Attrs attrs = {});
inline Tensor apply(const Op& op, std::initializer_list<Operand> inputs, Attrs attrs = {}) {
  return apply(op, std::span(inputs.begin(), inputs.size()), std::move(attrs));
}
/// The same by name, for ops without a function: call("mish", {x}).
Tensor call(const std::string& op, const std::vector<Operand>& inputs, Attrs attrs = {});

}  // namespace athanor
