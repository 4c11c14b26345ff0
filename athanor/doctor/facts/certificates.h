// When the certificates that downloads are verified with expire.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace athanor::doctor {

/// notAfter of every certificate in a PEM file, in seconds since 1970. Skips what cannot be read.
std::vector<int64_t> certificate_ends(std::string_view pem);

}  // namespace athanor::doctor
