#include "athanor/optim/update.h"

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"

namespace athanor::optim {
namespace {

TensorType check(const UpdateRule& rule, std::span<const TensorType> in) {
  const TensorType& numbers = in.back();
  if (numbers.shape != Shape{rule.numbers} || (numbers.dtype != DType::f32 && numbers.dtype != DType::f64))
    throw Error(ErrorCode::shape, fmt::format("takes its numbers as f32[{}]", rule.numbers));
  return same_type(Accept::floats)(in.first(static_cast<size_t>(rule.tensors)), {});
}

Tensor compose(const UpdateRule& rule, const TensorRule& formula, const std::vector<Tensor>& in,
               const Attrs& attrs) {
  const size_t count = static_cast<size_t>(rule.tensors);
  std::vector<Tensor> x, numbers;
  for (size_t i = 0; i < count; ++i) x.push_back(widened(in[i]));
  for (int i = 0; i < rule.numbers; ++i) numbers.push_back(cast(slice(in[count], {i}), x[0].dtype()));
  return cast(formula(x, numbers, attrs), in[0].dtype());
}

RefArray evaluate(const UpdateRule& rule, const NumberRule& formula, std::span<const RefArray> in,
                  const Attrs& attrs) {
  const size_t count = static_cast<size_t>(rule.tensors);
  RefArray result(in[0].shape);
  std::vector<double> x(count);
  for (size_t i = 0; i < result.data.size(); ++i) {
    for (size_t k = 0; k < count; ++k) x[k] = in[k].data[i];
    result.data[i] = formula(x, in[count].data, attrs);
  }
  return result;
}

}  // namespace

const Op& define_update(UpdateRule rule, TensorRule of_tensors, NumberRule of_numbers) {
  std::vector<OpCase> cases;
  for (const Attrs& attrs : rule.attrs) {
    OpCase one{{}, attrs};
    for (int i = 0; i < rule.tensors; ++i) one.inputs.push_back({{5, 7}, 0.1, 2});
    one.inputs.push_back({{rule.numbers}, 0.1, 1, DType::f32});
    cases.push_back(std::move(one));
  }
  Op op{.name = rule.name,
        .doc = rule.doc,
        .arity = rule.tensors + 1,
        .dtypes = float_dtypes(),
        .infer = [rule](std::span<const TensorType> in, const Attrs&) { return check(rule, in); },
        .decompose = [rule, of_tensors = std::move(of_tensors)](
                         const std::vector<Tensor>& in,
                         const Attrs& attrs) { return compose(rule, of_tensors, in, attrs); },
        .reference = [rule, of_numbers = std::move(of_numbers)](
                         std::span<const RefArray> in,
                         const Attrs& attrs) { return evaluate(rule, of_numbers, in, attrs); },
        .cases = std::move(cases),
        .differentiable = false,
        .cast_policy = CastPolicy::deny};
  return define_op(std::move(op));
}

}  // namespace athanor::optim
