#include "athanor/base/error.h"

#include <array>
#include <string_view>
#include <utility>

namespace athanor {
namespace {

std::string compose(const std::string& what, const std::string& where, const std::string& hint) {
  std::string message = what;
  if (!where.empty()) message += " (at " + where + ")";
  if (!hint.empty()) message += ". " + hint;
  return message;
}

}  // namespace

Error::Error(ErrorCode code, std::string what, std::string where, std::string hint)
    : std::runtime_error(compose(what, where, hint)),
      code_(code),
      what_(std::move(what)),
      where_(std::move(where)),
      hint_(std::move(hint)) {}

Error Error::at(const std::string& where) const {
  return where_.empty() ? Error(code_, what_, where, hint_) : *this;
}

const char* to_string(ErrorCode code) {
  static constexpr std::array names = {"usage", "shape",  "dtype",         "device",  "name",    "value",
                                       "io",    "format", "out_of_memory", "numeric", "internal"};
  return names.at(static_cast<size_t>(code));
}

std::string to_string(const std::source_location& where) {
  std::string_view file = where.file_name();
  if (auto slash = file.find_last_of("/\\"); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return std::string(file) + ":" + std::to_string(where.line());
}

}  // namespace athanor
