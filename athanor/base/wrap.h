// Text in lines of a terminal. Chinese characters are two columns wide, escape sequences for colours none.
#pragma once
#include <string>
#include <string_view>

namespace athanor {

/// Columns that a line of UTF-8 takes.
int text_columns(std::string_view text);

/// Lines of at most `columns` columns (at least 20), each with `indent` spaces before it but the first. A
/// line may break at spaces, and between any two Chinese characters.
std::string wrapped(std::string_view text, int columns, int indent);

}  // namespace athanor
