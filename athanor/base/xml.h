// Text in XML and SVG.
#pragma once
#include <string>
#include <string_view>

namespace athanor {

/// Escapes &, <, > and ", and leaves out control characters.
std::string escape_xml(std::string_view text);

}  // namespace athanor
