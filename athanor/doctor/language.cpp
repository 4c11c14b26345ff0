#include "athanor/doctor/language.h"

#include <algorithm>

#include "athanor/base/utf8.h"

namespace athanor::doctor {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

// Calls plain(text) and placeholder(name) in the order of the text.
template <class Plain, class Placeholder>
void scan(std::string_view text, const Plain& plain, const Placeholder& placeholder) {
  while (!text.empty()) {
    const size_t open = text.find('{');
    const size_t close = open == std::string_view::npos ? open : text.find('}', open);
    if (close == std::string_view::npos) return plain(text);
    const std::string_view name = text.substr(open + 1, close - open - 1);
    if (is_name(name) && (open == 0 || text[open - 1] != '$')) {
      plain(text.substr(0, open));
      placeholder(name);
      text.remove_prefix(close + 1);
    } else {
      plain(text.substr(0, open + 1));
      text.remove_prefix(open + 1);
    }
  }
}

}  // namespace

Language language_of_locale(std::string_view locale) {
  return locale.substr(0, 2) == "zh" ? Language::zh : Language::en;
}

std::string fill(std::string_view text, const Values& values) {
  std::string filled;
  scan(
      text, [&](std::string_view plain) { filled += plain; },
      [&](std::string_view name) {
        const auto value = values.find(std::string(name));
        filled += value == values.end() ? "{" + std::string(name) + "}" : value->second;
      });
  return filled;
}

std::vector<std::string> placeholders(std::string_view text) {
  std::vector<std::string> names;
  scan(
      text, [](std::string_view) {}, [&](std::string_view name) { names.emplace_back(name); });
  return names;
}

bool has_placeholder(std::string_view text) { return !placeholders(text).empty(); }

std::string printable(std::string_view text) {
  std::string clean;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character next = utf8_at(text, at);
    const bool c1_control = next.value >= 0x80 && next.value < 0xA0;
    if (next.value == '\t' || next.value == '\n')
      clean += ' ';
    else if (!next.valid || c1_control)
      clean.append(next.bytes, '?');
    else if (next.value >= 0x20 && next.value != 0x7F)
      clean += text.substr(at, next.bytes);
    at += next.bytes;
  }
  return clean;
}

std::string shell_word(const std::string& value) {
  const auto harmless = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./:=+,@%").find(c) != std::string_view::npos;
  };
  if (!value.empty() && std::all_of(value.begin(), value.end(), harmless)) return value;
  std::string quoted = "'";
  for (const char c : value) {
    if (c == '\'') quoted += "'\\''";
    // Control characters would affect the terminal that shows the command.
    else if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F)
      quoted += c;
  }
  return quoted + "'";
}

}  // namespace athanor::doctor
