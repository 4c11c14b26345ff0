#ifndef _WIN32
#include <dlfcn.h>
#include <link.h>

#include "athanor/base/os/library.h"

namespace athanor::os {

Library::Library(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    name_ = name;
    if (handle_ != nullptr) return;
    const char* reason = dlerror();  // NOLINT(concurrency-mt-unsafe): it is per thread
    error_ += (error_.empty() ? "" : "; ") + std::string(reason != nullptr ? reason : name);
  }
}

std::string Library::file() const {
  link_map* map = nullptr;
  if (handle_ == nullptr || dlinfo(handle_, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0) return {};
  return map == nullptr || map->l_name == nullptr ? "" : map->l_name;
}

void* Library::find(const char* function) const {
  return handle_ == nullptr ? nullptr : dlsym(handle_, function);
}

std::string file_of_this_library() {
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&file_of_this_library), &here) == 0 || here.dli_fname == nullptr)
    return {};
  return here.dli_fname;
}

}  // namespace athanor::os
#endif
