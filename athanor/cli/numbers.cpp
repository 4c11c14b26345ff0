#include "athanor/cli/numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "athanor/base/error.h"
#include "athanor/base/text.h"

namespace athanor::cli {
namespace {

constexpr double longest = 1e6;  // seconds

[[noreturn]] void refuse_number(std::string_view text, const char* what, const std::string& option,
                                const std::string& hint) {
  throw Error(ErrorCode::usage, fmt::format("'{}' {}", text, what), option, hint);
}

template <class T>
T parse_number(std::string_view text, const std::string& option, const char* kind, const std::string& hint) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, value);
  if (stop != end || failed == std::errc::invalid_argument) refuse_number(text, kind, option, hint);
  if (failed == std::errc::result_out_of_range) refuse_number(text, "does not fit", option, hint);
  return value;
}

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

template <class Parse>
CLI::Option* add(CLI::App& command, const std::string& name, const std::string& text, Parse parse) {
  const std::string option = split(name, ',').back();
  return command.add_option(
      name,
      [option, parse](const CLI::results_t& given) {
        parse(given, option);
        return true;
      },
      text);
}

}  // namespace

int64_t whole_number(std::string_view text, const std::string& option) {
  return parse_number<int64_t>(text, option, "is not a whole number", "Give a whole number, such as 2");
}

uint64_t natural_number(std::string_view text, const std::string& option) {
  const std::string hint = "Give a whole number from 0 to 18446744073709551615";
  if (text.starts_with('-')) refuse_number(text, "is negative", option, hint);
  return parse_number<uint64_t>(text, option, "is not a whole number", hint);
}

std::vector<int64_t> whole_numbers(std::string_view text, std::string_view separators,
                                   const std::string& option, const std::string& hint) {
  std::string separated(text);
  for (char& c : separated)
    if (separators.find(c) != std::string_view::npos) c = ',';
  std::vector<int64_t> values;
  for (const std::string& number : split(separated, ',')) {
    const auto value = parse_whole<int64_t>(number);
    if (!value) refuse_number(text, "is not a list of whole numbers", option, hint);
    values.push_back(*value);
  }
  return values;
}

double finite_number(std::string_view text, const std::string& option) {
  const auto value =
      parse_number<double>(text, option, "is not a number", "Give a number, such as 0.1 or 1e-3");
  if (!std::isfinite(value)) refuse_number(text, "is not a finite number", option, "Give a number");
  return value;
}

CLI::Option* add_number(CLI::App& command, const std::string& name, int64_t& value, const std::string& text) {
  return add(command, name, text, [&value](const CLI::results_t& given, const std::string& option) {
    value = whole_number(given.back(), option);
  });
}

CLI::Option* add_number(CLI::App& command, const std::string& name, uint64_t& value,
                        const std::string& text) {
  return add(command, name, text, [&value](const CLI::results_t& given, const std::string& option) {
    value = natural_number(given.back(), option);
  });
}

CLI::Option* add_number(CLI::App& command, const std::string& name, std::optional<double>& value,
                        const std::string& text) {
  return add(command, name, text, [&value](const CLI::results_t& given, const std::string& option) {
    value = finite_number(given.back(), option);
  });
}

CLI::Option* add_number(CLI::App& command, const std::string& name, double& value, const std::string& text) {
  return add(command, name, text, [&value](const CLI::results_t& given, const std::string& option) {
    value = finite_number(given.back(), option);
  });
}

CLI::Option* add_numbers(CLI::App& command, const std::string& name, std::vector<int64_t>& values,
                         const std::string& text) {
  return add(command, name, text, [&values](const CLI::results_t& given, const std::string& option) {
    values = whole_numbers(given.back(), ",", option, "Give them with commas between them");
  });
}

CLI::Option* add_bytes(CLI::App& command, const std::string& name, int64_t& value, const std::string& text) {
  return add(command, name, text,
             [&value](const CLI::results_t& given, const std::string& option) {
               const auto bytes = parse_bytes(given.back());
               if (!bytes || *bytes == 0)
                 refuse_number(given.back(), "is not a size", option, "Give one such as 2GiB or 800MiB");
               value = *bytes;
             })
      ->option_text("SIZE");
}

CLI::Option* add_seconds(CLI::App& command, const std::string& name, double& value, const std::string& text) {
  return add(command, name, text,
             [&value](const CLI::results_t& given, const std::string& option) {
               const std::string hint = fmt::format("Give seconds, above 0 and at most {:.0f}", longest);
               const double seconds = parse_number<double>(given.back(), option, "is not a number", hint);
               if (!(seconds > 0 && seconds <= longest))
                 refuse_number(given.back(), "is out of range", option, hint);
               value = seconds;
             })
      ->option_text("SECONDS");
}

void at_least_one(const CLI::App& command, std::initializer_list<const char*> options) {
  for (const char* name : options)
    if (const CLI::Option* option = command.get_option(name);
        option->count() > 0 && whole_number(option->results().back(), name) < 1)
      throw Error(ErrorCode::usage, fmt::format("{} is too small", option->results().back()), name,
                  "Give a whole number from 1 on, or leave it out");
}

}  // namespace athanor::cli
