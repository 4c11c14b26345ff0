// Libraries that are loaded while the program runs: GPU drivers are used where they are, and never needed.
#pragma once
#include <string>
#include <vector>

namespace athanor::os {

/// A shared library. Stays loaded until the program ends: drivers do not like to be unloaded.
class Library {
 public:
  Library() = default;
  /// Opens the first of `names` that there is ("libOpenCL.so.1"); `error()` says why when there is none.
  explicit Library(const std::vector<std::string>& names);
  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& error() const { return error_; }
  const std::string& name() const { return name_; }
  /// nullptr when the library has no such function.
  void* find(const char* function) const;

 private:
  void* handle_ = nullptr;
  std::string name_, error_;
};

}  // namespace athanor::os
