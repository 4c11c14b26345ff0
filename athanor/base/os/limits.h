// Limits of the process, and messages when it reaches them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace athanor::os {

/// Bytes of address space that the process may take (ulimit -v); none: no limit.
std::optional<uint64_t> address_space_limit();

/// From now on threads share one heap: glibc reserves 64 MiB of addresses for each heap of its own, which
/// `ulimit -v` counts although nothing uses them.
void spare_addresses();

/// Writing more to a file than the process may (ulimit -f) is from now on an error of that write, and not a
/// signal that ends the process.
void make_file_size_an_error();

/// Should the process crash (SIGSEGV, SIGBUS, SIGABRT), `message` is written to standard error first. It
/// crashes all the same.
void say_when_crashing(const std::string& message);

}  // namespace athanor::os
