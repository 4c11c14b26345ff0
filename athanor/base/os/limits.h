// Limits of the process, and messages when it reaches them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace athanor::os {

/// Bytes of address space that the process may take (ulimit -v); none: no limit.
std::optional<uint64_t> address_space_limit();

/// From now on all threads share one heap. glibc reserves 64 MiB of addresses for each further heap, and
/// `ulimit -v` counts them although nothing uses them.
void spare_addresses();

/// From now on, a write past the size limit of files (ulimit -f) fails with an error instead of ending the
/// process by a signal.
void make_file_size_an_error();

/// If the process crashes (SIGSEGV, SIGBUS, SIGABRT), `message` is written to standard error before it ends.
void say_when_crashing(const std::string& message);

}  // namespace athanor::os
