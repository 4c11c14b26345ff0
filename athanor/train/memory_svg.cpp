#include "athanor/train/memory_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "athanor/base/text.h"
#include "athanor/base/xml.h"
#include "athanor/train/ticks.h"

namespace athanor {
namespace {

using nlohmann::json;

constexpr double memory_width = 920, memory_height = 400;
constexpr double memory_axis = 92, memory_right = memory_width - 40, memory_top = 96, memory_bottom = 336;

constexpr std::string_view memory_style = R"(
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; fill: #5d6b7a }
  .title { font-size: 21px; font-weight: 600; fill: #1c2733 } .page { fill: #ffffff } .grid { stroke: #e7ebf0 }
  .axis { stroke: #c3ccd6 } .peak { stroke: #5d6b7a; stroke-dasharray: 5 4 } .peak-text { font-weight: 600; fill: #1c2733 }
  rect.long { fill: #e0681c } rect.short { fill: #2f6fde } .v { fill-opacity: .72; stroke: #ffffff; stroke-width: .5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #93a1b0 } .title { fill: #e8edf3 } .page { fill: #11161d } .grid { stroke: #222b36 } .axis { stroke: #3a4654 }
    .peak { stroke: #93a1b0 } .peak-text { fill: #e8edf3 }
    rect.long { fill: #ff9a52 } rect.short { fill: #6ea3ff } .v { stroke: #11161d }
  }
)";

struct LivingValue {
  double first, last, offset, bytes;
  std::string type;
};

/// The values in the arena of the plan's own device, and the scratch memory of kernels. A value that takes
/// over the memory of another extends its rectangle.
std::vector<LivingValue> values_in_arena(const json& plan) {
  std::vector<LivingValue> values;
  std::map<size_t, size_t> places;  // index of a plan's value -> its index in `values`
  size_t number = 0;
  for (const json& value : plan.at("values")) {
    const size_t index = number++;
    if (!value.contains("offset") || value.at("device") != plan.at("device")) continue;
    const auto before = places.find(value.value("in_place_of", index));
    if (before != places.end()) {
      LivingValue& shared = values[before->second];
      shared.last = std::max(shared.last, value.at("last_step").get<double>());
      places.emplace(index, before->second);
      continue;
    }
    places.emplace(index, values.size());
    values.push_back({value.at("first_step"), value.at("last_step"), value.at("offset"), value.at("bytes"),
                      value.at("type")});
  }
  double at = 0;
  for (const json& step : plan.at("steps")) {
    if (step.contains("scratch_offset") && step.at("device") == plan.at("device"))
      values.push_back({at, at, step.at("scratch_offset"), step.at("scratch_bytes"), "scratch memory"});
    ++at;
  }
  return values;
}

/// The most that temporaries and scratch memory need at one time.
uint64_t arena_of(const json& plan) {
  for (const json& arena : plan.at("arenas"))
    if (arena.at("device") == plan.at("device")) return arena.at("bytes");
  return 0;
}

std::string axes_of_memory(double steps, double most) {
  std::string svg;
  const double unit = std::exp2(10 * std::floor(std::log2(std::max(most, 1.0)) / 10));
  svg += fmt::format(
      "<path class=\"peak\" d=\"M{0} {1}H{2}\"/><text class=\"peak-text\" x=\"{3}\" y=\"{4}\" "
      "text-anchor=\"end\">{5}</text>\n",
      memory_axis, memory_top, memory_right, memory_axis - 10, memory_top + 4.5,
      format_bytes(static_cast<uint64_t>(most)));
  for (const double value : nice_ticks(0, most / unit, 5)) {
    const double y = memory_bottom - (memory_bottom - memory_top) * value * unit / most;
    if (y < memory_top + 16) continue;  // its label would touch the peak's
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text x=\"{}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{}</text>\n",
        memory_axis, y, memory_right, memory_axis - 10, y + 4.5,
        value == 0 ? "0" : format_bytes(static_cast<uint64_t>(value * unit)));
  }
  for (const double step : nice_ticks(0, steps, 8))
    if (step == std::floor(step))
      svg += fmt::format(
          "<path class=\"axis\" d=\"M{0:.1f} {1}v5\"/><text x=\"{0:.1f}\" y=\"{2}\" "
          "text-anchor=\"middle\">{3:.0f}</text>\n",
          memory_axis + (memory_right - memory_axis) * step / steps, memory_bottom, memory_bottom + 21, step);
  return svg +
         fmt::format("<path class=\"axis\" d=\"M{} {}H{}\"/>\n", memory_axis, memory_bottom, memory_right);
}

}  // namespace

std::string draw_memory(const json& plan) {
  const std::vector<LivingValue> values = values_in_arena(plan);
  const auto steps = std::max(1.0, static_cast<double>(plan.at("steps").size()));
  const auto planned = plan.at("planned_memory_bytes").get<uint64_t>(), arena = arena_of(plan);
  const auto most = std::max(1.0, static_cast<double>(arena));
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\">\n<title>Memory over a step</title>\n<style>{2}</style>\n"
      "<rect class=\"page\" width=\"{0}\" height=\"{1}\" rx=\"10\"/>\n"
      "<text class=\"title\" x=\"28\" y=\"40\">Memory over a step</text>\n"
      "<text x=\"28\" y=\"62\">{3} in all: at most {4} of temporaries at one time, shown here, and {5} of "
      "parameters, optimizer and batch</text>\n",
      memory_width, memory_height, memory_style, format_bytes(planned), format_bytes(arena),
      format_bytes(planned > arena ? planned - arena : 0));
  svg += axes_of_memory(steps, most);
  const double across = (memory_right - memory_axis) / steps, up = (memory_bottom - memory_top) / most;
  for (const LivingValue& value : values) {
    const double height = value.bytes * up;
    if (height < 0.02) continue;  // invisible, even beside many of its size
    svg += fmt::format(
        "<rect class=\"v {}\" x=\"{:.1f}\" y=\"{:.2f}\" width=\"{:.1f}\" height=\"{:.2f}\"><title>{}, {}: "
        "kernels "
        "{:.0f} to {:.0f}</title></rect>\n",
        value.last - value.first > steps / 5 ? "long" : "short", memory_axis + value.first * across,
        memory_bottom - (value.offset + value.bytes) * up, (value.last - value.first + 1) * across, height,
        escape_xml(value.type), format_bytes(static_cast<uint64_t>(value.bytes)), value.first, value.last);
  }
  return svg + fmt::format(
                   "<text x=\"{0}\" y=\"{1}\" text-anchor=\"middle\">kernel</text>\n"
                   "<rect class=\"v long\" x=\"{2}\" y=\"{3}\" width=\"14\" height=\"14\"/><text x=\"{4}\" "
                   "y=\"{1}\">lives long, as what the backward pass needs</text>\n"
                   "<rect class=\"v short\" x=\"{5}\" y=\"{3}\" width=\"14\" height=\"14\"/><text x=\"{6}\" "
                   "y=\"{1}\">lives short</text>\n</svg>\n",
                   memory_right - 30, memory_bottom + 46, memory_axis, memory_bottom + 34, memory_axis + 22,
                   memory_axis + 360, memory_axis + 382);
}

}  // namespace athanor
