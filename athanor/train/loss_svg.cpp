#include "athanor/train/loss_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "athanor/base/xml.h"
#include "athanor/train/curve_line.h"
#include "athanor/train/ticks.h"

namespace athanor {
namespace {

constexpr double width = 920, height = 660;
constexpr double left = 70, right = width - 84;

// One blue and one orange that keep their contrast on white and on near-black.
constexpr std::string_view style = R"(
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; fill: #5d6b7a }
  .title { font-size: 21px; font-weight: 600; fill: #1c2733 }
  .panel { font-size: 14px; font-weight: 600; fill: #1c2733 }
  .now { font-weight: 600 } .now.train, .key { fill: #2f6fde } .now.test { fill: #e0681c } .page { fill: #ffffff }
  .grid { stroke: #e7ebf0; stroke-width: 1 } .axis { stroke: #c3ccd6; stroke-width: 1 }
  .epoch { stroke: #c3ccd6; stroke-width: 1; stroke-dasharray: 2 4 }
  .raw { fill: none; stroke: #2f6fde; stroke-width: 1; opacity: .26 }
  .mean { fill: none; stroke: #2f6fde; stroke-width: 2.4; stroke-linejoin: round; stroke-linecap: round }
  .line { fill: none; stroke: #e0681c; stroke-width: 1.6; stroke-dasharray: 1 4; stroke-linecap: round }
  .step { fill: none; stroke: #2f6fde; stroke-width: 2.4 } .dot { fill: #e0681c; stroke: #ffffff; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    text { fill: #93a1b0 } .title, .panel { fill: #e8edf3 } .page { fill: #11161d } .grid { stroke: #222b36 }
    .axis, .epoch { stroke: #3a4654 } .raw, .mean { stroke: #6ea3ff } .line { stroke: #ff9a52 }
    .step { stroke: #6ea3ff } .dot { fill: #ff9a52; stroke: #11161d } .now.train, .key { fill: #6ea3ff } .now.test { fill: #ff9a52 }
  }
)";

struct Test {
  CurvePoint point;
  std::string when;  // "epoch 3"
};

/// A pair of axes with the curves of one quantity.
struct Panel {
  std::string name, id;
  double top, bottom;  // pixels
  double low, high;    // values
  bool percent;
  double steps_in_all;
  CurveLine raw;
  std::vector<Test> tests;

  double x(double step) const { return left + (right - left) * step / steps_in_all; }
  double y(double value) const { return bottom - (bottom - top) * (value - low) / (high - low); }

  std::string show(double value) const {
    if (percent) return fmt::format("{:.1f} %", 100 * value);
    return std::abs(value) < 1e4 ? fmt::format("{:.3f}", value) : fmt::format("{:.3g}", value);
  }
  std::string tick(double value) const {
    return percent ? fmt::format("{:.4g} %", 100 * value) : fmt::format("{:.4g}", value);
  }

  std::string path(const CurveLine& line) const {
    // Values far outside are cut off: viewers fail on the coordinates of a diverged run.
    const double most = high - low;
    std::string text;
    for (const CurvePoint& point : line)
      text += fmt::format("{}{:.1f} {:.1f}", text.empty() ? "M" : "L", x(point.step),
                          y(std::clamp(point.value, low - most, high + most)));
    return text;
  }
};

std::string draw_axes(const Panel& panel, const std::vector<EpochMetrics>& epochs, bool steps_named) {
  std::string svg;
  for (const double value : nice_ticks(panel.low, panel.high, 5))
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{0} {2:.1f}H{1}\"/><text x=\"{3}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5}</text>\n",
        left, right, panel.y(value), left - 10, panel.y(value) + 4.5, panel.tick(value));
  for (const auto& epoch : epochs)
    if (epochs.size() <= 40)
      svg += fmt::format("<path class=\"epoch\" d=\"M{:.1f} {}V{}\"/>\n",
                         panel.x(static_cast<double>(epoch.step)), panel.top, panel.bottom);
  svg += fmt::format("<path class=\"axis\" d=\"M{} {}H{}\"/>\n", left, panel.bottom, right);
  svg += fmt::format("<text class=\"panel\" x=\"{}\" y=\"{}\">{}</text>\n", left, panel.top - 14, panel.name);
  if (!steps_named) return svg;
  for (const double step : nice_ticks(0, panel.steps_in_all, 7))
    if (step == std::floor(step))
      svg += fmt::format(
          "<path class=\"axis\" d=\"M{0:.1f} {1}v5\"/><text x=\"{0:.1f}\" y=\"{2}\" "
          "text-anchor=\"middle\">{3}</text>\n",
          panel.x(step), panel.bottom, panel.bottom + 21, with_commas(step));
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>\n", (left + right) / 2,
                     panel.bottom + 42);
  return svg;
}

std::string draw_curves_of(const Panel& panel) {
  const CurveLine means = running_mean(panel.raw);
  std::string svg = fmt::format(
      "<clipPath id=\"{0}\"><rect x=\"{1}\" y=\"{2}\" width=\"{3}\" height=\"{4}\"/></clipPath>\n", panel.id,
      left - 2, panel.top - 3, right - left + 4, panel.bottom - panel.top + 6);
  svg += fmt::format("<g clip-path=\"url(#{})\">\n", panel.id);
  if (panel.raw.size() > 1)
    svg += fmt::format("<path class=\"raw\" d=\"{}\"/>\n", panel.path(thinned(panel.raw)));
  if (means.size() > 1) svg += fmt::format("<path class=\"mean\" d=\"{}\"/>\n", panel.path(thinned(means)));
  if (panel.tests.size() > 1) {
    CurveLine line;
    for (const Test& test : panel.tests) line.push_back(test.point);
    svg += fmt::format("<path class=\"line\" d=\"{}\"/>\n", panel.path(line));
  }
  svg += "</g>\n";
  if (means.size() == 1) {  // one point makes no line: a ring, because the test's point is there too
    const CurvePoint& only = means.front();
    svg += fmt::format(
        "<circle class=\"step\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"9\"><title>step {:.0f}: {} "
        "{}</title></circle>\n",
        panel.x(only.step), panel.y(only.value), only.step, panel.id, panel.show(only.value));
  }
  for (const auto& [point, when] : panel.tests) {
    if (point.value < panel.low || point.value > panel.high) continue;
    svg += fmt::format(
        "<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5.5\"><title>{}: test {} "
        "{}</title></circle>\n",
        panel.x(point.step), panel.y(point.value), when, panel.id, panel.show(point.value));
  }
  // The last values are written beside the ends of their curves, moved apart if they would touch.
  const double shown = std::clamp(means.back().value, panel.low, panel.high);
  double train_y = panel.y(shown) + 4.5;
  if (!panel.tests.empty() && panel.tests.back().point.step >= 0.98 * means.back().step) {
    const CurvePoint last = panel.tests.back().point;
    double test_y = panel.y(std::clamp(last.value, panel.low, panel.high)) + 4.5;
    if (const double gap = test_y - train_y; std::abs(gap) < 17) {
      const double push = (17 - std::abs(gap)) / 2;
      train_y += gap > 0 ? -push : push;
      test_y += gap > 0 ? push : -push;
    }
    svg += fmt::format("<text class=\"now test\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                       panel.x(last.step) + 13, test_y, panel.show(last.value));
  }
  svg += fmt::format("<text class=\"now train\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                     panel.x(means.back().step) + 13, train_y, panel.show(means.back().value));
  return svg;
}

std::string draw_legend(const std::string& tested) {
  std::string svg;
  const double y = 104;
  double x = right + 4;
  const auto entry = [&](double room, const std::string& mark, const std::string& text) {
    x -= room;
    svg += fmt::format("<g transform=\"translate({} {})\">{}<text x=\"30\" y=\"4.5\">{}</text></g>\n", x, y,
                       mark, text);
  };
  if (!tested.empty())
    entry(118, "<path class=\"line\" d=\"M0 0H22\"/><circle class=\"dot\" cx=\"11\" cy=\"0\" r=\"5.5\"/>",
          "test " + tested);
  entry(132, "<path class=\"raw\" d=\"M0 2L4 -5L8 5L12 -3L16 4L22 -4\" style=\"opacity:.55\"/>",
        "every batch");
  entry(196, "<path class=\"mean\" d=\"M0 0H22\"/>", "training, running mean");
  return svg;
}

}  // namespace

std::string draw_curves(const Curves& curves) {
  CurveLine losses, accuracies;
  std::vector<Test> test_losses, test_accuracies;
  for (const auto& metrics : curves.steps) {
    if (!std::isfinite(metrics.loss)) continue;
    losses.push_back({static_cast<double>(metrics.step), metrics.loss});
    accuracies.push_back({static_cast<double>(metrics.step), metrics.accuracy});
  }
  for (const auto& epoch : curves.epochs) {
    const auto step = static_cast<double>(epoch.step);
    test_losses.push_back({{step, epoch.test_loss}, fmt::format("epoch {}", epoch.epoch)});
    test_accuracies.push_back({{step, epoch.test_accuracy}, fmt::format("epoch {}", epoch.epoch)});
  }
  if (const auto& test = curves.last_test) {
    const auto step = static_cast<double>(test->step);
    test_losses.push_back({{step, test->loss}, fmt::format("step {}", test->step)});
    test_accuracies.push_back({{step, test->accuracy}, fmt::format("step {}", test->step)});
  }
  const double steps =
      std::max<double>(1, static_cast<double>(std::max(curves.steps_in_all,
                                                       curves.steps.empty() ? 0 : curves.steps.back().step)));

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\">\n<title>{2}</title>\n"
      "<style>{3}</style>\n<rect width=\"{0}\" height=\"{1}\" rx=\"10\" class=\"page\"/>\n"
      "<text class=\"title\" x=\"{4}\" y=\"40\">{2}</text>\n<text x=\"{4}\" y=\"62\">{5}</text>\n",
      width, height, escape_xml(curves.title), style, left, escape_xml(curves.subtitle));
  if (losses.empty()) {
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">No steps yet</text>\n</svg>\n",
                       width / 2, height / 2);
    return svg;
  }

  // A few wild batches must not squeeze the rest: the axes hold nearly all values, and all of the means.
  double loss_top = std::max(quantile(losses, 0.995), losses.front().value);
  if (loss_top > 4 * quantile(losses, 0.95)) loss_top = quantile(losses, 0.95) * 1.6;
  for (const Test& test : test_losses)
    loss_top = std::max(loss_top, std::min(test.point.value, 2 * loss_top));
  double accuracy_low = quantile(accuracies, 0.04);
  for (const CurvePoint& mean : running_mean(accuracies)) accuracy_low = std::min(accuracy_low, mean.value);
  for (const Test& test : test_accuracies) accuracy_low = std::min(accuracy_low, test.point.value);
  const bool share = curves.quality.field == "accuracy";  // others may be below 0
  accuracy_low = std::clamp(std::floor(accuracy_low * 10 - 0.2) / 10, share ? 0.0 : -1.0, 0.9);

  const Panel loss{"Loss", "loss", 122,    346,        0, std::max(loss_top * 1.04, 1e-9),
                   false,  steps,  losses, test_losses};
  const Panel accuracy{curves.quality.title, curves.quality.field, 396, 600, accuracy_low, 1, share, steps,
                       accuracies,           test_accuracies};
  svg += draw_legend(test_losses.empty() ? "" : curves.tested);
  for (const Panel* panel : {&loss, &accuracy}) {
    svg += draw_axes(*panel, curves.epochs, panel == &accuracy);
    svg += draw_curves_of(*panel);
  }
  return svg + "</svg>\n";
}

}  // namespace athanor
