#include "athanor/graph/op.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "athanor/base/error.h"
#include "athanor/base/text.h"

namespace athanor {
namespace {

struct Registry {
  std::map<std::string, std::unique_ptr<const Op>, std::less<>> by_name;
  std::shared_mutex mutex;  // a program may define ops while other threads compute
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
  const std::unique_lock lock(ops.mutex);
  if (ops.by_name.contains(result.name))
    throw Error(ErrorCode::internal, fmt::format("two ops are named '{}'", result.name));
  ops.by_name.emplace(result.name, std::move(owned));
  return result;
}

const Op& find_op(const std::string& name) {
  auto& ops = registry();
  const std::shared_lock lock(ops.mutex);
  if (auto found = ops.by_name.find(name); found != ops.by_name.end()) return *found->second;
  std::vector<std::string_view> names;
  for (const auto& [known, op] : ops.by_name) names.emplace_back(known);
  throw Error(ErrorCode::name, fmt::format("unknown op '{}'", name), {}, nearest_hint(name, names));
}

std::vector<const Op*> all_ops() {
  auto& ops = registry();
  const std::shared_lock lock(ops.mutex);
  std::vector<const Op*> all;
  for (const auto& [name, op] : ops.by_name) all.push_back(op.get());
  return all;
}

}  // namespace athanor
