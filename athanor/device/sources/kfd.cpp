// AMD's compute driver: /sys/class/kfd/kfd/topology/nodes, one folder for each CPU socket and GPU (or part of
// one).
#include <fmt/format.h>

#include <charconv>
#include <set>

#include "athanor/base/text.h"
#include "athanor/device/sighting.h"

namespace athanor {
namespace {

using Properties = std::map<std::string, uint64_t>;

uint64_t value_of(const Properties& properties, const char* name) {
  const auto found = properties.find(name);
  return found == properties.end() ? 0 : found->second;
}

int64_t as_signed(uint64_t value) { return value > INT64_MAX ? INT64_MAX : static_cast<int64_t>(value); }

void add_caches(Sighting& seen, const Machine& machine, const std::string& node) {
  std::map<uint64_t, int64_t> kib;  // by level
  for (const std::string& file : machine.glob(node + "/caches/*/properties")) {
    const auto cache = parse_kfd_properties(machine.read(file).value_or(""));
    constexpr uint64_t data = 1;  // a bit of type, beside those for instructions and for CPU and GPU
    const uint64_t level = value_of(cache, "level"), size = value_of(cache, "size");
    if (size > (1U << 30) || (value_of(cache, "type") & data) == 0) continue;
    // Level 1 is one a compute unit; 2 and 3 are shared, in several parts on large chips.
    int64_t& so_far = kib[level];
    so_far = level == 1 ? std::max(so_far, static_cast<int64_t>(size)) : so_far + static_cast<int64_t>(size);
  }
  for (const auto& [level, size] : kib)
    if (level >= 1 && level <= 3 && size > 0)
      seen.add(fmt::format("l{}_cache_bytes", level), Value(size * 1024));
}

Sighting sighting_of(const Machine& machine, const std::string& node, const Properties& properties) {
  Sighting seen;
  seen.source = "kfd";
  seen.kind = "gpu";
  // location_id holds bus, device and function; its top bits number the parts of a partitioned device.
  const uint64_t location = value_of(properties, "location_id");
  seen.pci = pci_address(value_of(properties, "domain"), location & 0xffff);
  seen.partition = as_signed(location >> 28 & 0xf);
  if (const uint64_t minor = value_of(properties, "drm_render_minor"); minor > 0 && minor < 1U << 20)
    seen.render_minor = as_signed(minor);
  const auto positive = [&](const char* property, uint64_t value) {
    if (value > 0) seen.add(property, Value(as_signed(value)));
  };
  if (const uint64_t target = value_of(properties, "gfx_target_version"); target > 0)
    seen.add("architecture", Value(gfx_name(target)));
  // Not array_count * cu_per_simd_array: that counts units that were cut off at the factory too.
  const uint64_t simds = value_of(properties, "simd_count"), per_cu = value_of(properties, "simd_per_cu");
  if (per_cu > 0) positive("compute_units", simds / per_cu);
  positive("simds_per_unit", per_cu);
  positive("wave_width", value_of(properties, "wave_front_size"));
  positive("waves_per_simd", value_of(properties, "max_waves_per_simd"));
  positive("clock_mhz", value_of(properties, "max_engine_clk_fcompute"));
  positive("local_memory_bytes", value_of(properties, "lds_size_in_kb") * 1024);
  positive("xcc_count", value_of(properties, "num_xcc") > 1 ? value_of(properties, "num_xcc") : 0);
  if (const uint64_t hive = value_of(properties, "hive_id"); hive > 0)
    seen.add("xgmi_hive", Value(fmt::format("{:#x}", hive)));
  uint64_t memory = 0;
  for (const std::string& bank : machine.glob(node + "/mem_banks/*/properties")) {
    const auto facts = parse_kfd_properties(machine.read(bank).value_or(""));
    if (const uint64_t heap = value_of(facts, "heap_type"); heap != 1 && heap != 2)
      continue;  // public, private
    memory += value_of(facts, "size_in_bytes");
    positive("memory_bus_bits", value_of(facts, "width"));
    positive("memory_clock_mhz", value_of(facts, "mem_clk_max"));
  }
  positive("memory_bytes", memory);
  add_caches(seen, machine, node);
  return seen;
}

}  // namespace

std::map<std::string, uint64_t> parse_kfd_properties(std::string_view text) {
  std::map<std::string, uint64_t> properties;
  for (const std::string& line : split(text, '\n')) {
    const size_t space = line.find(' ');
    if (space == std::string::npos || space == 0) continue;
    const std::string number = trim(line.substr(space));
    uint64_t value = 0;
    const auto end = std::from_chars(number.data(), number.data() + number.size(), value);
    if (!number.empty() && end.ec == std::errc() && end.ptr == number.data() + number.size())
      properties[line.substr(0, space)] = value;
  }
  return properties;
}

std::string gfx_name(uint64_t target_version) {
  return fmt::format("gfx{}{:x}{:x}", target_version / 10000, target_version / 100 % 100,
                     target_version % 100);
}

std::string pci_address(uint64_t domain, uint64_t location) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain & 0xffffffff, location >> 8 & 0xff,
                     location >> 3 & 0x1f, location & 7);
}

std::vector<Sighting> sightings_of_kfd(const Machine& machine) {
  std::vector<Sighting> all;
  for (const std::string& node : machine.glob("/sys/class/kfd/kfd/topology/nodes/*")) {
    const auto properties = parse_kfd_properties(machine.read(node + "/properties").value_or(""));
    if (value_of(properties, "simd_count") > 0) all.push_back(sighting_of(machine, node, properties));
  }
  return all;
}

}  // namespace athanor
