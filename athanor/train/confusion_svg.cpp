#include "athanor/train/confusion_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "athanor/base/text_width.h"
#include "athanor/base/xml.h"

namespace athanor {
namespace {

constexpr int64_t most_numbered = 26;  // classes whose cells have counts
constexpr double longest_name = 150;   // pixels

// Right answers are blue and mistakes orange, as training and test are in the curves.
constexpr std::string_view confusion_style = R"(
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; fill: #5d6b7a }
  .title { font-size: 21px; font-weight: 600; fill: #1c2733 } .head { font-weight: 600; fill: #1c2733 }
  .page { fill: #ffffff } .none { fill: #f3f5f8 } .right { fill: #2f6fde } .wrong { fill: #e0681c }
  .n { text-anchor: middle; fill: #1c2733 } .n.on { fill: #ffffff } .name { fill: #1c2733 }
  @media (prefers-color-scheme: dark) {
    text { fill: #93a1b0 } .title, .head, .name { fill: #e8edf3 } .page { fill: #11161d } .none { fill: #1a212b }
    .right { fill: #4d86ea } .wrong { fill: #e8752a } .n { fill: #e8edf3 } .n.on { fill: #ffffff }
  }
)";

/// Positions and sizes, in pixels.
struct ConfusionGrid {
  double cell, names, top, left, side, width, height;
};

ConfusionGrid grid_of(int64_t classes, const std::vector<std::string>& shown) {
  ConfusionGrid at{};
  const auto count = static_cast<double>(classes);
  at.cell = std::clamp(560 / count, 4.0, 56.0);
  double longest = 0;
  for (const std::string& name : shown) longest = std::max(longest, text_width(name, {}));
  at.names = at.cell >= 11 ? longest + 12 : 12;
  at.left = 48 + at.names;
  at.top = 104 + at.names * 0.75;
  at.side = count * at.cell;
  at.width = std::max(at.left + at.side + 190, 560.0);
  at.height = at.top + at.side + 56;
  return at;
}

/// Small shares must be seen too: the square root spreads them.
double opacity_of(double share) { return std::clamp(0.10 + 0.90 * std::sqrt(share), 0.0, 1.0); }

std::string cells(const ClassCounts& counts, const std::vector<std::string>& names, const ConfusionGrid& at) {
  std::string svg =
      fmt::format("<rect class=\"none\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
                  at.left, at.top, at.side, at.side);
  const bool numbered = counts.classes() <= most_numbered;
  const double gap = at.cell > 12 ? 1.5 : 0;
  for (const auto& [pair, count] : counts.pairs()) {
    const auto [right, answer] = pair;
    const double share = static_cast<double>(count) / static_cast<double>(counts.examples_of(right));
    const double x = at.left + at.cell * static_cast<double>(answer);
    const double y = at.top + at.cell * static_cast<double>(right);
    svg += fmt::format(
        "<g><title>{} of {} examples of {}: {}</title><rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" "
        "width=\"{:.1f}\" height=\"{:.1f}\" fill-opacity=\"{:.2f}\"/>",
        grouped(count), grouped(counts.examples_of(right)), escape_xml(class_name(names, right)),
        right == answer ? "right" : "taken for " + escape_xml(class_name(names, answer)),
        right == answer ? "right" : "wrong", x + gap / 2, y + gap / 2, at.cell - gap, at.cell - gap,
        opacity_of(share));
    if (numbered)
      svg +=
          fmt::format("<text class=\"n{}\" x=\"{:.1f}\" y=\"{:.1f}\" style=\"font-size:{:.1f}px\">{}</text>",
                      opacity_of(share) > 0.62 ? " on" : "", x + at.cell / 2, y + at.cell / 2 + 4.5,
                      std::clamp(at.cell / 3.2, 7.0, 13.0), count);
    svg += "</g>\n";
  }
  return svg;
}

std::string names_of_classes(const std::vector<std::string>& shown, const ConfusionGrid& at) {
  std::string svg;
  if (at.cell < 11) return svg;
  const double size = std::clamp(at.cell * 0.8, 9.0, 13.0);
  for (size_t i = 0; i < shown.size(); ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * at.cell;
    svg += fmt::format(
        "<text class=\"name\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" "
        "style=\"font-size:{:.1f}px\">{}</text>\n"
        "<text class=\"name\" transform=\"translate({:.1f} {:.1f}) rotate(-45)\" "
        "style=\"font-size:{:.1f}px\">{}</text>\n",
        at.left - 8, at.top + middle + 4.5, size, escape_xml(shown[i]), at.left + middle + 3, at.top - 8,
        size, escape_xml(shown[i]));
  }
  return svg;
}

/// How often each class is found, beside its row.
std::string recalls(const ClassCounts& counts, const ConfusionGrid& at) {
  std::string svg = fmt::format(
      "<text class=\"head\" x=\"{:.1f}\" y=\"{:.1f}\">found</text>\n"
      "<text class=\"head\" x=\"{:.1f}\" y=\"{:.1f}\">F1</text>\n",
      at.left + at.side + 16, at.top - 10, at.left + at.side + 84, at.top - 10);
  if (at.cell < 11) return {};
  for (int64_t label = 0; label < counts.classes(); ++label) {
    if (counts.examples_of(label) == 0) continue;
    const double y = at.top + (static_cast<double>(label) + 0.5) * at.cell + 4.5;
    svg += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\">{:.1f} %</text><text x=\"{:.1f}\" y=\"{:.1f}\">{:.1f} %</text>\n",
        at.left + at.side + 16, y, 100 * counts.recall(label), at.left + at.side + 84, y,
        100 * counts.f1(label));
  }
  return svg;
}

}  // namespace

std::string draw_confusion(const ClassCounts& counts, const std::vector<std::string>& names,
                           const std::string& title, const std::string& subtitle) {
  std::vector<std::string> shown;
  for (int64_t label = 0; label < counts.classes(); ++label) {
    const auto lines = text_lines(class_name(names, label), longest_name, {}, 1);
    shown.push_back(lines.empty() ? "" : lines.front());  // a class may be called "" or " "
  }
  ConfusionGrid at = grid_of(counts.classes(), shown);
  at.width =
      std::max({at.width, 56 + text_width(title, {.size = 21, .bold = true}), 56 + text_width(subtitle, {})});
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" role=\"img\">\n<title>{2}</title>\n<style>{3}</style>\n"
      "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" rx=\"10\" class=\"page\"/>\n"
      "<text class=\"title\" x=\"28\" y=\"40\">{2}</text>\n<text x=\"28\" y=\"62\">{4}</text>\n",
      at.width, at.height, escape_xml(title), confusion_style, escape_xml(subtitle));
  svg += cells(counts, names, at) + names_of_classes(shown, at) + recalls(counts, at);
  svg += fmt::format(
      "<text class=\"head\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">what the model answers</text>\n"
      "<text class=\"head\" transform=\"translate(34 {:.1f}) rotate(-90)\" text-anchor=\"middle\">what it "
      "is</text>\n</svg>\n",
      at.left + at.side / 2, at.top + at.side + 30, at.top + at.side / 2);
  return svg;
}

}  // namespace athanor
