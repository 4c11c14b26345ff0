#include "athanor/base/xml.h"

namespace athanor {

std::string escape_xml(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20 || c == '\t')
      result += c;
  }
  return result;
}

}  // namespace athanor
