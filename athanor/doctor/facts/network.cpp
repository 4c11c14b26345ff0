#include "athanor/doctor/facts/network.h"

#include <charconv>
#include <string>

#include "athanor/base/text.h"

namespace athanor::doctor {

std::set<uint16_t> listening_ports(std::string_view text) {
  std::set<uint16_t> ports;
  for (const std::string& line : split(text, '\n')) {
    // "   0: 0100007F:733C 00000000:0000 0A ..."
    std::string_view rest = line;
    const auto word = [&] {
      while (!rest.empty() && rest[0] == ' ') rest.remove_prefix(1);
      const size_t end = std::min(rest.find(' '), rest.size());
      const std::string_view found = rest.substr(0, end);
      rest.remove_prefix(end);
      return found;
    };
    word();
    const std::string_view local = word();
    word();
    if (word() != "0A") continue;
    const size_t colon = local.rfind(':');
    uint16_t port = 0;
    if (colon != std::string_view::npos &&
        std::from_chars(local.data() + colon + 1, local.data() + local.size(), port, 16).ec == std::errc())
      ports.insert(port);
  }
  return ports;
}

}  // namespace athanor::doctor
