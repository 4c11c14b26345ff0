// Pieces of expressions, without what changes nothing.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace athanor::gpu {

inline std::string plus(const std::string& text, int64_t number) {
  return number == 0 ? text : fmt::format("{} + {}", text, number);
}
inline std::string plus(const std::string& text, const std::string& more) {
  return more == "0" ? text : text + " + " + more;
}
inline std::string times(const std::string& text, int64_t number) {
  return number == 1 ? text : fmt::format("{} * {}", text, number);
}
inline std::string divided(const std::string& text, int64_t number) {
  return number == 1 ? text : fmt::format("{} / {}", text, number);
}

}  // namespace athanor::gpu
