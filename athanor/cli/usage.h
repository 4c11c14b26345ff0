// What is said about a command line that makes no sense.
#pragma once
#include <CLI/CLI.hpp>
#include <initializer_list>

#include "athanor/base/error.h"

namespace athanor::cli {

/// CLI11's complaint in the words of an Error(usage): the unknown option or command with the nearest that
/// there is, the value that is not a number.
Error usage_error(const CLI::App& program, const CLI::ParseError& error);

/// Throws Error(usage) when one of these options, in which 0 stands for "not given", was given as 0.
void refuse_zero(const CLI::App& command, std::initializer_list<const char*> options);

}  // namespace athanor::cli
