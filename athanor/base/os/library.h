// Libraries that are loaded at run time. GPU drivers are used if they are installed; none is required.
#pragma once
#include <string>
#include <vector>

namespace athanor::os {

/// A shared library. It stays loaded until the program ends, because drivers often do not survive unloading.
class Library {
 public:
  Library() = default;
  /// Opens the first of `names` that exists ("libOpenCL.so.1"); `error()` says why if there is none.
  explicit Library(const std::vector<std::string>& names);
  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& error() const { return error_; }
  const std::string& name() const { return name_; }
  /// Where it was found: "/opt/rocm/lib/librocblas.so.4.2"; "" if the system does not tell.
  std::string file() const;
  /// nullptr if the library has no such function.
  void* find(const char* function) const;

 private:
  void* handle_ = nullptr;
  std::string name_, error_;
};

/// The file that this function was loaded from: Athanor's library, or a program that it is linked into. "" if
/// the system does not tell.
std::string file_of_this_library();

}  // namespace athanor::os
