#include "athanor/backends/cpu/generic/candidates.h"

#include <algorithm>

namespace athanor::cpu {
namespace {

using Maker = Candidate (*)(const KernelRequest&);

bool is_pool(const Op& op) { return op.name == "max_pool2d" || op.name == "avg_pool2d"; }
bool is_pool_grad(const Op& op) { return op.name == "max_pool2d_grad" || op.name == "avg_pool2d_grad"; }

Maker maker_of(const Op& op) {
  switch (op.prim) {
    case Prim::batch_matmul:
      return batch_matmul_kernel;
    case Prim::pad:
      return pad_kernel;
    case Prim::concat:
      return concat_kernel;
    case Prim::fold:
      return fold_kernel;
    case Prim::take_along:
      return take_along_kernel;
    case Prim::scatter_add:
      return scatter_add_kernel;
    case Prim::cumsum:
      return cumsum_kernel;
    case Prim::argsort:
      return argsort_kernel;
    default:
      break;
  }
  if (is_pool(op)) return pool_kernel;
  if (is_pool_grad(op)) return pool_grad_kernel;
  if (op.name == "reorder") return reorder_kernel;
  return nullptr;
}

}  // namespace

std::vector<Candidate> generic_candidates(const KernelRequest& request) {
  const Maker make = maker_of(*request.op);
  if (make == nullptr) return {};
  return {make(request)};
}

bool generic_has_kernel(const Op& op, std::span<const TensorType>, const TensorType& output, const Attrs&) {
  if (is_pool(op) || is_pool_grad(op)) return is_float(output.dtype) && output.shape.rank() == 4;
  return maker_of(op) != nullptr;
}

}  // namespace athanor::cpu
