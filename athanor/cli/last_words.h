// How the program ends after an uncaught exception or a crash.
#pragma once
#include <exception>

namespace athanor::cli {

/// Prints an exception's message to standard error; gives the program's exit code for it.
int complain(const std::exception& error);

/// From now on what ends the program says so: exceptions in other threads, and, where the process may take
/// only so much memory, libraries that crash for want of it. Too large a file is an error of whoever writes
/// it.
void prepare_last_words();

}  // namespace athanor::cli
