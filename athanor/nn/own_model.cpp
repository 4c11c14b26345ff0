#include "athanor/nn/own_model.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/os/library.h"

namespace athanor::nn {
namespace {

constexpr const char* how_to_build =
    "It is compiled with athanor::athanor and has ATHANOR_MODEL(...): see examples/own_model.cpp";

}  // namespace

const OwnModel& load_own_model(const std::string& file) {
  static std::mutex mutex;
  static std::map<std::string, const OwnModel*> loaded;
  const std::lock_guard lock(mutex);
  // A name without a folder would be looked for in the folders of the system's libraries.
  const std::string path = std::filesystem::absolute(file).lexically_normal().string();
  const OwnModel*& model = loaded[path];
  if (model != nullptr) return *model;
  std::error_code failed;
  if (!std::filesystem::exists(path, failed) && !failed)
    throw Error(ErrorCode::usage, "there is no such library of a model", path, "Give its path, as ./mine.so");
  try {
    static_cast<void>(open_to_read(path));
  } catch (const Error& error) {  // a folder, a device, or a file without permission to read
    throw Error(ErrorCode::usage, error.problem(), path, error.hint());
  }
  const os::Library library({path});
  if (!library)
    throw Error(ErrorCode::usage,
                fmt::format("the library of the model cannot be loaded: {}", library.error()), path,
                how_to_build);
  void* const function = library.find("athanor_own_model");
  if (function == nullptr) throw Error(ErrorCode::usage, "the library holds no model", path, how_to_build);
  const OwnModel* found = reinterpret_cast<const OwnModel* (*)()>(function)();
  if (found == nullptr || found->form != OwnModel::current_form || found->sizes != OwnModel::current_sizes)
    throw Error(ErrorCode::usage, "the library was compiled with another version of Athanor", path,
                "Compile it again with the headers of this one");
  if (found->make == nullptr)
    throw Error(ErrorCode::usage, "the library makes no model: its function is null", path, how_to_build);
  model = found;
  return *model;
}

}  // namespace athanor::nn
