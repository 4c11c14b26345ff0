#include "athanor/base/toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/base/utf8.h"

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

struct String {
  std::string_view content;  // between the quotes
  size_t end = 0;            // after the last quote, or where the text breaks off if the string is broken
  bool lines = false;        // has three quotes
};

String string_at(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string three(3, quote);
  const bool lines = text.substr(at, 3) == three;
  const size_t quotes = lines ? 3 : 1;
  const size_t begin = at + quotes;
  for (at = begin; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (!lines && text[at] == '\n') {
      break;
    } else if (lines ? text.substr(at, 3) == three : text[at] == quote) {
      for (int more = 0; lines && more < 2 && text.substr(at + 1, 3) == three; ++more)
        ++at;  // up to two quotes belong to the text
      return {text.substr(begin, at - begin), at + quotes, lines};
    }
  }
  at = std::min(at, text.size());
  return {text.substr(std::min(begin, at), at - begin), at, lines};
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

/// The document in ASCII, line for line: other characters are escaped in strings and replaced in comments.
/// TOML allows them nowhere else. toml++ 3.3 has undefined behaviour for many of them (such as U+00A1)
/// outside strings and comments, even after the first error.
class InAscii {
 public:
  InAscii(std::string_view text, const std::string& where) : text_(text), where_(where) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#')
        for (; at_ < text_.size() && text_[at_] != '\n'; at_ += character().bytes)
          result_ += is_ascii(text_.substr(at_, 1)) ? text_[at_] : '?';
      else if (c == '"' || c == '\'')
        copy_string();
      else if (is_ascii(text_.substr(at_, 1)))
        result_ += text_[at_++];
      else
        refuse("a character that is not ASCII, outside of strings and comments",
               "Put names and texts between quotes");
    }
  }

  const std::string& result() const { return result_; }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& advice) const {
    const auto lines = std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    throw Error(ErrorCode::format, what, fmt::format("{}:{}", where_, lines + 1), advice);
  }

  Utf8Character character() const {
    const Utf8Character found = utf8_at(text_, at_);
    if (!found.valid) refuse("bytes that are not UTF-8", "Save the file as UTF-8");
    return found;
  }

  void copy_string() {
    const String string = string_at(text_, at_);
    if (is_ascii(string.content)) {
      result_ += text_.substr(at_, string.end - at_);
      at_ = string.end;
      return;
    }
    // Literal strings have no escapes, so they are turned into basic strings.
    const bool literal = text_[at_] == '\'';
    const std::string quotes(string.lines ? 3 : 1, '"');
    result_ += quotes;
    at_ += quotes.size();
    const size_t end = at_ + string.content.size();
    for (size_t backslashes = 0; at_ < end;) {
      const Utf8Character next = character();
      if (next.value >= 0x80) {
        // After a backslash it must stay an unknown escape.
        const bool escaped = !literal && backslashes % 2 == 1;
        result_ += escaped ? "?" : fmt::format("\\U{:08X}", static_cast<uint32_t>(next.value));
      } else {
        if (literal && (text_[at_] == '\\' || text_[at_] == '"')) result_ += '\\';
        result_ += text_[at_];
      }
      backslashes = next.value == '\\' ? backslashes + 1 : 0;
      at_ += next.bytes;
    }
    if (at_ < string.end) result_ += quotes;
    at_ = string.end;
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
  std::string result_;
};

std::string_view line_of(std::string_view text, size_t number) {
  for (; number > 1 && text.find('\n') != std::string_view::npos; --number)
    text.remove_prefix(text.find('\n') + 1);
  return text.substr(0, text.find_first_of("\r\n"));
}

/// The message of toml++ in plain words.
std::string in_plain_words(std::string_view description) {
  constexpr std::string_view end = "encountered end-of-file", type = "could not determine value type";
  if (description.ends_with(end)) return "the file ends in the middle of a name, a value or a table";
  if (description.ends_with(type)) return "this is no value";
  if (const size_t colon = description.find(": "); colon != std::string_view::npos)
    description.remove_prefix(colon + 2);
  return std::string(description);
}

/// How to fix a wrong line.
std::string advice_on(std::string_view line) {
  const size_t sign = line.find('=');
  if (sign == std::string_view::npos) return "Write NAME = VALUE. The format is TOML: https://toml.io";
  const std::string name = trim(std::string(line.substr(0, sign))),
                    value = trim(std::string(line.substr(sign + 1)));
  const bool word = !value.empty() && std::ranges::all_of(value, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-_./").find(static_cast<char>(c)) != std::string_view::npos;
  }) && std::isdigit(static_cast<unsigned char>(value.front())) == 0;
  for (const char* flag : {"True", "TRUE", "yes", "on", "False", "FALSE", "no", "off"})
    if (value == flag) return "Write true or false, in small letters";
  if (word) return fmt::format("Put text between quotes: {} = \"{}\"", name, value);
  return "Write text in quotes, numbers as 3 or 0.5, flags as true or false, lists as [1, 2]. The format is "
         "TOML: "
         "https://toml.io";
}

}  // namespace

nlohmann::json parse_toml(std::string_view text, const std::string& where) {
  try {
    return to_json(toml::parse(InAscii(text, where).result()));
  } catch (const toml::parse_error& error) {
    const auto [line, column] = error.source().begin;
    throw Error(ErrorCode::format, in_plain_words(error.description()),
                fmt::format("{}:{}:{}", where, line, column), advice_on(line_of(text, line)));
  }
}

}  // namespace athanor
