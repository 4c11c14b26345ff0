#include "athanor/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

namespace athanor {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string in_lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), lower);
  return result;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string_view>& candidates) {
  std::string_view best;
  const size_t least_far = std::max<size_t>(2, name.size() / 3) + 1;
  // Case only decides between names that are otherwise equally near.
  std::pair best_distance{least_far, size_t{0}};
  const std::string plain = in_lower_case(name);
  for (auto candidate : candidates) {
    const std::pair distance{edit_distance(plain, in_lower_case(candidate)), edit_distance(name, candidate)};
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return std::string(best);
}

std::string nearest_hint(std::string_view name, const std::vector<std::string_view>& candidates) {
  if (auto near = nearest(name, candidates); !near.empty()) return fmt::format("Did you mean '{}'?", near);
  return candidates.empty() ? std::string() : fmt::format("Known: {}", fmt::join(candidates, ", "));
}

std::string format_bytes(uint64_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, units[unit]);
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  double number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || !(number >= 0)) return std::nullopt;
  std::string unit(end, text.data() + text.size());
  std::erase(unit, ' ');
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  double factor = 1;
  if (!unit.empty() && unit != "b") {
    const auto power = std::string_view("kmgt").find(unit.front());
    const std::string_view rest = std::string_view(unit).substr(1);
    if (power == std::string_view::npos || !(rest.empty() || rest == "ib" || rest == "b"))
      return std::nullopt;
    factor = std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
  }
  const double bytes = number * factor;
  if (!(bytes < 9e18)) return std::nullopt;
  return static_cast<int64_t>(std::llround(bytes));
}

std::string format_duration(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  return fmt::format("{}h {:02}m", whole / 3600, whole % 3600 / 60);
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(separator, start), text.size());
    parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::string path_in(std::string_view folder, std::string_view name) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  return std::string(folder) + "/" + std::string(name);
}

std::string trim(std::string_view text) {
  constexpr std::string_view white = " \t\r\n\v\f";
  const size_t start = text.find_first_not_of(white);
  if (start == std::string_view::npos) return {};
  return std::string(text.substr(start, text.find_last_not_of(white) - start + 1));
}

bool matches_pattern(std::string_view text, std::string_view pattern) {
  size_t at = 0, of = 0, star = std::string_view::npos, resume = 0;
  while (at < text.size()) {
    if (of < pattern.size() && pattern[of] == '*') {
      star = of++, resume = at;
    } else if (of < pattern.size() && (pattern[of] == '?' || pattern[of] == text[at])) {
      ++of, ++at;
    } else if (star != std::string_view::npos) {
      of = star + 1, at = ++resume;  // let the last star match one more character
    } else {
      return false;
    }
  }
  while (of < pattern.size() && pattern[of] == '*') ++of;
  return of == pattern.size();
}

bool contains_ignoring_case(std::string_view text, std::string_view part) {
  const auto same = [&](char a, char b) { return lower(a) == lower(b); };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

}  // namespace athanor
