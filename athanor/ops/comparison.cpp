// Comparison, logic and choice.
#include <cmath>
#include <limits>

#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/movement.h"

namespace athanor {
namespace {

TensorType as_bool(TensorType type) {
  type.dtype = DType::b8;
  return type;
}

std::vector<OpCase> pair_cases(double low = -2, double high = 2) {
  std::vector<OpCase> cases;
  for (const Shape& shape : test_shapes()) cases.push_back({{{shape, low, high}, {shape, low, high}}});
  return cases;
}

void define_comparison(const char* name, const char* doc, Prim prim, Accept accept, std::vector<DType> dtypes,
                       bool (*value)(double, double)) {
  define_op({.name = name,
             .doc = doc,
             .prim = prim,
             .arity = 2,
             .dtypes = std::move(dtypes),
             .infer = [accept](std::span<const TensorType> in,
                               const Attrs& attrs) { return as_bool(same_type(accept)(in, attrs)); },
             .reference =
                 [value](std::span<const RefArray> in, const Attrs&) {
                   return map(in[0], in[1], [&](double a, double b) { return value(a, b) ? 1.0 : 0.0; });
                 },
             .cases = pair_cases(),
             .differentiable = false});
}

void define_bitwise(const char* name, const char* doc, Prim prim, int64_t (*value)(int64_t, int64_t)) {
  define_op({.name = name,
             .doc = doc,
             .prim = prim,
             .arity = 2,
             .dtypes = {DType::i64, DType::i32, DType::i8, DType::u8, DType::b8},
             .infer = same_type(Accept::integers),
             .reference =
                 [value](std::span<const RefArray> in, const Attrs&) {
                   return map(in[0], in[1], [&](double a, double b) {
                     return static_cast<double>(value(static_cast<int64_t>(a), static_cast<int64_t>(b)));
                   });
                 },
             .cases = pair_cases(-100, 100),
             .differentiable = false});
}

// Defines an elementwise op of one tensor whose result is bool.
void define_test(const char* name, const char* doc, std::vector<DType> dtypes, Accept accept,
                 Tensor (*decompose)(const Tensor&), bool (*value)(double)) {
  std::vector<OpCase> cases;
  for (const Shape& shape : test_shapes()) cases.push_back({{{shape}}});
  define_op(
      {.name = name,
       .doc = doc,
       .dtypes = std::move(dtypes),
       .infer = [accept](std::span<const TensorType> in,
                         const Attrs& attrs) { return as_bool(same_type(accept)(in, attrs)); },
       .decompose = [decompose](const std::vector<Tensor>& in, const Attrs&) { return decompose(in[0]); },
       .reference = [value](
                        std::span<const RefArray> in,
                        const Attrs&) { return map(in[0], [&](double x) { return value(x) ? 1.0 : 0.0; }); },
       .cases = std::move(cases),
       .differentiable = false});
}

// Defines an elementwise comparison that is composed of others.
void define_derived(const char* name, const char* doc, Tensor (*decompose)(const Tensor&, const Tensor&),
                    bool (*value)(double, double)) {
  define_op({.name = name,
             .doc = doc,
             .arity = 2,
             .dtypes = number_dtypes(),
             .infer = [](std::span<const TensorType> in,
                         const Attrs& attrs) { return as_bool(same_type(Accept::all)(in, attrs)); },
             .decompose = [decompose](const std::vector<Tensor>& in,
                                      const Attrs&) { return decompose(in[0], in[1]); },
             .reference =
                 [value](std::span<const RefArray> in, const Attrs&) {
                   return map(in[0], in[1], [&](double a, double b) { return value(a, b) ? 1.0 : 0.0; });
                 },
             .cases = pair_cases(),
             .differentiable = false});
}

TensorType infer_where(std::span<const TensorType> in, const Attrs& attrs) {
  if (in[0].dtype != DType::b8)
    throw Error(ErrorCode::dtype, "takes a bool as its condition", {},
                "Compare it: x != 0 is not_equal(x, 0)");
  const TensorType type = same_type(Accept::all)(in.subspan(1), attrs);
  if (type.shape != in[0].shape)
    throw Error(ErrorCode::shape, "takes inputs of one shape", {},
                "Broadcast one of them: broadcast_to(x, shape)");
  return type;
}

// Bool is compared as 0 and 1. `swapped`: a > b is b < a.
Tensor compared(const Op& op, const char* name, const Operand& a, const Operand& b, bool swapped = false) {
  return in_call(
      name,
      [&] {
        auto x = unified(a, b);
        if (x[0].dtype() == DType::b8) x = {cast(x[0], DType::u8), cast(x[1], DType::u8)};
        if (swapped) std::swap(x[0], x[1]);
        return apply(op, {x[0], x[1]});
      },
      a, b);
}

Tensor truth(const Operand& x) { return cast(x, DType::b8); }

Tensor of_truths(const Op& op, const char* name, const Operand& a, const Operand& b) {
  const SourceScope scope(a.where());
  need(name, a, b);
  return of_pair(op, name, {truth(a), a.where()}, {truth(b), b.where()});
}

}  // namespace

ATHANOR_OPS(comparison) {
  define_comparison("less", "a < b, as bool; false where either is NaN", Prim::less, Accept::numbers,
                    number_dtypes(), [](double a, double b) { return a < b; });
  define_comparison("equal", "a == b, as bool; false where either is NaN", Prim::equal, Accept::all,
                    all_dtypes(), [](double a, double b) { return a == b; });
  define_bitwise("bit_and", "the bits that both have", Prim::bit_and,
                 [](int64_t a, int64_t b) { return a & b; });
  define_bitwise("bit_or", "the bits that either has", Prim::bit_or,
                 [](int64_t a, int64_t b) { return a | b; });
  define_bitwise("bit_xor", "the bits that one of the two has", Prim::bit_xor,
                 [](int64_t a, int64_t b) { return a ^ b; });
  define_op({.name = "where",
             .doc = "a where the condition (bool) holds, b elsewhere",
             .prim = Prim::where,
             .arity = 3,
             .dtypes = all_dtypes(),
             .infer = infer_where,
             .grad =
                 [](const GradArgs& a) {
                   const Tensor none = constant_like(0, a.grad);
                   return std::vector{Tensor(), a.needed[1] ? where(a.inputs[0], a.grad, none) : Tensor(),
                                      a.needed[2] ? where(a.inputs[0], none, a.grad) : Tensor()};
                 },
             .reference =
                 [](std::span<const RefArray> in, const Attrs&) {
                   RefArray result(in[1].shape);
                   for (int64_t i = 0; i < result.shape.size(); ++i)
                     result[i] = in[0][i] != 0 ? in[1][i] : in[2][i];
                   return result;
                 },
             .cases =
                 [] {
                   std::vector<OpCase> cases;
                   for (const Shape& shape : test_shapes())
                     cases.push_back({{{shape, 0, 2, DType::b8}, {shape}, {shape}}});
                   return cases;
                 }()});

  define_derived(
      "less_equal", "a <= b, as bool; false where either is NaN",
      [](const Tensor& a, const Tensor& b) { return bit_or(less(a, b), equal(a, b)); },
      [](double a, double b) { return a <= b; });
  define_derived(
      "not_equal", "a != b, as bool; true where either is NaN",
      [](const Tensor& a, const Tensor& b) { return logical_not(equal(a, b)); },
      [](double a, double b) { return a != b; });
  define_test(
      "logical_not", "true where x is false", {DType::b8}, Accept::all,
      [](const Tensor& x) { return bit_xor(cast(x, DType::b8), constant_like(1, cast(x, DType::b8))); },
      [](double x) { return x == 0; });
  define_test(
      "is_nan", "true where x is not a number", float_dtypes(), Accept::floats,
      [](const Tensor& x) { return logical_not(equal(x, x)); }, [](double x) { return std::isnan(x); });
  define_test(
      "is_finite", "true where x is neither infinite nor NaN", float_dtypes(), Accept::floats,
      [](const Tensor& x) { return less(abs(x), infinity); }, [](double x) { return std::isfinite(x); });
}

Tensor less(Operand a, Operand b) {
  static const Op& op = find_op("less");
  return compared(op, "less", a, b);
}
Tensor less_equal(Operand a, Operand b) {
  static const Op& op = find_op("less_equal");
  return compared(op, "less_equal", a, b);
}
Tensor greater(Operand a, Operand b) {
  static const Op& op = find_op("less");
  return compared(op, "greater", a, b, true);
}
Tensor greater_equal(Operand a, Operand b) {
  static const Op& op = find_op("less_equal");
  return compared(op, "greater_equal", a, b, true);
}
Tensor equal(Operand a, Operand b) {
  static const Op& op = find_op("equal");
  return of_pair(op, "equal", a, b);
}
Tensor not_equal(Operand a, Operand b) {
  static const Op& op = find_op("not_equal");
  return of_pair(op, "not_equal", a, b);
}

Tensor is_nan(Operand x) {
  static const Op& op = find_op("is_nan");
  const SourceScope scope(x.where());
  need(op.name, x);
  return apply(op, {as_float(x)});
}
Tensor is_finite(Operand x) {
  static const Op& op = find_op("is_finite");
  const SourceScope scope(x.where());
  need(op.name, x);
  return apply(op, {as_float(x)});
}

Tensor bit_and(Operand a, Operand b) {
  static const Op& op = find_op("bit_and");
  return of_pair(op, "bit_and", a, b);
}
Tensor bit_or(Operand a, Operand b) {
  static const Op& op = find_op("bit_or");
  return of_pair(op, "bit_or", a, b);
}
Tensor bit_xor(Operand a, Operand b) {
  static const Op& op = find_op("bit_xor");
  return of_pair(op, "bit_xor", a, b);
}
Tensor logical_and(Operand a, Operand b) {
  static const Op& op = find_op("bit_and");
  return of_truths(op, "logical_and", a, b);
}
Tensor logical_or(Operand a, Operand b) {
  static const Op& op = find_op("bit_or");
  return of_truths(op, "logical_or", a, b);
}
Tensor logical_xor(Operand a, Operand b) {
  static const Op& op = find_op("bit_xor");
  return of_truths(op, "logical_xor", a, b);
}
Tensor logical_not(Operand x) {
  static const Op& op = find_op("logical_not");
  const SourceScope scope(x.where());
  need("logical_not", x);
  return apply(op, {truth(x)});
}

Tensor where(Operand condition, Operand a, Operand b) {
  static const Op& op = find_op("where");
  return in_call(
      "where",
      [&] {
        auto x = unified(a, b);
        const Tensor choice = as_tensor(condition);
        const Shape shape = broadcast_shapes(choice.shape(), x[0].shape());
        return apply(op, {broadcast_to(choice, shape), broadcast_to(x[0], shape), broadcast_to(x[1], shape)});
      },
      condition, a, b);
}

}  // namespace athanor
