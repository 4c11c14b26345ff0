// Expiry times of the certificates that verify downloads.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace athanor::doctor {

/// notAfter of every certificate in a PEM file, in seconds since 1970. Unreadable certificates are skipped.
std::vector<int64_t> certificate_ends(std::string_view pem);

}  // namespace athanor::doctor
