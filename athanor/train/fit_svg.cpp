// A chart of memory and time of steps by batch size.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>

#include "athanor/base/text.h"
#include "athanor/base/xml.h"
#include "athanor/train/fit.h"
#include "athanor/train/ticks.h"

namespace athanor {
namespace {

constexpr double fit_width = 920, fit_height = 640, fit_left = 92, fit_right = fit_width - 206;

constexpr std::string_view fit_style = R"(
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; fill: #5d6b7a }
  .title { font-size: 21px; font-weight: 600; fill: #1c2733 } .panel { font-size: 14px; font-weight: 600; fill: #1c2733 }
  .page { fill: #ffffff } .grid { stroke: #e7ebf0 } .axis { stroke: #c3ccd6 }
  .limit { stroke: #c03a2b; stroke-width: 1.6; stroke-dasharray: 6 4 } .limit-text { fill: #c03a2b }
  .line { fill: none; stroke-width: 2.4; stroke-linejoin: round } .s0 { stroke: #2f6fde } .s1 { stroke: #e0681c }
  .s2 { stroke: #1f9d74 } .s3 { stroke: #8a55d7 } .d0 { fill: #2f6fde } .d1 { fill: #e0681c } .d2 { fill: #1f9d74 } .d3 { fill: #8a55d7 }
  .s4 { stroke: #c23b6b } .s5 { stroke: #0f8ea8 } .d4 { fill: #c23b6b } .d5 { fill: #0f8ea8 }
  @media (prefers-color-scheme: dark) {
    text { fill: #93a1b0 } .title, .panel { fill: #e8edf3 } .page { fill: #11161d } .grid { stroke: #222b36 } .axis { stroke: #3a4654 }
    .limit { stroke: #ff7b6b } .limit-text { fill: #ff7b6b } .s0 { stroke: #6ea3ff } .s1 { stroke: #ff9a52 } .s2 { stroke: #4fd1a5 }
    .s3 { stroke: #b991ff } .d0 { fill: #6ea3ff } .d1 { fill: #ff9a52 } .d2 { fill: #4fd1a5 } .d3 { fill: #b991ff }
    .s4 { stroke: #ff86ad } .s5 { stroke: #52cbe3 } .d4 { fill: #ff86ad } .d5 { fill: #52cbe3 }
  }
)";

struct FitPanel {
  std::string title;
  double top = 0, bottom = 0, most = 0;
  std::function<double(const FitPoint&)> value;
  std::function<std::string(double)> label;
  double y(double v) const { return bottom - (bottom - top) * v / most; }
};

class FitDrawing {
 public:
  explicit FitDrawing(const FitChart& chart) : chart_(chart) {
    for (const auto& series : chart.series)
      for (const FitPoint& point : series.points) {
        low_ = std::min(low_, std::log2(static_cast<double>(point.of.batch_size)));
        high_ = std::max(high_, std::log2(static_cast<double>(point.of.batch_size)));
        most_bytes_ = std::max(most_bytes_, static_cast<double>(point.bytes));
        most_seconds_ = std::max(most_seconds_, point.seconds);
      }
    if (high_ <= low_) low_ -= 1, high_ += 1;
  }

  std::string run() {
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "role=\"img\"><style>{2}</style><rect class=\"page\" width=\"{0}\" height=\"{1}\"/>\n",
        fit_width, fit_height, fit_style);
    label(24, 38, "title", "start", chart_.title);
    label(24, 60, "", "start", chart_.subtitle);
    panel({.title = "Planned memory",
           .top = 104,
           .bottom = 330,
           .most = 1.08 * std::max(most_bytes_, static_cast<double>(chart_.limit)),
           .value = [](const FitPoint& p) { return static_cast<double>(p.bytes); },
           .label = [](double v) { return format_bytes(static_cast<uint64_t>(v)); }},
          true);
    panel({.title = chart_.knows_times ? "Predicted time of a step" : "Time of a step, in proportion",
           .top = 390,
           .bottom = 584,
           .most = 1.08 * most_seconds_,
           .value = [](const FitPoint& p) { return p.seconds; },
           .label =
               [known = chart_.knows_times](double v) {
                 return v == 0 ? std::string("0") : known ? format_duration(v) : std::string();
               }},
          false);
    label((fit_left + fit_right) / 2, 626, "", "middle", "batch size");
    return text_ + "</svg>\n";
  }

 private:
  double x(int64_t batch) const {
    return fit_left +
           (fit_right - fit_left) * (std::log2(static_cast<double>(batch)) - low_) / (high_ - low_);
  }

  void label(double at_x, double at_y, std::string_view style, std::string_view anchor,
             const std::string& what) {
    text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\">{}</text>\n", at_x,
                         at_y, style, anchor, escape_xml(what));
  }
  void rule(double x1, double y1, double x2, double y2, std::string_view style) {
    text_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1,
                         y1, x2, y2, style);
  }

  // Bytes have ticks at powers of two or halves of them, so that labels are round.
  static std::vector<double> ticks_of(const FitPanel& panel, bool bytes) {
    if (!bytes) return nice_ticks(0, panel.most, 5);
    double step = 1;
    while (panel.most / step > 5) step *= 2;
    std::vector<double> ticks;
    for (double tick = 0; tick <= panel.most; tick += step) ticks.push_back(tick);
    return ticks;
  }

  void panel(const FitPanel& panel, bool bytes) {
    label(fit_left, panel.top - 14, "panel", "start", panel.title);
    for (const double tick : ticks_of(panel, bytes)) {
      rule(fit_left, panel.y(tick), fit_right, panel.y(tick), "grid");
      label(fit_left - 8, panel.y(tick) + 4, "", "end", tick == 0 ? "0" : panel.label(tick));
    }
    for (auto power = static_cast<int>(std::ceil(low_)); power <= static_cast<int>(high_); ++power) {
      const int64_t batch = int64_t{1} << power;
      rule(x(batch), panel.bottom, x(batch), panel.bottom + 5, "axis");
      label(x(batch), panel.bottom + 20, "", "middle", std::to_string(batch));
    }
    rule(fit_left, panel.bottom, fit_right, panel.bottom, "axis");
    if (bytes && chart_.limit > 0) {
      const double at = panel.y(static_cast<double>(chart_.limit));
      rule(fit_left, at, fit_right, at, "limit");
      label(fit_right + 8, at + 4, "limit-text", "start",
            "limit " + format_bytes(static_cast<uint64_t>(chart_.limit)));
    }
    for (size_t s = 0; s < chart_.series.size(); ++s) {
      const auto& [name, points] = chart_.series[s];
      std::string line;
      for (const FitPoint& point : points)
        line += fmt::format("{:.1f},{:.1f} ", x(point.of.batch_size), panel.y(panel.value(point)));
      text_ += fmt::format("<polyline points=\"{}\" class=\"line s{}\"/>\n", line, s % 6);
      for (const FitPoint& point : points)
        text_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" class=\"d{}\"/>\n",
                             x(point.of.batch_size), panel.y(panel.value(point)), s % 6);
      if (bytes) {
        const double at = panel.bottom - 20.0 * static_cast<double>(chart_.series.size() - 1 - s);
        rule(fit_right + 10, at - 4, fit_right + 30, at - 4, fmt::format("line s{}", s % 6));
        label(fit_right + 36, at, "", "start", name);
      }
    }
  }

  const FitChart& chart_;
  std::string text_;
  double low_ = 64, high_ = -64, most_bytes_ = 1, most_seconds_ = 1e-9;
};

}  // namespace

std::string draw_fit(const FitChart& chart) { return FitDrawing(chart).run(); }

}  // namespace athanor
