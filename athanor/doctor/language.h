// The languages that doctor speaks.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace athanor::doctor {

enum class Language { en, zh };

/// A text in every language.
struct Text {
  std::string en, zh;
  const std::string& in(Language language) const { return language == Language::zh ? zh : en; }
};

/// The language of a locale's name: "zh_CN.UTF-8" is zh, everything else en.
Language language_of_locale(std::string_view locale);

/// What placeholders stand for: {"group", "render"}.
using Values = std::map<std::string, std::string>;

/// `text` with {name} replaced by its value. A name that has none stays as it is, and so does what only
/// looks like a placeholder, as ${HOME} does.
std::string fill(std::string_view text, const Values& values);

/// Names of the placeholders that are left in a text.
std::vector<std::string> placeholders(std::string_view text);
bool has_placeholder(std::string_view text);

/// What can be shown on a terminal and stand in JSON: without control characters, and with '?' for bytes that
/// are no UTF-8. Everything that comes from a machine's files goes through this before it is shown.
std::string printable(std::string_view text);

/// `value` as one word of a POSIX shell's command line: in single quotes unless it needs none. What comes
/// from a machine's files goes into commands only like this.
std::string shell_word(const std::string& value);

}  // namespace athanor::doctor
