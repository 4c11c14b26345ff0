#ifdef _WIN32
#include <windows.h>

#include "athanor/base/os/library.h"

namespace athanor::os {

Library::Library(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    // Searches only system folders: a DLL in a data folder is not a driver.
    handle_ = reinterpret_cast<void*>(LoadLibraryExA(name.c_str(), nullptr, LOAD_LIBRARY_SEARCH_SYSTEM32));
    name_ = name;
    if (handle_ != nullptr) return;
    error_ += (error_.empty() ? "" : "; ") + name + ": error " + std::to_string(GetLastError());
  }
}

std::string Library::file() const {
  char path[MAX_PATH] = {};
  if (handle_ == nullptr) return {};
  GetModuleFileNameA(static_cast<HMODULE>(handle_), path, sizeof path - 1);
  return path;
}

void* Library::find(const char* function) const {
  return handle_ == nullptr
             ? nullptr
             : reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(handle_), function));
}

std::string file_of_this_library() {
  HMODULE here = nullptr;
  char path[MAX_PATH] = {};
  if (GetModuleHandleExA(
          GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
          reinterpret_cast<const char*>(&file_of_this_library), &here) != 0)
    GetModuleFileNameA(here, path, sizeof path - 1);
  return path;
}

}  // namespace athanor::os
#endif
