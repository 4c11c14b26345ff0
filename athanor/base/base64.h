// Bytes as text (RFC 4648).
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace athanor {

/// The bytes in base64, with padding, on one line.
std::string to_base64(std::span<const std::byte> bytes);

}  // namespace athanor
