// Text within XML and SVG.
#pragma once
#include <string>
#include <string_view>

namespace athanor {

/// With &, <, > and " written so that they stand for themselves; control characters are left out.
std::string escape_xml(std::string_view text);

}  // namespace athanor
