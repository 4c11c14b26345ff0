// Completion scripts and the manual page, as text.
#pragma once
#include <string>

#include "athanor/cli/command_line.h"

namespace athanor::cli {

std::string bash_completion(const CommandFacts& program);
std::string zsh_completion(const CommandFacts& program);
std::string fish_completion(const CommandFacts& program);
/// The manual page in roff, for section 1.
std::string manual_page(const CommandFacts& program);

}  // namespace athanor::cli
