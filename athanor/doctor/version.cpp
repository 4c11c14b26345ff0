#include "athanor/doctor/version.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace athanor::doctor {

std::optional<Version> Version::parse(std::string_view text) {
  if (!text.empty() && text[0] == 'v') text.remove_prefix(1);
  Version version;
  // No real version has more numbers, but a hostile file might.
  while (!text.empty() && version.numbers_.size() < 8) {
    uint32_t number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (problem == std::errc::invalid_argument) break;
    version.numbers_.push_back(problem == std::errc{} ? number : std::numeric_limits<uint32_t>::max());
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty() || text[0] != '.') break;
    text.remove_prefix(1);
  }
  if (version.numbers_.empty()) return std::nullopt;
  return version;
}

Version Version::first(size_t count) const {
  Version shorter;
  for (size_t i = 0; i < count; ++i) shorter.numbers_.push_back(at(i));
  return shorter;
}

std::string Version::text() const { return fmt::format("{}", fmt::join(numbers_, ".")); }

std::strong_ordering Version::operator<=>(const Version& other) const {
  const size_t count = std::max(numbers_.size(), other.numbers_.size());
  for (size_t i = 0; i < count; ++i)
    if (const auto order = at(i) <=> other.at(i); std::is_neq(order)) return order;
  return std::strong_ordering::equal;
}

std::string_view local_version(std::string_view version) {
  const size_t plus = version.find('+');
  return plus == std::string_view::npos ? std::string_view() : version.substr(plus + 1);
}

}  // namespace athanor::doctor
