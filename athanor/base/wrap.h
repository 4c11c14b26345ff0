// Text in lines of a terminal. Chinese characters take two columns; escape sequences for colours take none.
#pragma once
#include <string>
#include <string_view>

namespace athanor {

/// The number of columns that a line of UTF-8 takes.
int text_columns(std::string_view text);

/// `text` in lines of at most `columns` columns (at least 20). All lines but the first are indented by
/// `indent` spaces. A line may break at spaces, and between any two Chinese characters.
std::string wrapped(std::string_view text, int columns, int indent);

}  // namespace athanor
