#include "athanor/ops/define.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/ops/elementwise.h"
#include "athanor/ops/movement.h"

namespace athanor {

void check_dtype(const TensorType& type, Accept accept) {
  const DType t = type.dtype;
  const auto fail = [&](const char* wanted, const char* hint) {
    throw Error(ErrorCode::dtype, fmt::format("takes {}, not {}", wanted, to_string(t)), {}, hint);
  };
  if (accept == Accept::floats && !is_float(t)) fail("floats", "Cast it first: cast(x, DType::f32)");
  if (accept == Accept::numbers && t == DType::b8)
    fail("numbers", "Use logical_and, logical_or or logical_not, or cast it first: cast(x, DType::i64)");
  if (accept == Accept::integers && is_float(t))
    fail("integers or bool", "Cast it first: cast(x, DType::i64)");
}

Infer same_type(Accept accept) {
  return [accept](std::span<const TensorType> inputs, const Attrs&) {
    for (const auto& input : inputs) {
      check_dtype(input, accept);
      if (input.dtype != inputs[0].dtype)
        throw Error(ErrorCode::dtype, "takes inputs of one dtype", {}, "Cast one of them");
      if (input.shape != inputs[0].shape)
        throw Error(ErrorCode::shape, "takes inputs of one shape", {},
                    "Broadcast one of them: broadcast_to(x, shape)");
    }
    return inputs[0];
  };
}

std::vector<DType> float_dtypes() { return {DType::f32, DType::f64, DType::f16, DType::bf16}; }
std::vector<DType> integer_dtypes() { return {DType::i64, DType::i32, DType::i8, DType::u8}; }

std::vector<DType> number_dtypes() {
  auto dtypes = float_dtypes();
  for (DType t : integer_dtypes()) dtypes.push_back(t);
  return dtypes;
}

std::vector<DType> all_dtypes() {
  auto dtypes = number_dtypes();
  dtypes.insert(dtypes.end(), {DType::b8, DType::f8e4m3, DType::f8e5m2});
  return dtypes;
}

Tensor apply_on(Device device, const Op& op, Attrs attrs) {
  Tensor result = apply(op, {}, std::move(attrs));
  result.node()->type.device = device;
  return result;
}

Tensor constant(double value, DType dtype, Device device) {
  static const Op& op = find_op("constant");
  return apply_on(device, op, {{"value", value}, {"dtype", dtype}});
}

Tensor constant_like(double value, const Tensor& x) {
  return broadcast_to(constant(value, x.dtype(), x.device()), x.shape());
}

Tensor as_tensor(const Operand& operand) {
  if (!operand.is_number()) return operand.tensor();
  return constant(operand.number(), operand.integral() ? DType::i64 : DType::f32);
}

Tensor as_float(const Operand& operand) {
  const Tensor x = as_tensor(operand);
  return is_float(x.dtype()) ? x : cast(x, DType::f32);
}

Tensor widened(const Tensor& x) { return is_narrow_float(x.dtype()) ? cast(x, DType::f32) : x; }

Tensor decomposed_gradient(const Op& op, std::vector<Tensor> inputs, const Attrs& attrs, size_t which,
                           const Tensor& dy) {
  const WithGrad on;
  if (!inputs[which].needs_grad()) inputs[which] = apply(find_op("detach"), {inputs[which]}).requires_grad();
  return grad({op.decompose(inputs, attrs)}, {inputs[which]}, {dy})[0];
}

std::array<Tensor, 2> unified(const Operand& a, const Operand& b) {
  const Tensor* first = nullptr;
  DType dtype = DType::b8;
  for (const Operand* operand : {&a, &b})
    if (!operand->is_number()) {
      dtype = first ? promote(dtype, operand->tensor().dtype()) : operand->tensor().dtype();
      if (!first) first = &operand->tensor();
    }
  Shape shape;
  for (const Operand* operand : {&a, &b}) {
    if (operand->is_number()) {
      if (!operand->integral() && !is_float(dtype)) dtype = DType::f32;
      if (dtype == DType::b8) dtype = DType::i64;
    } else {
      shape = broadcast_shapes(shape, operand->tensor().shape());
    }
  }
  const auto converted = [&](const Operand& operand) {
    if (operand.is_number())
      return broadcast_to(constant(operand.number(), dtype, first ? first->device() : Device{}), shape);
    const Tensor& tensor = operand.tensor();
    if (tensor.dtype() == dtype && tensor.shape() == shape) return tensor;
    return broadcast_to(cast(tensor, dtype), shape);
  };
  return {converted(a), converted(b)};
}

void need_all(std::string_view name, const std::vector<Tensor>& tensors) {
  if (std::ranges::all_of(tensors, &Tensor::defined)) return;
  const std::vector<Operand> operands(tensors.begin(), tensors.end());
  std::vector<const Operand*> list;
  for (const Operand& operand : operands) list.push_back(&operand);
  check_defined(name, list);
}

void rethrow_in_call(const char* name, std::initializer_list<const Operand*> operands) {
  try {
    throw;
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    std::vector<std::string> types;
    for (const Operand* operand : operands) types.push_back(to_string(*operand));
    const auto* where = SourceScope::current();
    throw Error(error.code(), fmt::format("{}({}): {}", name, fmt::join(types, ", "), error.problem()),
                to_string(where ? *where : (*operands.begin())->where()), error.hint());
  }
}

Tensor of_float(const Op& op, const Operand& x) {
  const SourceScope scope(x.where());
  need(op.name, x);
  return apply(op, {as_float(x)});
}

Tensor of_pair(const Op& op, const char* name, const Operand& a, const Operand& b) {
  return in_call(
      name,
      [&] {
        auto x = unified(a, b);
        return apply(op, {std::move(x[0]), std::move(x[1])});
      },
      a, b);
}

std::vector<Shape> test_shapes() { return {{}, {1}, {17}, {3, 0}, {5, 7, 3}}; }

void define_primitive(UnaryPrimitive op) {
  std::vector<OpCase> cases;
  for (const Shape& shape : test_shapes()) cases.push_back({{{shape, op.low, op.high}}});
  const auto grad = op.grad;
  const auto value = op.value;
  define_op({.name = op.name,
             .doc = op.doc,
             .prim = op.prim,
             .dtypes = op.accept == Accept::floats ? float_dtypes() : number_dtypes(),
             .infer = same_type(op.accept),
             .grad = [grad](const GradArgs& a) { return std::vector{grad(a.inputs[0], a.output, a.grad)}; },
             .reference = [value](std::span<const RefArray> in, const Attrs&) { return map(in[0], value); },
             .cases = std::move(cases),
             .cast_policy = op.cast_policy});
}

void define_composite(UnaryComposite op) {
  std::vector<OpCase> cases;
  for (const Attrs& attrs : op.attrs)
    for (const Shape& shape : test_shapes()) cases.push_back({{{shape, op.low, op.high}}, attrs});
  Op declared{.name = op.name,
              .doc = op.doc,
              .infer = same_type(Accept::floats),
              .decompose =
                  [rule = op.decompose](const std::vector<Tensor>& in, const Attrs& attrs) {
                    return cast(rule(widened(in[0]), attrs), in[0].dtype());
                  },
              .reference =
                  [value = op.value](std::span<const RefArray> in, const Attrs& attrs) {
                    return map(in[0], [&](double x) { return value(x, attrs); });
                  },
              .cases = std::move(cases),
              .cast_policy = op.cast_policy};
  if (op.grad)
    declared.grad = [rule = op.grad](const GradArgs& a) {
      return std::vector{
          cast(rule(widened(a.inputs[0]), widened(a.output), widened(a.grad)), a.output.dtype())};
    };
  define_op(std::move(declared));
}

void for_each_index(const Shape& shape, const std::function<void(const Ints&)>& f) {
  if (shape.size() == 0) return;
  Ints index(static_cast<size_t>(shape.rank()), 0);
  for (;;) {
    f(index);
    int axis = shape.rank() - 1;
    while (axis >= 0 && ++index[static_cast<size_t>(axis)] == shape[axis])
      index[static_cast<size_t>(axis--)] = 0;
    if (axis < 0) return;
  }
}

int64_t offset_of(const Shape& shape, const Ints& index) {
  int64_t offset = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    offset = offset * shape[axis] + index[static_cast<size_t>(axis)];
  return offset;
}

RefArray map(const RefArray& x, const std::function<double(double)>& f) {
  RefArray result(x.shape);
  for (size_t i = 0; i < x.data.size(); ++i) result.data[i] = f(x.data[i]);
  return result;
}

RefArray map(const RefArray& x, const RefArray& y, const std::function<double(double, double)>& f) {
  RefArray result(x.shape);
  for (size_t i = 0; i < x.data.size(); ++i) result.data[i] = f(x.data[i], y.data[i]);
  return result;
}

}  // namespace athanor
