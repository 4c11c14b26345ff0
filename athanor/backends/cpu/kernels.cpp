#include "athanor/backends/cpu/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "athanor/base/error.h"

namespace athanor::cpu {
namespace {

// By op. Filled while the program starts, and only read afterwards.
std::map<std::string, std::vector<OpKernels>, std::less<>>& registered_kernels() {
  static std::map<std::string, std::vector<OpKernels>, std::less<>> all;
  return all;
}

}  // namespace

bool register_kernels(const OpKernels& kernels) {
  for (const std::string& op : kernels.ops) {
    auto& all = registered_kernels()[op];
    if (std::ranges::count(all, kernels.source, &OpKernels::source) > 0)
      throw Error(ErrorCode::internal, fmt::format("two files of one source are for the op '{}'", op));
    all.push_back(kernels);
    std::ranges::sort(all, {}, &OpKernels::source);
  }
  return true;
}

std::span<const OpKernels> kernels_of(const Op& op) {
  const auto found = registered_kernels().find(op.name);
  return found == registered_kernels().end() ? std::span<const OpKernels>() : found->second;
}

}  // namespace athanor::cpu
