// TOML files: configuration and data that people write.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace athanor {

/// The content of a TOML document as JSON (dates and times as text). Throws Error(format) with `where`, the
/// line, the column and how to fix it.
nlohmann::json parse_toml(std::string_view text, const std::string& where);

}  // namespace athanor
