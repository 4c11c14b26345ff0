#include <cmath>

#include "athanor/ops/activations.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"

namespace athanor {

ATHANOR_OPS(swiglu) {
  define_op(
      {.name = "swiglu",
       .doc = "silu(gate) * up",
       .arity = 2,
       .infer = same_type(Accept::floats),
       .decompose = [](const std::vector<Tensor>& in,
                       const Attrs&) { return cast(silu(widened(in[0])) * widened(in[1]), in[0].dtype()); },
       .reference =
           [](std::span<const RefArray> in, const Attrs&) {
             return map(in[0], in[1],
                        [](double gate, double up) { return gate / (1 + std::exp(-gate)) * up; });
           },
       .cases = {{{{{17}, -6, 6}, {{17}}}}, {{{{3, 5, 2}, -6, 6}, {{3, 5, 2}}}}, {{{{3, 0}}, {{3, 0}}}}},
       .flops = [](auto, const TensorType& y, const auto&) { return 5 * y.shape.size(); },
       .tolerance = 4});
}

Tensor swiglu(Operand gate, Operand up) {
  static const Op& op = find_op("swiglu");
  return in_call(
      "swiglu",
      [&] {
        return apply(op, {as_float(gate), as_float(up)});
      },
      gate, up);
}

}  // namespace athanor
