#include "athanor/backends/cpu/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "athanor/base/error.h"
#include "athanor/base/startup_registry.h"

namespace athanor::cpu {
namespace {

// The keys are names of ops.
using KernelsByOp = std::map<std::string, std::vector<OpKernels>, std::less<>>;
StartupRegistry<KernelsByOp>& registered_kernels() {
  static StartupRegistry<KernelsByOp> all;
  return all;
}

}  // namespace

bool register_kernels(const OpKernels& kernels) {
  registered_kernels().add([&](KernelsByOp& by_op) {
    for (const std::string& op : kernels.ops) {
      auto& all = by_op[op];
      if (std::ranges::count(all, kernels.source, &OpKernels::source) > 0)
        throw Error(ErrorCode::internal, fmt::format("two files of one source are for the op '{}'", op));
      all.push_back(kernels);
      std::ranges::sort(all, {}, &OpKernels::source);
    }
  });
  return true;
}

std::span<const OpKernels> kernels_of(const Op& op) {
  const KernelsByOp& all = registered_kernels().list();
  const auto found = all.find(op.name);
  return found == all.end() ? std::span<const OpKernels>() : found->second;
}

ProductsBy products_by(DType dtype) {
  ProductsBy best = ProductsBy::conversion;
  for (const auto& [op, all] : registered_kernels().list())
    for (const OpKernels& kernels : all)
      if (kernels.products_by != nullptr) best = std::max(best, kernels.products_by(dtype));
  return best;
}

}  // namespace athanor::cpu
