#include "athanor/graph/op.h"

#include <fmt/format.h>

#include <memory>
#include <unordered_map>

#include "athanor/base/error.h"
#include "athanor/base/text.h"

namespace athanor {
namespace {

struct Registry {
  std::unordered_map<std::string, std::unique_ptr<const Op>> by_name;
  std::vector<const Op*> in_order;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

const Op& define_op(Op op) {
  auto& ops = registry();
  auto owned = std::make_unique<const Op>(std::move(op));
  const Op& result = *owned;
  if (!ops.by_name.emplace(result.name, std::move(owned)).second)
    throw Error(ErrorCode::internal, fmt::format("two ops are named '{}'", result.name));
  ops.in_order.push_back(&result);
  return result;
}

const Op& find_op(const std::string& name) {
  auto& ops = registry();
  if (auto found = ops.by_name.find(name); found != ops.by_name.end()) return *found->second;
  std::vector<std::string_view> names;
  for (const Op* op : ops.in_order) names.push_back(op->name);
  throw Error(ErrorCode::name, fmt::format("unknown op '{}'", name), {}, nearest_hint(name, names));
}

const std::vector<const Op*>& all_ops() { return registry().in_order; }

}  // namespace athanor
