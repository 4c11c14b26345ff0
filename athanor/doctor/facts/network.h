// The ports in use, from /proc/net/tcp.
#pragma once
#include <cstdint>
#include <set>
#include <string_view>

namespace athanor::doctor {

/// The local ports in state LISTEN, from the text of /proc/net/tcp or tcp6.
std::set<uint16_t> listening_ports(std::string_view text);

}  // namespace athanor::doctor
