// The chart of a sweep of learning rates.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "athanor/base/xml.h"
#include "athanor/train/lr_finder.h"
#include "athanor/train/ticks.h"

namespace athanor {
namespace {

constexpr double lr_width = 920, lr_height = 440, lr_left = 70, lr_right = lr_width - 40, lr_top = 100,
                 lr_bottom = 372;

constexpr std::string_view lr_style = R"(
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; fill: #5d6b7a }
  .title { font-size: 21px; font-weight: 600; fill: #1c2733 } .page { fill: #ffffff } .grid { stroke: #e7ebf0 } .axis { stroke: #c3ccd6 }
  .raw { fill: none; stroke: #2f6fde; stroke-width: 1; opacity: .3 } .mean { fill: none; stroke: #2f6fde; stroke-width: 2.4; stroke-linejoin: round }
  .mark { stroke: #e0681c; stroke-width: 1.6; stroke-dasharray: 5 4 } .dot { fill: #e0681c } .word { fill: #e0681c; font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    text { fill: #93a1b0 } .title { fill: #e8edf3 } .page { fill: #11161d } .grid { stroke: #222b36 } .axis { stroke: #3a4654 }
    .raw, .mean { stroke: #6ea3ff } .mark { stroke: #ff9a52 } .dot, .word { fill: #ff9a52 }
  }
)";

/// Learning rates by powers of ten across, losses upwards.
struct LrAxes {
  double first, last, low, high;
  double x(double lr) const {
    return lr_left + (lr_right - lr_left) * (std::log10(lr) - first) / std::max(1e-9, last - first);
  }
  double y(double loss) const {
    return lr_bottom - (lr_bottom - lr_top) * std::clamp((loss - low) / (high - low), -1.0, 2.0);
  }
};

std::string grid_of(const LrAxes& axes) {
  std::string svg;
  for (const double loss : nice_ticks(axes.low, axes.high, 6))
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text x=\"{}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{:.4g}</text>\n",
        lr_left, axes.y(loss), lr_right, lr_left - 10, axes.y(loss) + 4.5, loss);
  svg += fmt::format("<path class=\"axis\" d=\"M{} {}H{}\"/>\n", lr_left, lr_bottom, lr_right);
  for (double power = std::ceil(axes.first - 1e-9); power <= axes.last + 1e-9; ++power)
    svg += fmt::format(
        "<path class=\"axis\" d=\"M{0:.1f} {1}v5\"/><text x=\"{0:.1f}\" y=\"{2}\" "
        "text-anchor=\"middle\">{3:g}</text>\n",
        axes.x(std::pow(10, power)), lr_bottom, lr_bottom + 21, std::pow(10, power));
  return svg;
}

std::string legend_of(bool falls) {
  const double y = lr_top - 18.5;
  std::string svg = fmt::format(
      "<path class=\"raw\" d=\"M{0} {2}h22\"/><text x=\"{1}\" y=\"{3}\">every step</text>\n"
      "<path class=\"mean\" d=\"M{4} {2}h22\"/><text x=\"{5}\" y=\"{3}\">running mean</text>\n",
      lr_right - 370, lr_right - 340, y, y + 4.5, lr_right - 256, lr_right - 226);
  if (falls)
    svg += fmt::format(
        "<circle class=\"dot\" cx=\"{}\" cy=\"{}\" r=\"5.5\"/><text x=\"{}\" y=\"{}\">falls fastest</text>\n",
        lr_right - 108, y, lr_right - 94, y + 4.5);
  return svg;
}

}  // namespace

std::string draw_lr_sweep(const LrSweep& sweep, const std::string& title, const std::string& subtitle) {
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\">\n<title>{2}</title>\n<style>{3}</style>\n<rect class=\"page\" width=\"{0}\" "
      "height=\"{1}\" "
      "rx=\"10\"/>\n<text class=\"title\" x=\"{4}\" y=\"40\">{2}</text>\n<text x=\"{4}\" "
      "y=\"62\">{5}</text>\n",
      lr_width, lr_height, escape_xml(title), lr_style, lr_left, escape_xml(subtitle));
  if (sweep.points.empty()) return svg + "</svg>\n";
  LrAxes axes{std::log10(sweep.points.front().lr), std::log10(sweep.points.back().lr), 0, 1};
  const auto [least, most] = std::ranges::minmax(sweep.points, {}, &LrPoint::smooth);
  const double room = std::max(1e-9, std::min(most.smooth, 1.6 * sweep.points.front().smooth) - least.smooth);
  axes.low = std::max(0.0, least.smooth - 0.15 * room);
  axes.high = least.smooth + 1.1 * room;
  std::string raw, mean;
  for (const LrPoint& point : sweep.points) {
    const char* const move = raw.empty() ? "M" : "L";
    raw += fmt::format("{}{:.1f} {:.1f}", move, axes.x(point.lr), axes.y(point.loss));
    mean += fmt::format("{}{:.1f} {:.1f}", move, axes.x(point.lr), axes.y(point.smooth));
  }
  svg += grid_of(axes) +
         fmt::format(
             "<clipPath id=\"chart\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>\n<g "
             "clip-path=\"url(#chart)\"><path class=\"raw\" d=\"{}\"/>\n<path class=\"mean\" "
             "d=\"{}\"/></g>\n",
             lr_left, lr_top, lr_right - lr_left, lr_bottom - lr_top, raw, mean) +
         legend_of(sweep.steepest.has_value());
  if (sweep.steepest) {
    const auto at = std::ranges::find(sweep.points, *sweep.steepest, &LrPoint::lr);
    const double x = axes.x(*sweep.suggested);
    const bool right_half = x > (lr_left + lr_right) / 2;
    svg += fmt::format(
        "<circle class=\"dot\" cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"5.5\"><title>falls fastest at "
        "{2:.2g}</title></circle>\n<path class=\"mark\" d=\"M{4:.1f} {5}V{6}\"/><text class=\"word\" "
        "x=\"{7:.1f}\" "
        "y=\"{8}\" text-anchor=\"{9}\">suggested: {3:.2g}</text>\n",
        axes.x(*sweep.steepest), axes.y(at->smooth), *sweep.steepest, *sweep.suggested, x, lr_top, lr_bottom,
        right_half ? x - 10 : x + 10, lr_top + 12, right_half ? "end" : "start");
  }
  return svg + fmt::format(
                   "<text x=\"{}\" y=\"{}\">loss</text>\n<text x=\"{}\" y=\"{}\" "
                   "text-anchor=\"middle\">learning rate of "
                   "the step</text>\n</svg>\n",
                   lr_left, lr_top - 14, (lr_left + lr_right) / 2, lr_bottom + 46);
}

}  // namespace athanor
