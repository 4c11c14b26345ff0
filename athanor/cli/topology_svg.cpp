#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "athanor/base/xml.h"
#include "athanor/cli/topology_text.h"

namespace athanor::cli {
namespace {

constexpr double margin = 24, title_height = 56, node_width = 500, node_head = 64, gap = 20;
constexpr double box_width = 226, box_height = 74, box_gap = 16, band_height = 46;

// Colours twice, and not by names: viewers that are no browsers do not know CSS variables, and draw black.
constexpr std::string_view style = R"(
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; fill: #5d6b7a }
  .title { font-size: 21px; font-weight: 600 } .head { font-size: 15px; font-weight: 600 } .name { font-weight: 600 }
  .title, .head, .name { fill: #1c2733 }
  .page { fill: #ffffff } .panel { fill: #f4f6f9; stroke: #c3ccd6 } .box { fill: #ffffff; stroke: #c3ccd6 }
  .wire { fill: none; stroke: #2f6fde; stroke-width: 2 } .link { fill: #2f6fde } .band { fill: #fff3ea; stroke: #e0681c }
  @media (prefers-color-scheme: dark) {
    text { fill: #93a1b0 } .title, .head, .name { fill: #e8edf3 }
    .page { fill: #11161d } .panel { fill: #19212b; stroke: #3a4654 } .box { fill: #222b36; stroke: #3a4654 }
    .wire { stroke: #6ea3ff } .link { fill: #6ea3ff } .band { fill: #2c2119; stroke: #ff9a52 }
  }
)";
// As much as fits into a box.
std::string shortened(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not within a character
  return text.substr(0, end) + "...";
}

struct Panel {
  std::string title, text;
  std::vector<const DevicePlace*> places;
};

std::vector<Panel> panels_of(const Topology& topology) {
  std::vector<Panel> panels;
  for (const MemoryNode& node : topology.nodes) {
    Panel panel{fmt::format("Memory node {}", node.index), describe(node, " · "), {}};
    for (const DevicePlace& place : topology.places)
      if (place.node == node.index) panel.places.push_back(&place);
    panels.push_back(std::move(panel));
  }
  Panel elsewhere{"Near no memory node that the system knows", "", {}};
  for (const DevicePlace& place : topology.places)
    if (std::none_of(topology.nodes.begin(), topology.nodes.end(),
                     [&](const MemoryNode& node) { return node.index == place.node; }))
      elsewhere.places.push_back(&place);
  if (!elsewhere.places.empty()) panels.push_back(std::move(elsewhere));
  return panels;
}

double height_of(const Panel& panel) {
  const size_t pairs = (panel.places.size() + 1) / 2;
  const auto rows = static_cast<double>(pairs);
  return node_head + rows * (box_height + box_gap) + (rows > 0 ? 8 : 0);
}

void add_text(std::string& svg, double x, double y, std::string_view kind, const std::string& text) {
  svg += fmt::format("<text x=\"{}\" y=\"{}\" class=\"{}\">{}</text>\n", x, y, kind, escape_xml(text));
}

void add_panel(std::string& svg, const Panel& panel, const Detection& detection, double x, double y) {
  svg += fmt::format("<rect class=\"panel\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"10\"/>\n", x, y,
                     node_width, height_of(panel));
  add_text(svg, x + 18, y + 26, "head", panel.title);
  add_text(svg, x + 18, y + 46, "", shortened(panel.text, 76));
  for (size_t i = 0; i < panel.places.size(); ++i) {
    const DevicePlace& place = *panel.places[i];
    const size_t line = i / 2;
    const auto row = static_cast<double>(line), column = static_cast<double>(i % 2);
    const double left = x + 20 + column * (box_width + 14),
                 top = y + node_head + row * (box_height + box_gap);
    // A wire from the node, down the left of the column.
    svg += fmt::format("<path class=\"wire\" d=\"M{} {} V{} H{}\"/>\n", left - 8, y + node_head - 10,
                       top + box_height / 2, left);
    svg += fmt::format("<rect class=\"box\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"7\"/>\n", left,
                       top, box_width, box_height);
    add_text(svg, left + 12, top + 22, "name",
             shortened(fmt::format("[{}] {}", place.device, detection.devices[place.device].name), 30));
    add_text(
        svg, left + 12, top + 42, "",
        place.address + (place.bridges.empty() ? ""
                                               : fmt::format(", behind {} bridge{}", place.bridges.size(),
                                                             place.bridges.size() == 1 ? "" : "s")));
    if (!place.link.empty()) add_text(svg, left + 12, top + 61, "link", "PCIe " + place.link);
  }
}

}  // namespace

std::string topology_svg(const Topology& topology, const Detection& detection) {
  const std::vector<Panel> panels = panels_of(topology);
  const std::vector<LinkGroup> groups = groups_of(topology);
  const size_t columns = panels.size() > 1 ? 2 : 1;
  const double width =
      2 * margin + static_cast<double>(columns) * node_width + static_cast<double>(columns - 1) * gap;
  std::string body;
  double y = title_height + margin / 2;
  for (size_t i = 0; i < panels.size(); i += columns) {
    double tallest = 0;
    for (size_t c = 0; c < columns && i + c < panels.size(); ++c) {
      add_panel(body, panels[i + c], detection, margin + static_cast<double>(c) * (node_width + gap), y);
      tallest = std::max(tallest, height_of(panels[i + c]));
    }
    y += tallest + gap;
  }
  for (const LinkGroup& group : groups) {
    body += fmt::format("<rect class=\"band\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"10\"/>\n",
                        margin, y, width - 2 * margin, band_height);
    add_text(body, margin + 18, y + 28, "name",
             fmt::format("[{}]  {}", fmt::join(group.devices, "] ["), describe(group)));
    y += band_height + gap;
  }
  std::string name = "This machine";
  for (const FoundDevice& device : detection.devices)
    if (device.kind == "cpu") name = device.name;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\">\n<style>{2}</style>\n"
      "<rect width=\"100%\" height=\"100%\" class=\"page\"/>\n",
      width, y + margin - gap, style);
  add_text(svg, margin, 38, "title", name);
  return svg + body + "</svg>\n";
}

}  // namespace athanor::cli
