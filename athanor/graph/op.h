// Ops: everything about an operation, in one declaration.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
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
  const Tensor& grad;  // of the output, with the same type
  const Attrs& attrs;
  const std::vector<bool>& needed;  // which inputs need a gradient; others may be {}
};

/// How an op computes on f32 values within an Autocast of bf16 or f16. PyTorch's autocast lists for CUDA are
/// the reference.
enum class CastPolicy : uint8_t {
  promote,  // in the widest type of its inputs. Operands that are broadcast over the result do not count
  allow,    // in bf16 or f16: it is faster, and its sums are f32
  deny,     // in f32: its result would lose too much
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
  /// device: that of the inputs, or of the attribute "device" where the op has one.
  std::function<TensorType(std::span<const TensorType>, const Attrs&)> infer;
  /// The gradient of each input. Without one, the decomposition is differentiated.
  std::function<std::vector<Tensor>(const GradArgs&)> grad = {};
  /// The same in terms of other ops; empty for primitives.
  std::function<Tensor(const std::vector<Tensor>&, const Attrs&)> decompose = {};
  /// The meaning, in plain float64 loops; independent of the decomposition.
  std::function<RefArray(std::span<const RefArray>, const Attrs&)> reference = {};
  std::vector<OpCase> cases = {};
  /// Whether gradients flow through it. False for comparisons, arg-max, random numbers.
  bool differentiable = true;
  /// The name of an op that one kernel may compute together with this one, if both have the same inputs and
  /// attributes, because they share work; "" for none. The other may take only some of the inputs.
  std::string shares_with = {};
  /// Floating-point operations of one evaluation; empty: one per element of the result, none for movement.
  std::function<int64_t(std::span<const TensorType>, const TensorType&, const Attrs&)> flops = {};
  /// A factor for the relative error that tests allow: some units in the last place, times the square root of
  /// the number of terms (from `flops`) that are summed in an element.
  double tolerance = 1;
  /// Whether its kernels may also compute the elementwise ops after it (compile/epilogue.cpp).
  bool is_contraction = false;
  CastPolicy cast_policy = CastPolicy::promote;
  /// Inputs that `allow` leaves in f32, by position: statistics of rows.
  std::vector<size_t> exact_inputs = {};
  /// The input, by position, that is a matrix by which results are multiplied at each time step. Candidates
  /// are compared with small numbers in it, because with large ones rounding errors grow with each step.
  std::optional<size_t> fed_back = {};
};

/// Adds an op until the program ends. Throws Error(internal) if the name is taken.
const Op& define_op(Op op);
/// Throws Error(name) with the nearest match.
const Op& find_op(const std::string& name);
/// By name.
std::vector<const Op*> all_ops();

/// Makes a node: checks types and devices, and records the caller's line. Throws errors with that line.
Tensor apply(const Op& op, const std::vector<Operand>& inputs, Attrs attrs = {});
/// The same by name, for ops without a function: call("mish", {x}).
Tensor call(const std::string& op, const std::vector<Operand>& inputs, Attrs attrs = {});

}  // namespace athanor
