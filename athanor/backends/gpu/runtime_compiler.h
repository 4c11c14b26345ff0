// NVRTC and hipRTC: compilers that are libraries, as one table of functions.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "athanor/kernels/gpu/matrix_unit.h"

namespace athanor::gpu {

struct CompilerApi {
  /// Why it is missing, and the package that contains it; "" if it is there.
  std::string missing, fix;
  std::string version;  // "NVRTC 13.0"
  /// If threads compile one after another: its name in kernels/compile_apart.h, and the target there, for an
  /// architecture and the first of the forms that the driver loads. Else "" and nullptr.
  std::string apart;
  std::string (*target_apart)(const CompilerApi& compiler, const std::string& architecture,
                              size_t form) = nullptr;
  std::string file;  // its library
  /// The architectures that it compiles for: "sm_86"; {} if it does not say.
  std::vector<std::string> architectures;

  int (*create)(void** program, const char* source, const char* name, int, const char* const*,
                const char* const*) = nullptr;
  int (*compile)(void* program, int count, const char* const* options) = nullptr;
  int (*log_size)(void*, size_t*) = nullptr;
  int (*log)(void*, char*) = nullptr;
  int (*destroy)(void**) = nullptr;
  const char* (*error_text)(int) = nullptr;
  /// The forms that can be loaded, best first: machine code, then forms that the driver compiles further.
  struct Form {
    int (*size)(void*, size_t*) = nullptr;
    int (*get)(void*, char*) = nullptr;
  };
  std::vector<Form> forms;
  /// The architecture's name with the instructions that no later architecture has: "sm_90a" for "sm_90".
  /// nullptr: there are no such names.
  std::string (*own_name)(const CompilerApi& compiler, const std::string& architecture) = nullptr;
  /// Those of an architecture's units that this release can compile; nullptr: all.
  std::span<const MatrixUnit> (*known_units)(const CompilerApi& compiler,
                                             std::span<const MatrixUnit> units) = nullptr;
  /// The compiler's options for an architecture.
  std::vector<std::string> (*options)(const std::string& architecture) = nullptr;
  /// The advice for users if a driver of this version loads none of the compiler's forms.
  std::string (*refused)(const CompilerApi& compiler, int driver_version) = nullptr;
};

/// The compiler for devices of an architecture with a driver of that version.
using FindCompiler = const CompilerApi& (*)(int driver_version, const std::string& architecture);

/// A compiled program, for as long as its result is read.
class Compilation {
 public:
  Compilation(const CompilerApi& compiler, const std::string& architecture, const std::string& source,
              const std::string& name);
  ~Compilation();
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  bool failed() const { return code_ != 0; }
  /// The error, and at most `most` characters of the log.
  std::string problem(size_t most) const;
  /// The program in one of the compiler's forms; "" if it does not have that form.
  std::string result(const CompilerApi::Form& form) const;
  /// The program in the best form that it has, from this one on; "" if compiling failed.
  std::string best_result(size_t form = 0) const;

 private:
  const CompilerApi& compiler_;
  void* program_ = nullptr;
  int code_ = 0;
};

}  // namespace athanor::gpu
