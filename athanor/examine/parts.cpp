#include "athanor/examine/parts.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include "athanor/base/error.h"
#include "athanor/graph/op.h"
#include "athanor/ops/conv_problem.h"
#include "athanor/ops/op_case.h"

namespace athanor {
namespace {

// OpenCL lets a device's pow be off by 16 units in the last place, where the tests allow a few.
constexpr double slack = 8;

bool can_f64(Device device) {
  const DeviceInfo info = info_of(device);
  const auto found = info.properties.find("f64");
  return found == info.properties.end() || found->second.value != "no";
}

// Inputs of cases on a device. Equal ones are one tensor, so that loops over them are fused into few kernels.
class Inputs {
 public:
  explicit Inputs(Device device) : device_(device) {}
  const Tensor& of(const HostArray& array) {
    for (const auto& [known, tensor] : all_)
      if (known->dtype == array.dtype && known->shape == array.shape && known->bytes == array.bytes)
        return tensor;
    return all_.emplace_back(&array, Tensor::from(array, device_)).second;
  }

 private:
  Device device_;
  std::deque<std::pair<const HostArray*, Tensor>> all_;
};

Tensor result_of(const FilledCase& c, Device device, Inputs& known) {
  std::vector<Operand> inputs;
  for (const HostArray& input : c.inputs) inputs.emplace_back(known.of(input));
  Tensor result = apply(c.op, inputs, c.spec.attrs);
  result.node()->type.device = device;  // an op that takes no tensors knows none
  return result;
}

// All cases as one plan: kernels are compiled side by side. Where that fails, each by itself, to name the one
// that does.
void check_together(Device device, const std::vector<FilledCase>& cases, Examination& verdict) {
  try {
    std::vector<Tensor> results;
    Inputs inputs(device);
    for (const FilledCase& c : cases) results.push_back(result_of(c, device, inputs));
    eval(results);
    std::vector<HostArray> found;  // all before the first is judged: reading may fail too
    for (const Tensor& result : results) found.push_back(result.to_host());
    for (size_t i = 0; i < cases.size(); ++i) {
      ++verdict.checks;
      if (const std::string wrong = mismatch(cases[i], found[i], slack); !wrong.empty())
        verdict.wrong.push_back(describe(cases[i]) + ": " + wrong);
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::out_of_memory) throw;
    if (cases.size() == 1) {
      ++verdict.checks;
      verdict.wrong.push_back(describe(cases.front()) + ": " + error.problem());
      return;
    }
    for (const FilledCase& c : cases) check_together(device, {c}, verdict);
  }
}

// An op and a case of it, which may be one of its own.
struct Asked {
  const Op* op;
  OpCase spec;
  DType dtype = DType::f32;
  uint64_t seed = 0;
  bool common = false;  // inputs that are the same for all ops
};

void check(Device device, const std::vector<Asked>& asked, Examination& verdict) {
  const bool f64 = can_f64(device);
  std::vector<FilledCase> cases;
  for (const Asked& one : asked) {
    const FilledCase filled = fill_case(one.common ? find_op("add") : *one.op, one.spec, one.dtype, one.seed);
    const FilledCase c{*one.op, one.spec, filled.inputs, filled.free};
    std::vector<TensorType> types;
    for (const HostArray& input : c.inputs) types.push_back({input.dtype, input.shape, device});
    const auto is_f64 = [](const TensorType& type) { return type.dtype == DType::f64; };
    if (!f64 && (is_f64(one.op->infer(types, one.spec.attrs)) || std::ranges::any_of(types, is_f64)))
      continue;
    cases.push_back(c);
  }
  if (!cases.empty()) check_together(device, cases, verdict);
}

bool has_cases(const Op& op) { return op.prim != Prim::input && !op.cases.empty() && op.reference; }

// f32 where the op takes it.
DType usual_dtype(const Op& op) {
  const bool f32 = std::ranges::find(op.dtypes, DType::f32) != op.dtypes.end();
  return f32 ? DType::f32 : op.dtypes.front();
}

Asked own_case(const Op& op, size_t number, DType dtype) {
  return {&op, op.cases[number], dtype, number * 1000};
}

// An elementwise op of floats on the same numbers as all others of its kind: one loop has them all. Some are
// negative, so that logarithms and roots give NaN there, as they should.
std::optional<Asked> on_common_numbers(const Op& op) {
  if (!is_elementwise(op.prim) || op.prim == Prim::cast || usual_dtype(op) != DType::f32) return std::nullopt;
  OpCase spec = op.cases.front();
  if (!spec.attrs.entries().empty()) return std::nullopt;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (spec.inputs[i].dtype) return std::nullopt;
    spec.inputs[i] = {{300}, i == 0 ? -1.0 : 0.2, i == 0 ? 3.0 : 2.5};
  }
  return Asked{&op, spec, DType::f32, 0, true};
}

// Each primitive in the first of its cases; conversions and sums of two in every type.
std::vector<Asked> primitives() {
  std::vector<Asked> all;
  for (const Op* op : all_ops()) {
    if (op->prim == Prim::none || !has_cases(*op)) continue;
    if (auto common = on_common_numbers(*op)) {
      all.push_back(std::move(*common));
      continue;
    }
    const size_t count = op->prim == Prim::cast ? op->cases.size() : 1;
    for (size_t i = 0; i < count; ++i) all.push_back(own_case(*op, i, usual_dtype(*op)));
  }
  const Op& add = find_op("add");
  for (const DType dtype : add.dtypes)
    if (dtype != DType::f32) all.push_back(own_case(add, 0, dtype));
  return all;
}

Asked of(const char* op, std::vector<Sample> inputs, Attrs attrs = {}, DType dtype = DType::f32) {
  return {&find_op(op), {std::move(inputs), std::move(attrs)}, dtype, 0};
}

// Fused loops by how they walk their elements: each element, rows, columns, few long rows in parts, an axis
// in the middle, several axes, one row for all; with a result an element beside the sums (softmax).
std::vector<Asked> loops() {
  const auto axis = [](int64_t a) { return Attrs{{"axis", a}}; };
  const auto axes = [](const Ints& a) { return Attrs{{"axes", a}}; };
  return {of("add", {{{100'003}}, {{100'003}}}),
          of("mul", {{{70, 130}}, {{70, 130}}}),
          of("sum", {{{5, 3000}}}, axes({1})),
          of("sum", {{{100'003}, -0.5, 1}}, axes({0})),
          of("sum", {{{700, 33}}}, axes({0})),
          of("sum", {{{6, 50, 20}}}, axes({1})),
          of("reduce_max", {{{6, 50, 20}}}, axes({0, 2})),
          of("sum", {{{40, 64}}}, axes({1}), DType::bf16),
          of("sum", {{{4, 0}}}, axes({1})),
          of("argmax", {{{70, 130}}}, axis(1)),
          of("cumsum", {{{3, 700}}}, axis(1)),
          of("softmax", {{{37, 300}, -5, 5}}, axis(1))};
}

// [B, M, K] x [B, K, N]: large tiles with a long sum, one row, odd extents; and a storage type. Each is a
// kernel that takes seconds to compile on some devices.
std::vector<Asked> products() {
  const auto product = [](int64_t b, int64_t m, int64_t k, int64_t n, DType dtype = DType::f32) {
    return of("batch_matmul", {{{b, m, k}}, {{b, k, n}}}, {}, dtype);
  };
  return {product(1, 64, 512, 96), product(1, 1, 400, 300), product(3, 33, 65, 17, DType::bf16)};
}

// A convolution with both its gradients.
void add_convolution(std::vector<Asked>& all, const Shape& x, const Shape& w, const Conv2dOptions& options) {
  const Attrs attrs = conv_attrs(options);
  const Shape y = ConvProblem(x, w, attrs).y;
  Attrs images = attrs, weights = attrs;
  images.set("input_shape", x.to_ints());
  weights.set("weight_shape", w.to_ints());
  all.push_back(of("conv2d", {{x}, {w}}, attrs));
  all.push_back(of("conv2d_input_grad", {{y}, {w}}, images));
  all.push_back(of("conv2d_weight_grad", {{x}, {y}}, weights));
}

std::vector<Asked> convolutions() {
  std::vector<Asked> all;
  add_convolution(all, {2, 32, 14, 14}, {48, 32, 3, 3}, {.padding = 1});
  for (const char* name : {"max_pool2d", "max_pool2d_grad", "avg_pool2d", "avg_pool2d_grad"})
    all.push_back(own_case(find_op(name), 0, DType::f32));
  return all;
}

std::vector<Asked> attention() {
  std::vector<Asked> all;
  const Attrs attrs{{"causal", true}, {"scale", 0.25}};
  const Shape x{2, 40, 16}, rows{2, 40};
  all.push_back(of("scaled_dot_product_attention", {{x}, {x}, {x}}, attrs));
  for (const char* name : {"attention_grad_q", "attention_grad_k", "attention_grad_v"})
    all.push_back(own_case(find_op(name), 0, DType::f32));
  return all;
}

ExaminationPart part(const char* name, std::vector<Asked> (*cases)()) {
  return {name, [cases](Device device, Examination& verdict) { check(device, cases(), verdict); }};
}

// Every case in the usual dtype, the first in each other.
std::vector<Asked> whole(const Op& op) {
  std::vector<Asked> all;
  for (size_t i = 0; i < op.cases.size(); ++i) all.push_back(own_case(op, i, usual_dtype(op)));
  const bool open =
      std::ranges::any_of(op.cases.front().inputs, [](const Sample& sample) { return !sample.dtype; });
  for (const DType dtype : op.dtypes)
    if (open && dtype != usual_dtype(op)) all.push_back(own_case(op, 0, dtype));
  return all;
}

}  // namespace

std::vector<ExaminationPart> examination_parts(bool all) {
  std::vector<ExaminationPart> parts;
  if (all) {
    for (const Op* op : all_ops())
      if (has_cases(*op))
        parts.push_back(
            {op->name, [op](Device device, Examination& verdict) { check(device, whole(*op), verdict); }});
  } else {
    parts.push_back(part("primitives", primitives));
  }
  parts.push_back(part("fused loops", loops));
  parts.push_back(part("products of matrices", products));
  parts.push_back(part("convolutions and pooling", convolutions));
  if (!all) parts.push_back(part("attention", attention));
  parts.push_back({"a training step", examine_training_step});
  return parts;
}

}  // namespace athanor
