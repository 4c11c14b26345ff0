// Compilers that a process can use from one thread only: more processes compile at the same time.
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
/// Registers a compiler under a name that no other has. For the initial value of a variable; returns true.
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
  /// For a thread that may be told to stop at any time. Everything should be compiled in other processes,
  /// because a process can be ended, but a compiler in this one cannot.
  explicit CompileApartScope(std::stop_token stop);
  ~CompileApartScope();
  CompileApartScope(const CompileApartScope&) = delete;
  CompileApartScope& operator=(const CompileApartScope&) = delete;
};

/// Whether this thread should compile in another process whatever can be compiled there.
bool prefers_to_compile_apart();

/// The binary. None if there is no scope, if there can be no process for it, or if the compiler refuses the
/// source: then compile it here. Throws Error(device) if the compiler ends two processes over this source,
/// because it would end this one too; Interrupted when the scope's thread is told to stop.
std::optional<std::string> compile_apart(const std::string& compiler, const std::string& target,
                                         const std::string& source, const std::string& name);

}  // namespace athanor
