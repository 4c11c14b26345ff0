// The languages of doctor's texts.
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

/// The values of placeholders: {"group", "render"}.
using Values = std::map<std::string, std::string>;

/// `text` with each {name} replaced by its value. A name without a value stays as it is, and so does text
/// like ${HOME}.
std::string fill(std::string_view text, const Values& values);

/// The names of the placeholders that are left in a text.
std::vector<std::string> placeholders(std::string_view text);
bool has_placeholder(std::string_view text);

/// Makes text safe for terminals and JSON: removes control characters, and replaces bytes that are not UTF-8
/// by '?'. Everything from a machine's files goes through this before it is shown.
std::string printable(std::string_view text);

/// `value` as one word of a POSIX shell's command line: in single quotes unless it needs none. Text from a
/// machine's files must go through this before it becomes part of a command.
std::string shell_word(const std::string& value);

}  // namespace athanor::doctor
