// Copies between devices.
#include "athanor/ops/define.h"

namespace athanor {

ATHANOR_OPS(transfer) {
  define_op({.name = "to",
             .doc = "x on the device of that name",
             .prim = Prim::to,
             .dtypes = all_dtypes(),
             .infer = same_type(Accept::all),
             .grad = [](const GradArgs& a) { return std::vector{a.grad.to(a.inputs[0].device())}; },
             .reference = [](std::span<const RefArray> in, const Attrs&) { return in[0]; },
             .cases = {{{{{3, 5}}}, {{"device", Device{}}}},
                       {{{{}}}, {{"device", Device{}}}},
                       {{{{2, 0}}}, {{"device", Device{}}}}},
             .flops = [](auto, const auto&, const auto&) { return int64_t{0}; }});
}

}  // namespace athanor
