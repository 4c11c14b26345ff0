#include "athanor/doctor/pep508.h"

#include <algorithm>
#include <array>

#include "athanor/base/text.h"
#include "athanor/doctor/facts/python.h"

namespace athanor::doctor {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t'; }
bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
         c == '_';
}

std::string_view take_name(std::string_view& text) {
  size_t size = 0;
  while (size < text.size() && is_name_char(text[size])) ++size;
  const std::string_view name = text.substr(0, size);
  text.remove_prefix(size);
  return name;
}

void skip_space(std::string_view& text) {
  while (!text.empty() && is_space(text[0])) text.remove_prefix(1);
}

// The end of the specifiers, at the marker's ';' outside quotes. Only a URL may contain one; after a URL, the
// marker's has a space before it.
size_t end_of_specifiers(std::string_view text, bool url) {
  if (!url) return text.find(';');
  const size_t end = text.find(" ;");
  return end == std::string_view::npos ? end : end + 1;
}

// Evaluates a marker while reading it. A malformed one is unknown.
class MarkerReader {
 public:
  MarkerReader(std::string_view text, const MarkerValues& values) : text_(text), values_(values) {}

  Truth whole() {
    const Truth value = disjunction(0);
    skip_space(text_);
    return malformed_ || !text_.empty() ? Truth::unknown : value;
  }

 private:
  struct Operand {
    std::string name, value;  // a variable's name; "" for a quoted text
    bool known = true;
  };

  bool take(std::string_view word) {
    skip_space(text_);
    if (!text_.starts_with(word)) return false;
    const std::string_view rest = text_.substr(word.size());
    if (is_name_char(word.back()) && !rest.empty() && is_name_char(rest[0])) return false;
    text_ = rest;
    return true;
  }

  Truth disjunction(int depth) {
    Truth value = conjunction(depth);
    while (take("or")) value = either(value, conjunction(depth));
    return value;
  }
  Truth conjunction(int depth) {
    Truth value = atom(depth);
    while (take("and")) value = both(value, atom(depth));
    return value;
  }
  Truth atom(int depth) {
    if (depth > 32) malformed_ = true;  // only an attack nests so deep
    if (malformed_) return Truth::unknown;
    if (take("(")) {
      const Truth value = disjunction(depth + 1);
      if (!take(")")) malformed_ = true;
      return value;
    }
    const Operand left = operand();
    const std::string op = comparison();
    const Operand right = operand();
    return malformed_ ? Truth::unknown : compare(left, op, right);
  }

  Operand operand() {
    skip_space(text_);
    Operand one;
    if (!text_.empty() && (text_[0] == '\'' || text_[0] == '"')) {
      const size_t end = text_.find(text_[0], 1);
      if (end == std::string_view::npos) {
        malformed_ = true;
        return one;
      }
      one.value = text_.substr(1, end - 1);
      text_.remove_prefix(end + 1);
      return one;
    }
    one.name = take_name(text_);
    if (one.name.empty()) malformed_ = true;
    std::replace(one.name.begin(), one.name.end(), '.', '_');  // os.name, the older form
    if (one.name == "python_implementation") one.name = "platform_python_implementation";
    const auto value = values_.find(one.name);
    one.known = value != values_.end();
    if (one.known) one.value = value->second;
    return one;
  }

  std::string comparison() {
    for (const char* op : {"===", "~=", "==", "!=", "<=", ">=", "<", ">", "in"})
      if (take(op)) return op;
    if (take("not") && take("in")) return "not in";
    malformed_ = true;
    return {};
  }

  static Truth compare(const Operand& left, const std::string& op, const Operand& right) {
    if (left.name.empty() == right.name.empty() || !left.known || !right.known) return Truth::unknown;
    const std::string& variable = left.name.empty() ? right.name : left.name;
    if (variable == "extra") {
      const bool same = normalized(left.value) == normalized(right.value);
      return op == "=="   ? (same ? Truth::yes : Truth::no)
             : op == "!=" ? (same ? Truth::no : Truth::yes)
                          : Truth::unknown;
    }
    constexpr std::array versions = {"python_version", "python_full_version", "implementation_version"};
    const bool version = std::find(versions.begin(), versions.end(), variable) != versions.end();
    if (op == "in" || op == "not in") {
      const bool there = right.value.find(left.value) != std::string::npos;
      return there == (op == "in") ? Truth::yes : Truth::no;
    }
    if (version) {
      if (!left.name.empty()) return satisfies(left.value, op + right.value);
      // "3.12" > python_version: the other way round.
      constexpr std::array<std::pair<std::string_view, std::string_view>, 6> turned = {
          {{"<", ">"}, {">", "<"}, {"<=", ">="}, {">=", "<="}, {"==", "=="}, {"!=", "!="}}};
      for (const auto& [from, to] : turned)
        if (op == from) return satisfies(right.value, std::string(to) + left.value);
      return Truth::unknown;
    }
    if (op == "==" || op == "===") return left.value == right.value ? Truth::yes : Truth::no;
    if (op == "!=") return left.value != right.value ? Truth::yes : Truth::no;
    return Truth::unknown;
  }

  std::string_view text_;
  const MarkerValues& values_;
  bool malformed_ = false;
};

}  // namespace

std::optional<Requirement> Requirement::parse(std::string_view text) {
  Requirement one;
  skip_space(text);
  const std::string_view name = take_name(text);
  const auto is_end = [](char c) { return is_name_char(c) && c != '.' && c != '-' && c != '_'; };
  if (name.empty() || !is_end(name.front()) || !is_end(name.back())) return std::nullopt;
  one.name = normalized(name);
  skip_space(text);
  if (text.starts_with("[")) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    for (const std::string& extra : split(text.substr(1, end - 1), ','))
      if (const std::string plain = trim(extra); !plain.empty()) one.extras.push_back(normalized(plain));
    text.remove_prefix(end + 1);
    skip_space(text);
  }
  one.url = text.starts_with("@");
  const size_t end = end_of_specifiers(text, one.url);
  if (end != std::string_view::npos) one.marker = trim(text.substr(end + 1));
  std::string specifiers = trim(text.substr(0, end));
  if (one.url) return one;
  if (specifiers.starts_with("(") && specifiers.ends_with(")"))
    specifiers = trim(std::string_view(specifiers).substr(1, specifiers.size() - 2));
  if (!specifiers.empty() && std::string_view("=!<>~").find(specifiers[0]) == std::string_view::npos)
    return std::nullopt;
  one.specifiers = specifiers;
  return one;
}

Truth holds(std::string_view marker, const MarkerValues& values) {
  return trim(marker).empty() ? Truth::yes : MarkerReader(marker, values).whole();
}

}  // namespace athanor::doctor
