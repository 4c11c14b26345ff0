// Errors: what went wrong, where, and how to fix it.
#pragma once
#include <source_location>
#include <stdexcept>
#include <string>

namespace athanor {

/// The kind of error. Programs branch on this; people read `what()`.
enum class ErrorCode {
  usage,          // the command line or the call itself is malformed
  shape,          // shapes do not fit together
  dtype,          // an element type is not supported here
  device,         // a device is unknown, missing or mixed with another
  name,           // an unknown name (of a model, a parameter, an op, ...)
  value,          // a value is out of its range
  io,             // the operating system refused a file operation
  format,         // a file's content is truncated, corrupt or unsupported
  out_of_memory,  // there was not enough memory
  numeric,        // a NaN or infinity where it is not allowed
  internal,       // a bug in Athanor
};

/// The only exception type of the library.
///
/// `what()` is the whole message for a person: "WHAT (at WHERE). HINT".
class Error : public std::runtime_error {
 public:
  /// `what` says what is wrong; `where` names the file, argument or source line; `hint` says how to fix it.
  /// `where` and `hint` may be empty.
  Error(ErrorCode code, std::string what, std::string where = {}, std::string hint = {});

  ErrorCode code() const { return code_; }
  const std::string& problem() const { return what_; }
  const std::string& where() const { return where_; }
  const std::string& hint() const { return hint_; }

  /// The same error, with `where` filled in if it was empty.
  Error at(const std::string& where) const;

 private:
  ErrorCode code_;
  std::string what_, where_, hint_;
};

/// The name of a code, as printed in JSON: "shape", "io", ...
const char* to_string(ErrorCode code);

/// "file.cpp:12" with the folders above the file left out.
std::string to_string(const std::source_location& where);

}  // namespace athanor
