#include "athanor/base/toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "athanor/base/error.h"

// toml++ refuses deeper nesting.
#define TOML_MAX_NESTED_VALUES 64
#include <toml++/toml.h>

namespace athanor {
namespace {

nlohmann::json to_json(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    auto object = nlohmann::json::object();
    for (const auto& [key, value] : *table) object[std::string(key.str())] = to_json(value);
    return object;
  }
  if (const auto* array = node.as_array()) {
    auto list = nlohmann::json::array();
    for (const auto& value : *array) list.push_back(to_json(value));
    return list;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  std::ostringstream text;
  if (const auto* date = node.as_date()) text << *date;
  if (const auto* time = node.as_time()) text << *time;
  if (const auto* date_time = node.as_date_time()) text << *date_time;
  return text.str();
}

/// The end of the string that begins at `at`, or of the rest if the string is broken.
size_t end_of_string(std::string_view text, size_t at) {
  const char quote = text[at];
  const bool escapes = quote == '"';
  const std::string three(3, quote);
  const bool long_one = text.substr(at, 3) == three;
  for (at += long_one ? 3 : 1; at < text.size(); ++at) {
    if (escapes && text[at] == '\\') {
      ++at;
    } else if (!long_one && (text[at] == quote || text[at] == '\n')) {
      return at + 1;
    } else if (long_one && text.substr(at, 3) == three) {
      at += 3;
      for (int more = 0; more < 2 && at < text.size() && text[at] == quote; ++more)
        ++at;  // they belong to it
      return at;
    }
  }
  return text.size();
}

/// The line of the first byte outside strings and comments that is not ASCII; 0 if there is none. TOML does
/// not allow such bytes, and toml++ 3.3 crashes on some of them (U+3001).
size_t line_of_misplaced(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '#')
      at = std::min(text.find('\n', at), text.size());
    else if (c == '"' || c == '\'')
      at = end_of_string(text, at);
    else if (static_cast<unsigned char>(c) >= 0x80)
      return 1 + static_cast<size_t>(
                     std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    else
      ++at;
  }
  return 0;
}

}  // namespace

nlohmann::json parse_toml(std::string_view text, const std::string& where) {
  if (const size_t line = line_of_misplaced(text); line > 0)
    throw Error(ErrorCode::format, "a character that is not ASCII, outside of strings and comments",
                fmt::format("{}:{}", where, line), "Put names and texts between quotes");
  try {
    return to_json(toml::parse(text));
  } catch (const toml::parse_error& error) {
    throw Error(ErrorCode::format, std::string(error.description()),
                fmt::format("{}:{}", where, error.source().begin.line), "See https://toml.io for the format");
  }
}

}  // namespace athanor
