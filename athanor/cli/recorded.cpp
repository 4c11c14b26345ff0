#include "athanor/cli/recorded.h"

#include <algorithm>
#include <filesystem>

#include "athanor/base/error.h"

namespace athanor::cli {
namespace {

Machine recorded_machine(const std::string& root) {
  std::error_code failed;
  if (!std::filesystem::exists(root, failed) && !failed)
    throw Error(ErrorCode::io, "there is no such folder", root, "Give one with a recorded machine");
  Machine machine(root);
  const auto has = [&](const char* name) { return std::filesystem::exists(machine.root() / name, failed); };
  // For an empty folder, doctor would report that all is well.
  if (!std::ranges::any_of(std::initializer_list<const char*>{"sys", "proc", "etc", "machine.toml"}, has))
    throw Error(ErrorCode::io, "this is not a folder with a recorded machine", root,
                "It should have sys/, proc/ and the like in it");
  return machine;
}

}  // namespace

Machine machine_at(const std::string& root) {
  if (root.empty()) return Machine();
  try {
    return recorded_machine(root);
  } catch (const Error& error) {
    throw Error(ErrorCode::usage, error.problem(), error.where(), error.hint());
  }
}

}  // namespace athanor::cli
