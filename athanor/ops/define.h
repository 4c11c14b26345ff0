// For authors of ops: helpers to declare ops and to write the functions that apply them. docs/adding-an-op.md
// walks through an example.
#pragma once
#include <array>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/graph/op.h"

/// Opens the declarations of one source file's ops: ATHANOR_OPS(mish) { define_op({...}); }. They run when
/// the program starts (or the library that contains the file is loaded).
#define ATHANOR_OPS(family)                                                                      \
  static void define_##family##_ops();                                                           \
  [[maybe_unused]] static const bool family##_ops_are_defined = (define_##family##_ops(), true); \
  static void define_##family##_ops()

namespace athanor {

// ---- Types ----

using Infer = std::function<TensorType(std::span<const TensorType>, const Attrs&)>;

/// Which dtypes an op takes.
enum class Accept { floats, numbers, integers, all };
/// Throws Error(dtype) with a hint if the type is not accepted.
void check_dtype(const TensorType& type, Accept accept);
/// Checks that all inputs have one type, which is also the result's.
Infer same_type(Accept accept);

/// The dtypes that tests run an op with.
std::vector<DType> float_dtypes();    // f32, f64, f16, bf16
std::vector<DType> number_dtypes();   // these and the integers
std::vector<DType> integer_dtypes();  // i64, i32, i8, u8
std::vector<DType> all_dtypes();

// ---- Values ----

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The result of an op that takes no tensors, on a device.
Tensor apply_on(Device device, const Op& op, Attrs attrs);
/// A scalar known when the graph is built.
Tensor constant(double value, DType dtype, Device device = {});
/// The number as a tensor of x's type.
Tensor constant_like(double value, const Tensor& x);
/// The operand as a tensor; a number becomes an f32 or i64 scalar.
Tensor as_tensor(const Operand& operand);
/// The operand as a float tensor: integers and bool become f32.
Tensor as_float(const Operand& operand);
/// Narrow floats as f32, others unchanged. Compositions of several steps compute in this type, so that they
/// round once.
Tensor widened(const Tensor& x);
/// Both operands as tensors of one dtype and one shape, to which they are broadcast.
std::array<Tensor, 2> unified(const Operand& a, const Operand& b);

/// The gradient of input `which` of an op, from the output's gradient. It differentiates the op's
/// decomposition, and can be differentiated again. Ops for gradients decompose to this.
Tensor decomposed_gradient(const Op& op, std::vector<Tensor> inputs, const Attrs& attrs, size_t which,
                           const Tensor& dy);

// ---- Functions ----

/// Rethrows the current error. If it has no line yet, adds "name(f32[2, 3], ...): " and the user's line.
[[noreturn]] void rethrow_in_call(const char* name, std::initializer_list<const Operand*> operands);

/// Throws Error(value), naming the function and the operand, if one is undefined. in_call() and apply() check
/// this themselves. This is for functions that use an operand before.
template <class... Operands>
void need(std::string_view name, const Operands&... operands) {
  if ((operands.defined() && ...)) return;
  const Operand* const list[] = {&operands...};
  check_defined(name, list);
}

/// The same for a list.
void need_all(std::string_view name, const std::vector<Tensor>& tensors);

/// Runs the body of a public function. Nodes made in it carry the line of the first operand; errors name the
/// function, its operands' types and that line.
template <class Body, class... Operands>
auto in_call(const char* name, Body&& body, const Operand& first, const Operands&... others) {
  const SourceScope scope(first.where());
  need(name, first, others...);
  try {
    return body();
  } catch (const Error&) {
    rethrow_in_call(name, {&first, &others...});
  }
}

/// Applies an elementwise op to an operand converted to float, or to two operands converted to one type.
Tensor of_float(const Op& op, const Operand& x);
Tensor of_pair(const Op& op, const char* name, const Operand& a, const Operand& b);

// ---- Declarations ----

/// The attribute "axis".
inline int axis_of(const Attrs& attrs) { return static_cast<int>(attrs.integer("axis")); }

/// The gradient of an elementwise op with one input, from input, output and the output's gradient.
using UnaryGrad = std::function<Tensor(const Tensor& x, const Tensor& y, const Tensor& dy)>;

/// An elementwise primitive of one float.
struct UnaryPrimitive {
  std::string name, doc;
  Prim prim;
  double (*value)(double);
  UnaryGrad grad;
  double low = -2, high = 2;  // the range of inputs in tests
  Accept accept = Accept::floats;
  CastPolicy cast_policy = CastPolicy::promote;
};
void define_primitive(UnaryPrimitive op);

/// An elementwise op of one float that is composed of others. Both rules see f32 instead of f16 and bf16.
struct UnaryComposite {
  std::string name, doc;
  std::function<Tensor(const Tensor& x, const Attrs&)> decompose;
  std::function<double(double, const Attrs&)> value;
  UnaryGrad grad = {};              // if empty, the decomposition is differentiated
  std::vector<Attrs> attrs = {{}};  // the attributes that tests use
  double low = -4, high = 4;
  CastPolicy cast_policy = CastPolicy::promote;
};
void define_composite(UnaryComposite op);

/// Shapes that elementwise ops are tested with.
std::vector<Shape> test_shapes();

// ---- Reference meanings ----

/// Calls f(index) for every index of a shape, in row-major order.
void for_each_index(const Shape& shape, const std::function<void(const Ints&)>& f);
/// The row-major offset of an index.
int64_t offset_of(const Shape& shape, const Ints& index);
/// Applies f to each element.
RefArray map(const RefArray& x, const std::function<double(double)>& f);
/// Applies f to each pair of elements of two arrays with the same shape.
RefArray map(const RefArray& x, const RefArray& y, const std::function<double(double, double)>& f);

}  // namespace athanor
