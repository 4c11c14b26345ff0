#include "athanor/kernels/gpu/gpu_access.h"

#include <algorithm>
#include <string>

#include "athanor/base/embedded.h"
#include "athanor/device/data_sheet.h"

namespace athanor {
namespace {

/// The data sheet of an architecture's typical card; nullptr if there is none.
const DataSheet* typical_sheet(std::string_view architecture) {
  architecture = architecture.substr(0, architecture.find(':'));  // without features: "gfx90a:sramecc+"
  constexpr const char* file = "data/typical_gpus.csv";
  static const auto table = parse_table(embedded_file(file), file);
  const auto row = std::ranges::find(table, architecture, [](const auto& one) { return one[0]; });
  if (row == table.end()) return nullptr;
  const auto sheet = std::ranges::find(data_sheets(), (*row)[1], &DataSheet::name);
  return sheet == data_sheets().end() ? nullptr : &*sheet;
}

}  // namespace

std::optional<GpuTarget> target_of_architecture(std::string_view architecture) {
  const auto rest_is = [&](std::string_view prefix, std::string_view digits, size_t least) {
    if (!architecture.starts_with(prefix)) return false;
    const std::string_view rest = architecture.substr(prefix.size());
    return rest.size() >= least && rest.size() <= 4 &&
           rest.find_first_not_of(digits) == std::string_view::npos;
  };
  if (rest_is("gfx", "0123456789abcdef", 3)) return GpuTarget::hip;
  if (rest_is("sm_", "0123456789a", 2)) return GpuTarget::cuda;
  return std::nullopt;
}

void add_architecture(GpuTraits& traits, GpuTarget target, std::string_view architecture) {
  traits.matrix_units = matrix_units(target, architecture);
  traits.lane_units = lane_units(target, architecture);
  traits.sheet = typical_sheet(architecture);
  traits.registers = true;
  traits.async_copies = has_async_copies(target, architecture);
  traits.box_copies = has_box_copies(target, architecture);
  traits.buffer_tables = target != GpuTarget::opencl;
  // The 4 KiB of parameters that CUDA and HIP take hold twice as many.
  traits.max_buffers = traits.buffer_tables ? 256 : GpuTraits{}.max_buffers;
}

void set_driver_facts(GpuTraits& traits, GpuTarget target, std::string_view architecture) {
  constexpr int64_t kib = 1024;
  traits.local_bytes_at_launch = 0;
  if (const DataSheet* sheet = typical_sheet(architecture)) {
    // HIP counts RDNA's work-group processors, which have two compute units each.
    const bool pairs = target == GpuTarget::hip && sheet->wave_width == "32";
    traits.compute_units = sheet->compute_units / (pairs ? 2 : 1);
  }
  if (target != GpuTarget::cuda) {
    traits.local_bytes = (architecture.starts_with("gfx950") ? 160 : 64) * kib;
    return;
  }
  traits.local_bytes = 48 * kib;
  // CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
  struct Most {
    std::string_view architecture;
    int64_t kib;
  };
  constexpr Most known[] = {{"sm_70", 96},   {"sm_75", 64},  {"sm_80", 163}, {"sm_86", 99},
                            {"sm_87", 163},  {"sm_89", 99},  {"sm_90", 227}, {"sm_100", 227},
                            {"sm_103", 227}, {"sm_120", 99}, {"sm_121", 99}};
  for (const Most& one : known)
    if (architecture == one.architecture || architecture == std::string(one.architecture) + "a")
      traits.local_bytes_at_launch = one.kib * kib;
}

std::optional<GpuAccess> gpu_access(Device device) {
  auto* backend = dynamic_cast<KernelLanguageBackend*>(&provider_of(device));
  return backend == nullptr ? std::nullopt : std::optional(backend->access(device.index));
}

}  // namespace athanor
