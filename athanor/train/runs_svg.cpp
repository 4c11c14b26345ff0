#include "athanor/train/runs_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>

#include "athanor/base/text_width.h"
#include "athanor/base/xml.h"
#include "athanor/train/curve_line.h"
#include "athanor/train/ticks.h"

namespace athanor {
namespace {

constexpr double runs_width = 920, runs_left = 70, runs_right = runs_width - 40, panel_height = 230;
constexpr double row_height = 22;

// Colours for light and dark pages that can be told apart, even with red-green colour blindness.
constexpr std::array<std::array<std::string_view, 2>, 8> run_colors{{{"#2f6fde", "#6ea3ff"},
                                                                     {"#e0681c", "#ff9a52"},
                                                                     {"#1f9d74", "#4fd1a5"},
                                                                     {"#8a55d7", "#b991ff"},
                                                                     {"#c23b6b", "#ff86ad"},
                                                                     {"#0f8ea8", "#52cbe3"},
                                                                     {"#8f7a12", "#dcc558"},
                                                                     {"#5d6b7a", "#aab6c3"}}};

constexpr std::string_view runs_style = R"(
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; fill: #5d6b7a }
  .title { font-size: 21px; font-weight: 600; fill: #1c2733 } .panel, .run { font-weight: 600; fill: #1c2733 }
  .panel { font-size: 14px } .page { fill: #ffffff } .grid { stroke: #e7ebf0 } .axis { stroke: #c3ccd6 }
  .curve { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round }
  .tests { fill: none; stroke-width: 1.4; stroke-dasharray: 1 4; stroke-linecap: round } .dot { stroke-width: 1.5; stroke: #ffffff }
)";
constexpr std::string_view dark_runs_style = R"(
    text { fill: #93a1b0 } .title, .panel, .run { fill: #e8edf3 } .page { fill: #11161d } .grid { stroke: #222b36 }
    .axis { stroke: #3a4654 } .dot { stroke: #11161d }
)";

std::string style_of_runs() {
  std::string light, dark;
  for (size_t i = 0; i < run_colors.size(); ++i) {
    light += fmt::format("  .s{0} {{ stroke: {1} }} .d{0} {{ fill: {1} }}\n", i, run_colors[i][0]);
    dark += fmt::format("    .s{0} {{ stroke: {1} }} .d{0} {{ fill: {1} }}\n", i, run_colors[i][1]);
  }
  return fmt::format("{}{}  @media (prefers-color-scheme: dark) {{{}{}  }}\n", runs_style, light,
                     dark_runs_style, dark);
}

struct RunLines {
  CurveLine training, tests;
};

/// One quantity of all runs.
struct RunsPanel {
  std::string name;
  bool percent;
  double top, low, high, steps;
  std::vector<RunLines> runs;

  double x(double step) const { return runs_left + (runs_right - runs_left) * step / steps; }
  double y(double value) const {
    return top + panel_height * (1 - std::clamp((value - low) / (high - low), 0.0, 1.0));
  }
  std::string path(const CurveLine& line) const {
    std::string text;
    for (const CurvePoint& point : line)
      text += fmt::format("{}{:.1f} {:.1f}", text.empty() ? "M" : "L", x(point.step), y(point.value));
    return text;
  }
  std::string show(double value) const {
    return percent ? fmt::format("{:.2f} %", 100 * value) : fmt::format("{:.4f}", value);
  }
};

std::string axes_of(const RunsPanel& panel) {
  std::string svg = fmt::format("<text class=\"panel\" x=\"{}\" y=\"{}\">{}</text>\n", runs_left,
                                panel.top - 14, panel.name);
  for (const double value : nice_ticks(panel.low, panel.high, 5))
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text x=\"{}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{}</text>\n",
        runs_left, panel.y(value), runs_right, runs_left - 10, panel.y(value) + 4.5,
        panel.percent ? fmt::format("{:.4g} %", 100 * value) : fmt::format("{:.4g}", value));
  const double bottom = panel.top + panel_height;
  svg += fmt::format("<path class=\"axis\" d=\"M{} {}H{}\"/>\n", runs_left, bottom, runs_right);
  for (const double step : nice_ticks(0, panel.steps, 7))
    if (step == std::floor(step))
      svg += fmt::format(
          "<path class=\"axis\" d=\"M{0:.1f} {1}v5\"/><text x=\"{0:.1f}\" y=\"{2}\" "
          "text-anchor=\"middle\">{3}</text>\n",
          panel.x(step), bottom, bottom + 21, with_commas(step));
  return svg;
}

std::string lines_of(const RunsPanel& panel, const std::vector<RunCurve>& runs) {
  std::string svg;
  for (size_t i = 0; i < runs.size(); ++i) {
    const size_t color = i % run_colors.size();
    const CurveLine means = running_mean(panel.runs[i].training);
    svg += fmt::format("<g><title>{}</title>", escape_xml(runs[i].name));
    if (means.size() > 1)
      svg += fmt::format("<path class=\"curve s{}\" d=\"{}\"/>", color, panel.path(thinned(means)));
    if (panel.runs[i].tests.size() > 1)
      svg += fmt::format("<path class=\"tests s{}\" d=\"{}\"/>", color, panel.path(panel.runs[i].tests));
    svg += "</g>\n";
    for (const CurvePoint& test : panel.runs[i].tests)
      svg += fmt::format(
          "<circle class=\"dot d{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.5\"><title>{}, step {:.0f}: test "
          "{}</title></circle>\n",
          color, panel.x(test.step), panel.y(test.value), escape_xml(runs[i].name), test.step,
          panel.show(test.value));
  }
  return svg;
}

using OfStep = std::function<double(const StepMetrics&)>;
using OfEpoch = std::function<double(const EpochMetrics&)>;
using OfTest = std::function<double(const TestPoint&)>;

/// `quality`: the values are at most 1, the best; otherwise at least 0.
RunsPanel panel_of(const std::vector<RunCurve>& runs, const std::string& name, bool quality, bool percent,
                   double top, const OfStep& of_step, const OfEpoch& of_epoch, const OfTest& of_test) {
  RunsPanel panel{.name = name, .percent = percent, .top = top, .low = 0, .high = 1, .steps = 1, .runs = {}};
  double low = 1, high = 0;
  for (const RunCurve& run : runs) {
    RunLines lines;
    for (const auto& step : run.steps)
      lines.training.push_back({static_cast<double>(step.step), of_step(step)});
    for (const auto& epoch : run.epochs)
      lines.tests.push_back({static_cast<double>(epoch.step), of_epoch(epoch)});
    if (const auto& test = run.last_test)
      lines.tests.push_back({static_cast<double>(test->step), of_test(*test)});
    for (const CurvePoint& point : lines.training) panel.steps = std::max(panel.steps, point.step);
    for (const CurveLine& line : {running_mean(lines.training), lines.tests}) {
      if (line.empty()) continue;
      low = std::min(low, quantile(line, 0.02));
      high = std::max(high, quantile(line, 0.99));
    }
    panel.runs.push_back(std::move(lines));
  }
  if (quality)
    panel.low = std::clamp(std::floor(low * 10) / 10, percent ? 0.0 : -1.0, 0.9);
  else
    panel.high = std::max(high * 1.04, 1e-9);
  return panel;
}

bool is_share(const std::vector<RunCurve>& runs) {
  return std::ranges::all_of(
      runs, [](const RunCurve& run) { return run.steps.empty() || run.steps.front().quality == "accuracy"; });
}

/// R² if all runs are of regression; both names if runs of both kinds are among them.
std::string quality_title(const std::vector<RunCurve>& runs) {
  if (is_share(runs)) return "Accuracy";
  const bool all = std::ranges::all_of(
      runs, [](const RunCurve& run) { return run.steps.empty() || run.steps.front().quality == "r2"; });
  return all ? "R\u00b2" : "Accuracy, or R\u00b2";
}

}  // namespace

std::string draw_runs(const std::string& title, const std::vector<RunCurve>& runs) {
  const double legend = 70, first = legend + row_height * static_cast<double>(runs.size()) + 52;
  const double second = first + panel_height + 74, height = second + panel_height + 58;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\">\n<title>{2}</title>\n<style>{3}</style>\n"
      "<rect width=\"{0}\" height=\"{1}\" rx=\"10\" class=\"page\"/>\n"
      "<text class=\"title\" x=\"{4}\" y=\"40\">{2}</text>\n",
      runs_width, height, escape_xml(title), style_of_runs(), runs_left);
  double notes_at = 0;
  for (const RunCurve& run : runs)
    notes_at = std::max(notes_at, text_width(text_lines(run.name, 420, {13, true}, 1).front(), {13, true}));
  for (size_t i = 0; i < runs.size(); ++i) {
    const double y = legend + row_height * static_cast<double>(i);
    svg += fmt::format(
        "<path class=\"curve s{0}\" d=\"M{1} {2}h26\"/><circle class=\"dot d{0}\" cx=\"{3}\" cy=\"{2}\" "
        "r=\"4.5\"/><text class=\"run\" x=\"{4}\" y=\"{5}\">{6}</text><text x=\"{7:.1f}\" "
        "y=\"{5}\">{8}</text>\n",
        i % run_colors.size(), runs_left, y, runs_left + 13, runs_left + 38, y + 4.5,
        escape_xml(text_lines(runs[i].name, 420, {13, true}, 1).front()), runs_left + 38 + notes_at + 24,
        escape_xml(runs[i].note));
  }
  const RunsPanel loss = panel_of(
      runs, "Loss", false, false, first, [](const StepMetrics& step) { return step.loss; },
      [](const EpochMetrics& epoch) { return epoch.test_loss; },
      [](const TestPoint& test) { return test.loss; });
  const RunsPanel accuracy = panel_of(
      runs, quality_title(runs), true, is_share(runs), second,
      [](const StepMetrics& step) { return step.accuracy; },
      [](const EpochMetrics& epoch) { return epoch.test_accuracy; },
      [](const TestPoint& test) { return test.accuracy; });
  for (const RunsPanel* panel : {&loss, &accuracy}) svg += axes_of(*panel) + lines_of(*panel, runs);
  svg += fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>\n"
      "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">lines: training, running mean; points: "
      "tests</text>\n</svg>\n",
      (runs_left + runs_right) / 2, second + panel_height + 42, runs_right, first - 14);
  return svg;
}

}  // namespace athanor
