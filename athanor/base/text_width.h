// The width of text in drawings whose viewer chooses the font.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

struct Font {
  double size = 13;  // pixels
  bool bold = false;
};

/// The most pixels that a line of UTF-8 takes, in the widest usual font without serifs (DejaVu Sans).
double text_width(std::string_view text, const Font& font);

/// A text in lines of at most `width` pixels, broken between words; a word that is longer than a line is
/// broken anywhere. Text that does not fit into `most` lines is cut off and replaced by "...".
std::vector<std::string> text_lines(const std::string& text, double width, const Font& font, size_t most);

}  // namespace athanor
