// Compilers of which a process can use one thread only: other processes compile at the same time.
#pragma once
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace athanor {

/// Compiles a source for a target, such as an architecture, and returns the binary, or "" if the compiler
/// refuses it.
using CompileSource =
    std::function<std::string(const std::string& target, const std::string& source, const std::string& name)>;
/// Makes a compiler known by a name. Returns true.
bool register_compiler(const std::string& compiler, CompileSource compile);

/// The program that compiles: it is started with these words, the compiler's name and the target, and calls
/// serve_compiler(). By default the program `athanor` that was built or installed with this library. {}:
/// none, and nothing is compiled apart.
void set_compiler_program(std::vector<std::string> words);
/// Compiles until the process that started this one is gone.
void serve_compiler(const std::string& compiler, const std::string& target);

/// While one exists, this thread may have a process to compile in; it ends with the scope.
class CompileApartScope {
 public:
  CompileApartScope();
  /// Of a thread that may be told to stop at any time: all is to be compiled apart, because a process can be
  /// ended, and a compiler in this one cannot.
  explicit CompileApartScope(std::stop_token stop);
  ~CompileApartScope();
  CompileApartScope(const CompileApartScope&) = delete;
  CompileApartScope& operator=(const CompileApartScope&) = delete;
};

/// Whether this thread is not to compile here what can be compiled apart.
bool prefers_to_compile_apart();

/// The binary. None if there is no scope, no such process or too many, or if the compiler refuses the source:
/// then it is to be compiled here. Throws Error(device) if the compiler ends two processes over this source,
/// because it would end this one too; Interrupted when the scope's thread is told to stop.
std::optional<std::string> compile_apart(const std::string& compiler, const std::string& target,
                                         const std::string& source, const std::string& name);

}  // namespace athanor
