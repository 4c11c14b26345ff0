// Text of limited width, for tables that are too wide.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// The smallest width.
constexpr size_t least_columns = 40;

/// `text` in lines of at most `columns`: broken after blanks, plus signs, commas and slashes, and inside a
/// word only where that is longer than a line. At least one line.
std::vector<std::string> broken(std::string_view text, size_t columns);

/// Lines of at most `columns`, each indented; pieces stand three blanks apart and stay whole where they fit.
std::string flowed(const std::vector<std::string>& pieces, size_t columns, size_t indent);

/// Paragraphs of at most `columns`; a text's own line ends stay.
std::string wrapped_lines(std::string_view text, size_t columns);

}  // namespace athanor
