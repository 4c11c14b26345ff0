#include "athanor/base/text_width.h"

namespace athanor {
namespace {

// The width of the character at the start of a text, as a fraction of the font's size; rounded up.
double character_width(std::string_view text, bool bold) {
  if (text.starts_with("·")) return 0.40;
  const char c = text[0];
  // These characters have the same width in both weights.
  const double narrower = bold || std::string_view("_`#+<=>^~@").find(c) != std::string_view::npos ? 1 : 0.94;
  struct Class {
    std::string_view characters;
    double width;
  };
  static constexpr Class classes[] = {{" 'ijl", 0.35},
                                      {",./:;IJ\\|", 0.40},
                                      {"-f!()[]_`rt", 0.50},
                                      {"\"*?csz", 0.60},
                                      {"Lx$0123456789EFTaekovy", 0.70},
                                      {"CPSYZbdghnpqu{}", 0.75},
                                      {"ABKRVX", 0.80},
                                      {"#+<=>DGHNOQU^~", 0.85},
                                      {"&w", 0.95},
                                      {"@M%m", 1.05}};
  for (const Class& one : classes)
    if (one.characters.find(c) != std::string_view::npos) return one.width * narrower;
  return c == 'W' ? 1.15 : 1.05;  // all characters that are not ASCII count as wide
}

bool goes_on(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The bytes of the whole characters that fit; at least one character, so that the caller's loop ends.
size_t fitting(std::string_view text, double width, const Font& font) {
  double used = 0;
  size_t end = 0;
  while (end < text.size()) {
    size_t next = end + 1;
    while (next < text.size() && goes_on(text[next])) ++next;
    used += character_width(text.substr(end), font.bold) * font.size;
    if (used > width && end > 0) break;
    end = next;
  }
  return end;
}

}  // namespace

double text_width(std::string_view text, const Font& font) {
  double width = 0;
  for (size_t at = 0; at < text.size(); ++at)
    if (!goes_on(text[at])) width += character_width(text.substr(at), font.bold) * font.size;
  return width;
}

std::vector<std::string> text_lines(const std::string& text, double width, const Font& font, size_t most) {
  std::vector<std::string> lines;
  std::string_view rest = text;
  while (!rest.empty()) {
    size_t end = fitting(rest, width, font);
    if (end < rest.size() && lines.size() + 1 == most) {
      std::string_view kept = rest.substr(0, fitting(rest, width - text_width("...", font), font));
      while (kept.ends_with(' ')) kept.remove_suffix(1);
      lines.push_back(std::string(kept) + "...");
      return lines;
    }
    if (end < rest.size())
      if (const size_t space = rest.substr(0, end + 1).rfind(' ');
          space != std::string_view::npos && space > 0)
        end = space;
    lines.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end);
    while (rest.starts_with(' ')) rest.remove_prefix(1);
  }
  return lines;
}

}  // namespace athanor
