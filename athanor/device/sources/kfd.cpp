// AMD's compute driver: /sys/class/kfd/kfd/topology/nodes, one folder for each CPU socket and GPU (or part of
// one).
#include <fmt/format.h>

#include "athanor/device/kfd.h"
#include "athanor/device/sighting.h"

namespace athanor {
namespace {

int64_t as_signed(uint64_t value) { return value > INT64_MAX ? INT64_MAX : static_cast<int64_t>(value); }

void add_caches(Sighting& seen, const Machine& machine, const std::string& node) {
  std::map<uint64_t, int64_t> kib;  // by level
  for (const std::string& file : machine.glob(node + "/caches/*/properties")) {
    const auto cache = parse_kfd_properties(machine.read(file).value_or(""));
    constexpr uint64_t data = 1;  // a bit of type; other bits are for instructions, CPU and GPU
    const uint64_t level = kfd_value(cache, "level"), size = kfd_value(cache, "size");
    if (size > (1U << 30) || (kfd_value(cache, "type") & data) == 0) continue;
    // Each compute unit has its own level 1. Levels 2 and 3 are shared; on large chips they have several
    // parts.
    int64_t& so_far = kib[level];
    so_far = level == 1 ? std::max(so_far, static_cast<int64_t>(size)) : so_far + static_cast<int64_t>(size);
  }
  for (const auto& [level, size] : kib)
    if (level >= 1 && level <= 3 && size > 0)
      seen.add(fmt::format("l{}_cache_bytes", level), Value(size * 1024));
}

Sighting sighting_of(const Machine& machine, const KfdNode& node) {
  Sighting seen;
  seen.source = "kfd";
  seen.kind = "gpu";
  seen.pci = node.pci();
  seen.partition = node.partition();
  seen.add("kfd_node", Value(static_cast<int64_t>(node.index)));
  if (const uint64_t minor = node.value("drm_render_minor"); minor > 0 && minor < 1U << 20)
    seen.render_minor = as_signed(minor);
  const auto positive = [&](const char* property, uint64_t value) {
    if (value > 0) seen.add(property, Value(as_signed(value)));
  };
  if (const std::string gfx = node.gfx(); !gfx.empty()) seen.add("architecture", Value(gfx));
  // Not array_count * cu_per_simd_array: that includes units that were disabled at the factory.
  const uint64_t simds = node.value("simd_count"), per_cu = node.value("simd_per_cu");
  if (per_cu > 0) positive("compute_units", simds / per_cu);
  positive("simds_per_unit", per_cu);
  positive("wave_width", node.value("wave_front_size"));
  positive("waves_per_simd", node.value("max_waves_per_simd"));
  positive("clock_mhz", node.value("max_engine_clk_fcompute"));
  positive("local_memory_bytes", node.value("lds_size_in_kb") * 1024);
  positive("xcc_count", node.value("num_xcc") > 1 ? node.value("num_xcc") : 0);
  if (const uint64_t hive = node.value("hive_id"); hive > 0)
    seen.add("xgmi_hive", Value(fmt::format("{:#x}", hive)));
  uint64_t memory = 0;
  for (const std::string& bank : machine.glob(node.folder + "/mem_banks/*/properties")) {
    const auto facts = parse_kfd_properties(machine.read(bank).value_or(""));
    if (const uint64_t heap = kfd_value(facts, "heap_type"); heap != 1 && heap != 2)
      continue;  // only public and private device memory
    memory += kfd_value(facts, "size_in_bytes");
    positive("memory_bus_bits", kfd_value(facts, "width"));
    positive("memory_clock_mhz", kfd_value(facts, "mem_clk_max"));
  }
  positive("memory_bytes", memory);
  add_caches(seen, machine, node.folder);
  return seen;
}

}  // namespace

std::vector<Sighting> sightings_of_kfd(const Machine& machine) {
  std::vector<Sighting> all;
  for (const KfdNode& node : kfd_gpus(machine)) all.push_back(sighting_of(machine, node));
  return all;
}

}  // namespace athanor
