// Text of limited width, for tables that are too wide.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// The smallest supported width.
constexpr size_t least_columns = 40;

/// `text` in lines of at most `columns`: broken after blanks, plus signs, commas and slashes. A word is
/// broken only if it is longer than a line. Returns at least one line.
std::vector<std::string> broken(std::string_view text, size_t columns);

/// Lines of at most `columns`, each indented. Pieces are three blanks apart, and are not broken if they fit.
std::string flowed(const std::vector<std::string>& pieces, size_t columns, size_t indent);

/// `text` in lines of at most `columns`. The line ends of `text` are kept.
std::string wrapped_lines(std::string_view text, size_t columns);

}  // namespace athanor
