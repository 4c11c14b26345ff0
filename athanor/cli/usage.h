// Messages about a wrong command line.
#pragma once
#include <CLI/CLI.hpp>

#include "athanor/base/error.h"

namespace athanor::cli {

/// CLI11's complaint in the words of an Error(usage): the unknown option or command with the nearest that
/// there is.
Error usage_error(const CLI::App& program, const CLI::ParseError& error);

}  // namespace athanor::cli
