// Messages about a wrong command line.
#pragma once
#include <CLI/CLI.hpp>

#include "athanor/base/error.h"

namespace athanor::cli {

/// CLI11's complaint as an Error(usage): it names the unknown option or command and the nearest known one.
Error usage_error(const CLI::App& program, const CLI::ParseError& error);

}  // namespace athanor::cli
