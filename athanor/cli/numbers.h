// Options that take numbers. A number is decimal, finite and the whole text; anything else is an Error(usage)
// that names the option and says what was expected.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace athanor::cli {

/// Throw Error(usage) naming `option`.
int64_t whole_number(std::string_view text, const std::string& option);
uint64_t natural_number(std::string_view text, const std::string& option);
double finite_number(std::string_view text, const std::string& option);
/// Several numbers, with any of the separators between them.
std::vector<int64_t> whole_numbers(std::string_view text, std::string_view separators,
                                   const std::string& option, const std::string& hint);

CLI::Option* add_number(CLI::App& command, const std::string& name, int64_t& value, const std::string& text);
CLI::Option* add_number(CLI::App& command, const std::string& name, uint64_t& value, const std::string& text);
CLI::Option* add_number(CLI::App& command, const std::string& name, std::optional<double>& value,
                        const std::string& text);
CLI::Option* add_number(CLI::App& command, const std::string& name, double& value, const std::string& text);
/// Several numbers, separated by commas.
CLI::Option* add_numbers(CLI::App& command, const std::string& name, std::vector<int64_t>& values,
                         const std::string& text);
/// A size: "2GiB", "512MiB" (parse_bytes); above 0.
CLI::Option* add_bytes(CLI::App& command, const std::string& name, int64_t& value, const std::string& text);
/// A time, above 0 and at most eleven days.
CLI::Option* add_seconds(CLI::App& command, const std::string& name, double& value, const std::string& text);

/// Throws Error(usage) if one of these options was given less than 1: inside the program, 0 stands for their
/// default.
void at_least_one(const CLI::App& command, std::initializer_list<const char*> options);

}  // namespace athanor::cli
