// How the program ends after an uncaught exception or a crash.
#pragma once
#include <exception>

namespace athanor::cli {

/// Prints an exception's message to standard error; returns the program's exit code for it.
int complain(const std::exception& error);

/// From now on a message is printed when something ends the program: an exception in another thread, or a
/// library that crashes because the process may take no more memory. A file that grows too large does not end
/// the program: writing it fails with an error.
void prepare_last_words();

}  // namespace athanor::cli
