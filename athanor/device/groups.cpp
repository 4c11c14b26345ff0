#include "athanor/device/groups.h"

#include <algorithm>
#include <tuple>

namespace athanor {
namespace {

std::string text_in(const Sighting& sighting, const std::string& property) {
  for (const auto& [name, reading] : sighting.readings)
    if (name == property)
      if (const auto* text = std::get_if<std::string>(&reading.value)) return *text;
  return {};
}

// Whether the sighting's source has already reported the group's device. A source reports each device once,
// but several OpenCL platforms may have the same device.
bool has_seen(const Group& group, const Sighting& sighting) {
  return std::any_of(group.seen.begin(), group.seen.end(), [&](const Sighting* other) {
    return other->source == sighting.source &&
           text_in(*other, "opencl_platform") == text_in(sighting, "opencl_platform");
  });
}

bool is_same(const Group& group, const Sighting& sighting) {
  if (!sighting.uuid.empty() && sighting.uuid == group.uuid) return true;
  if (sighting.render_minor >= 0 && group.render_minor >= 0)
    return sighting.render_minor == group.render_minor;
  if (sighting.kind == "cpu" || group.kind == "cpu") return sighting.kind == group.kind;
  if (!sighting.pci.empty() && !group.pci.empty())
    return sighting.pci == group.pci && !has_seen(group, sighting) &&
           (sighting.source != "kfd" || sighting.partition == group.partition);
  // One of the two has no address: take the first possible group.
  const std::string vendor = text_in(sighting, "vendor"), arch = text_in(sighting, "architecture");
  return !has_seen(group, sighting) && !vendor.empty() && vendor == group.vendor &&
         (arch.empty() || group.arch.empty() || arch == group.arch);
}

void join(Group& group, const Sighting& sighting) {
  const auto take = [](std::string& into, const std::string& from) {
    if (into.empty()) into = from;
  };
  take(group.kind, sighting.kind);
  take(group.pci, sighting.pci);
  take(group.uuid, sighting.uuid);
  take(group.vendor, sighting.source == "kfd" ? "AMD" : text_in(sighting, "vendor"));
  take(group.arch, text_in(sighting, "architecture"));
  if (group.render_minor < 0) group.render_minor = sighting.render_minor;
  if (group.seen.empty()) group.partition = sighting.partition;
  group.seen.push_back(&sighting);
}

}  // namespace

std::vector<Group> groups_of(const std::vector<Sighting>& sightings) {
  // Sightings with an address come first, so that the others can find their groups.
  std::vector<const Sighting*> in_order;
  for (const bool placed : {true, false})
    for (const Sighting& one : sightings)
      if ((!one.pci.empty() || one.render_minor >= 0 || one.source == "proc") == placed)
        in_order.push_back(&one);
  std::vector<Group> groups;
  for (const Sighting* one : in_order) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return is_same(g, *one); });
    if (group == groups.end()) group = groups.emplace(groups.end());
    join(*group, *one);
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    const auto place = [](const Group& g) {
      return std::tuple(g.kind == "cpu", g.pci.empty(), g.pci, g.partition);
    };
    return place(a) < place(b);
  });
  return groups;
}

std::string vendor_by_name(const std::string& text) {
  const auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
  if (has("AMD") || has("Advanced Micro")) return "AMD";
  if (has("NVIDIA")) return "NVIDIA";
  return has("Intel") ? "Intel" : text;
}

namespace {

Sighting sighting_of(const DeviceInfo& info) {
  const auto property = [&](const char* name) {
    const auto found = info.properties.find(name);
    return found == info.properties.end() ? std::string() : found->second.value;
  };
  Sighting seen;
  seen.source = provider_of(info.device).name();
  seen.kind = info.kind;
  seen.name = info.name;
  seen.pci = property("PCI address");
  seen.uuid = property("UUID");
  if (const std::string vendor = vendor_by_name(property("vendor")); !vendor.empty())
    seen.add("vendor", Value(vendor));
  if (const std::string arch = property("architecture"); !arch.empty())
    seen.add("architecture", Value(arch.substr(0, arch.find(':'))));  // gfx90a:sramecc+:xnack-
  if (const std::string platform = property("platform"); !platform.empty())
    seen.add(seen.source + "_platform", Value(platform));
  return seen;
}

}  // namespace

std::vector<size_t> cards_of(const std::vector<DeviceInfo>& devices) {
  std::vector<Sighting> sightings;
  for (const DeviceInfo& info : devices) sightings.push_back(sighting_of(info));
  const std::vector<Group> groups = groups_of(sightings);
  std::vector<size_t> cards(devices.size());
  for (size_t card = 0; card < groups.size(); ++card)
    for (const Sighting* one : groups[card].seen) cards[static_cast<size_t>(one - sightings.data())] = card;
  return cards;
}

}  // namespace athanor
