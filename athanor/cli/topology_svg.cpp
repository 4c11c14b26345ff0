#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "athanor/base/text_width.h"
#include "athanor/base/xml.h"
#include "athanor/cli/topology_text.h"

namespace athanor::cli {
namespace {

constexpr double margin = 24, title_height = 56, node_width = 500, node_head = 64, gap = 20;
constexpr double box_width = 226, box_head = 22, line_height = 19, box_gap = 16, band_head = 28;
constexpr Font plain_font{13, false}, bold_font{13, true}, title_font{21, true};

// Each colour twice, and not by name: viewers that are not browsers do not know CSS variables, and draw
// black.
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
struct TextLine {
  const char* kind;
  std::string text;
};

// The text in a device's box: a name of up to two lines, its address, its link.
std::vector<TextLine> lines_of(const DevicePlace& place, const Detection& detection) {
  std::vector<TextLine> lines;
  const auto add = [&](const char* kind, const std::string& text, size_t most) {
    const Font& font = kind == std::string_view("name") ? bold_font : plain_font;
    for (std::string& line : text_lines(text, box_width - 24, font, most))
      lines.push_back({kind, std::move(line)});
  };
  add("name", fmt::format("[{}] {}", place.device, detection.devices[place.device].name), 2);
  const size_t bridges = place.bridges.size();
  const std::string behind =
      bridges == 0 ? "" : fmt::format("behind {} bridge{}", bridges, bridges == 1 ? "" : "s");
  const std::string both = place.address + (behind.empty() ? "" : ", " + behind);
  if (text_width(both, plain_font) <= box_width - 24) {
    add("", both, 1);
  } else {
    add("", place.address, 1);
    add("", behind, 1);
  }
  if (!place.link.empty()) add("link", "PCIe " + place.link, 1);
  return lines;
}

struct Panel {
  std::string title, text;
  std::vector<const DevicePlace*> places;
  double box_height = 0;  // that of its fullest box
};

std::vector<Panel> panels_of(const Topology& topology, const Detection& detection) {
  std::vector<Panel> panels;
  for (const MemoryNode& node : topology.nodes) {
    Panel panel{fmt::format("Memory node {}", node.index), describe(node, " · "), {}, 0};
    for (const DevicePlace& place : topology.places)
      if (place.node == node.index) panel.places.push_back(&place);
    panels.push_back(std::move(panel));
  }
  Panel elsewhere{"Near no memory node that the system knows", "", {}, 0};
  for (const DevicePlace& place : topology.places)
    if (std::none_of(topology.nodes.begin(), topology.nodes.end(),
                     [&](const MemoryNode& node) { return node.index == place.node; }))
      elsewhere.places.push_back(&place);
  if (!elsewhere.places.empty()) panels.push_back(std::move(elsewhere));
  for (Panel& panel : panels)
    for (const DevicePlace* place : panel.places)
      panel.box_height =
          std::max(panel.box_height,
                   box_head + line_height * static_cast<double>(lines_of(*place, detection).size()) - 5);
  return panels;
}

double height_of(const Panel& panel) {
  const size_t pairs = (panel.places.size() + 1) / 2;
  const auto rows = static_cast<double>(pairs);
  return node_head + rows * (panel.box_height + box_gap) + (rows > 0 ? 8 : 0);
}

void add_text(std::string& svg, double x, double y, std::string_view kind, const std::string& text) {
  svg += fmt::format("<text x=\"{}\" y=\"{}\" class=\"{}\">{}</text>\n", x, y, kind, escape_xml(text));
}

void add_panel(std::string& svg, const Panel& panel, const Detection& detection, double x, double y) {
  svg += fmt::format("<rect class=\"panel\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"10\"/>\n", x, y,
                     node_width, height_of(panel));
  add_text(svg, x + 18, y + 26, "head", panel.title);
  for (const std::string& line : text_lines(panel.text, node_width - 36, plain_font, 1))
    add_text(svg, x + 18, y + 46, "", line);
  for (size_t i = 0; i < panel.places.size(); ++i) {
    const DevicePlace& place = *panel.places[i];
    const size_t above = i / 2;
    const auto row = static_cast<double>(above), column = static_cast<double>(i % 2);
    const double left = x + 20 + column * (box_width + 14),
                 top = y + node_head + row * (panel.box_height + box_gap);
    // A wire from the node, down the left of the column.
    svg += fmt::format("<path class=\"wire\" d=\"M{} {} V{} H{}\"/>\n", left - 8, y + node_head - 10,
                       top + panel.box_height / 2, left);
    svg += fmt::format("<rect class=\"box\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"7\"/>\n", left,
                       top, box_width, panel.box_height);
    double below = top + box_head;
    for (const TextLine& line : lines_of(place, detection)) {
      add_text(svg, left + 12, below, line.kind, line.text);
      below += line_height;
    }
  }
}

}  // namespace

std::string topology_svg(const Topology& topology, const Detection& detection) {
  const std::vector<Panel> panels = panels_of(topology, detection);
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
    const auto lines = text_lines(fmt::format("[{}]  {}", fmt::join(group.devices, "] ["), describe(group)),
                                  width - 2 * margin - 36, bold_font, 4);
    const double height = band_head + line_height * static_cast<double>(lines.size()) - 1;
    body += fmt::format("<rect class=\"band\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"10\"/>\n",
                        margin, y, width - 2 * margin, height);
    for (size_t i = 0; i < lines.size(); ++i)
      add_text(body, margin + 18, y + band_head + line_height * static_cast<double>(i), "name", lines[i]);
    y += height + gap;
  }
  std::string name = "This machine";
  for (const FoundDevice& device : detection.devices)
    if (device.kind == "cpu") name = device.name;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\">\n<style>{2}</style>\n"
      "<rect width=\"100%\" height=\"100%\" class=\"page\"/>\n",
      width, y + margin - gap, style);
  for (const std::string& line : text_lines(name, width - 2 * margin, title_font, 1))
    add_text(svg, margin, 38, "title", line);
  return svg + body + "</svg>\n";
}

}  // namespace athanor::cli
