#include "athanor/nn/running_average.h"

#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"

namespace athanor::nn {
namespace {

const Op& average_op = define_op(
    {.name = "running_average",
     .doc = "running + weight (scale value - running): running and value alike, weight an f32 scalar",
     .arity = 3,
     .dtypes = float_dtypes(),
     .infer =
         [](std::span<const TensorType> in, const Attrs&) {
           if (in[2] != TensorType{DType::f32, {}, in[2].device})
             throw Error(ErrorCode::shape, "takes an f32 scalar as its weight");
           return same_type(Accept::floats)(in.first(2), {});
         },
     .decompose =
         [](const std::vector<Tensor>& in, const Attrs& attrs) {
           const Tensor running = widened(in[0]), weight = cast(in[2], running.dtype());
           const Tensor target = widened(in[1]) * attrs.number("scale");
           return cast(running + weight * (target - running), in[0].dtype());
         },
     .reference =
         [](std::span<const RefArray> in, const Attrs& attrs) {
           return map(in[0], in[1], [&, weight = in[2][0]](double running, double value) {
             return running + weight * (attrs.number("scale") * value - running);
           });
         },
     .cases = {{{{{7}}, {{7}}, {{}, 0, 1, DType::f32}}, {{"scale", 1.25}}}},
     .differentiable = false,
     .cast_policy = CastPolicy::deny});

}  // namespace

Tensor running_average(const Tensor& running, const Tensor& value, const Tensor& weight, double scale) {
  return apply(average_op, {running, value, weight}, {{"scale", scale}});
}

}  // namespace athanor::nn
