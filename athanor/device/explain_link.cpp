// PCIe links: the best that a card's link can reach, and notes about it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "athanor/device/explain.h"

namespace athanor {
namespace {

struct PcieLink {
  double speed = 0;  // GT/s
  int lanes = 0;
};

// The link of a text such as "16.0 GT/s x8", or "PCIe4 x8" in a data sheet; lanes are 0 for anything else.
PcieLink parsed(const Reading& reading) {
  const std::string* text = std::get_if<std::string>(&reading.value);
  PcieLink link;
  int generation = 0;
  constexpr double speeds[] = {0, 2.5, 5, 8, 16, 32, 64};
  if (text == nullptr) return {};
  if (std::sscanf(text->c_str(), "%lf GT/s x%d", &link.speed, &link.lanes) == 2) return link;
  if (std::sscanf(text->c_str(), "PCIe%d x%d", &generation, &link.lanes) == 2 && generation > 0 &&
      generation < static_cast<int>(std::size(speeds)))
    return {speeds[generation], link.lanes};
  return {};
}

// Whether the machine's files report the link, not only the data sheet.
bool is_seen(const Reading& reading) {
  const std::string* text = std::get_if<std::string>(&reading.value);
  return text != nullptr && text->find("GT/s") != std::string::npos && parsed(reading).lanes > 0;
}

// A link is limited by both of its ends. PCI's files may describe a bridge inside the card, which has more
// lanes than the card (RX 6600). The port of a virtual machine may report less than the link in use.
void limit_best(Fact& best, const PcieLink& now) {
  if (!is_seen(best.in_use)) return;
  PcieLink least = parsed(best.in_use);
  std::string source = best.in_use.source;
  for (const Reading& other : best.others) {
    const PcieLink link = parsed(other);
    const bool untrue = other.meaning == slot_link && (link.lanes < now.lanes || link.speed < now.speed);
    if (link.lanes <= 0 || untrue) continue;
    if (link.lanes >= least.lanes && link.speed >= least.speed) continue;
    least = {std::min(least.speed, link.speed), std::min(least.lanes, link.lanes)};
    source = other.source;
  }
  const PcieLink used = parsed(best.in_use);
  if (used.lanes == least.lanes && used.speed == least.speed) return;
  const auto same = std::ranges::find_if(best.others, [&](const Reading& other) {
    const PcieLink link = parsed(other);
    return is_seen(other) && link.lanes == least.lanes && link.speed == least.speed;
  });
  if (same != best.others.end()) {
    std::rotate(best.others.begin(), same, same + 1);
    std::swap(best.in_use, best.others.front());
    return;
  }
  best.others.insert(best.others.begin(), best.in_use);
  best.in_use = {fmt::format("{:.1f} GT/s x{}", least.speed, least.lanes), source, {}};
}

// `best`: nullptr if it is not known.
void explain_link(Fact& link, Fact* best) {
  const std::string* used = std::get_if<std::string>(&link.in_use.value);
  const bool contradicted = used != nullptr && link.in_use.source == "amdgpu" &&
                            std::ranges::any_of(link.others, [&](const Reading& other) {
                              const std::string* said = std::get_if<std::string>(&other.value);
                              return said != nullptr && *said != *used;
                            });
  if (contradicted)
    link.note = "The driver and PCI contradict each other: PCI's may be the link inside the card. ";
  // The best link is reported by the same driver, so it is just as doubtful.
  if (contradicted && best != nullptr && best->in_use.source == "amdgpu" && best->note.empty())
    best->note = "By the driver, which PCI contradicts: see the link now.";
  // A card that saves power slows its link down.
  const PcieLink now = parsed(link.in_use), then = best == nullptr ? PcieLink() : parsed(best->in_use);
  if (now.lanes > 0 && best != nullptr && is_seen(best->in_use) &&
      (now.lanes < then.lanes || now.speed < then.speed)) {
    const bool slot_is_seen =
        best->in_use.meaning == slot_link ||
        std::ranges::any_of(best->others, [](const Reading& other) { return other.meaning == slot_link; });
    link.note += fmt::format(
        "Links slow down when idle; under load it should reach {:.1f} GT/s x{}{}.", then.speed, then.lanes,
        now.lanes < then.lanes && !slot_is_seen ? ", if the slot has as many lanes" : "");
  }
  while (link.note.ends_with(' ')) link.note.pop_back();
}

}  // namespace

void explain_links(FoundDevice& device) {
  if (const auto inside = device.properties.find("pcie_link_inside"); inside != device.properties.end())
    inside->second.note =
        "Inside the card: every Arc shows this behind its own bridge. The slot's link is that of the bridge, "
        "which is not seen here.";
  const auto best = device.properties.find("pcie_link_best"), link = device.properties.find("pcie_link");
  if (best != device.properties.end())
    limit_best(best->second, link == device.properties.end() ? PcieLink() : parsed(link->second.in_use));
  if (link != device.properties.end())
    explain_link(link->second, best == device.properties.end() ? nullptr : &best->second);
}

}  // namespace athanor
