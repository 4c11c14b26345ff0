// ROCm on AMD GPUs: variables, libraries, memory.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "athanor/base/text.h"
#include "athanor/device/chip_order.h"
#include "athanor/doctor/compatibility.h"
#include "athanor/doctor/probes/shared.h"
#include "athanor/doctor/torch_kernels.h"

namespace athanor::doctor {
namespace {

constexpr const char* override_variable = "HSA_OVERRIDE_GFX_VERSION";

// "10.3.0" becomes "gfx1030".
std::string gfx_of_override(std::string_view value) {
  const auto version = Version::parse(value);
  if (!version || version->at(0) > 99 || version->at(1) > 15 || version->at(2) > 15) return {};
  return fmt::format("gfx{}{:x}{:x}", version->at(0), version->at(1), version->at(2));
}

bool has_rocm(const Facts& f) {
  const auto& torches = f.torches();
  return !f.rocm_folders().empty() ||
         std::any_of(torches.begin(), torches.end(),
                     [](const TorchBuild& torch) { return !torch.rocm.empty(); }) ||
         std::any_of(f.pythons().begin(), f.pythons().end(),
                     [](const PythonEnvironment& one) { return pip_rocm(one) != nullptr; });
}

const AddProbe gfx_override("amd.gfx_override", [](const Facts& f) {
  const auto value = f.variable(override_variable);
  const auto gpus = computing_gpus(f, Vendor::amd);
  if (!value || gpus.empty()) return skip();
  const std::string pretended = gfx_of_override(*value);
  for (const Gpu* gpu : gpus) {
    if (gpu->arch.empty() || gpu->arch == pretended) continue;
    if (pretended == "gfx1030" && Compatibility::known().override_10_3_0.contains(gpu->arch)) continue;
    Finding finding = fail();
    finding.seen(fmt::format("${}", override_variable), shortened(*value)).seen(gpu->arch_source, gpu->arch);
    for (const Setting& setting : f.shell())
      if (setting.name == override_variable && !setting.unset)
        finding.seen(setting.where(), shortened(setting.value));
    return finding.with("value", shortened(*value))
        .with("gpu", gpu->title())
        .with("variable", override_variable)
        .with("pretended", pretended.empty() ? shortened(*value) : pretended);
  }
  return pass();
});

const AddProbe mixed("amd.mixed", [](const Facts& f) {
  std::vector<const Gpu*> listed;
  for (const Gpu* gpu : f.gpus(Vendor::amd))
    if (gpu->kfd_node >= 0) listed.push_back(gpu);
  std::sort(listed.begin(), listed.end(),
            [](const Gpu* a, const Gpu* b) { return a->kfd_node < b->kfd_node; });
  const auto integrated =
      std::find_if(listed.begin(), listed.end(), [](const Gpu* gpu) { return gpu->integrated; });
  if (integrated == listed.end() || listed.size() < 2 || !has_rocm(f)) return skip();
  const auto discrete =
      std::find_if(listed.begin(), listed.end(), [](const Gpu* gpu) { return !gpu->integrated; });
  if (discrete == listed.end()) return skip();
  for (const char* name : {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"})
    if (f.variable(name)) return pass();
  Finding finding = fail();
  std::vector<std::string> places;
  for (size_t i = 0; i < listed.size(); ++i) {
    finding.seen(fmt::format("KFD node {}", listed[i]->kfd_node), listed[i]->title());
    if (!listed[i]->integrated) places.push_back(std::to_string(i));
  }
  finding.with("integrated", (*integrated)->title()).with("gpu", (*discrete)->title());
  // HIP's variable, not ROCr's: it counts in the same way, and every HIP program honours it.
  return finding.with("variable", "HIP_VISIBLE_DEVICES").with("value", join(places, ","));
});

// The chips that a folder of rocBLAS' kernels supports: "TensileLibrary_lazy_gfx1030.dat".
Chips chips_of(const Machine& machine, const std::string& folder) {
  Chips chips;
  for (const std::string& name : machine.list(folder))
    if (const size_t at = name.find("gfx"); at != std::string::npos && name.starts_with("TensileLibrary"))
      chips.insert(name.substr(at, name.find_first_of(".-_", at) - at));
  chips.erase("fallback");
  return chips;
}

const AddProbe rocblas("amd.rocblas", [](const Facts& f) {
  const auto gpus = computing_gpus(f, Vendor::amd);
  const auto folders = f.rocblas_folders();
  if (gpus.empty() || folders.empty()) return skip();
  const Compatibility& known = Compatibility::known();
  for (const std::string& folder : folders) {
    const auto chips = chips_of(f.machine(), folder);
    // python.torch.gfx reports a torch that lacks them by design.
    if (chips.empty() || !folder.starts_with("/opt/rocm")) continue;
    for (const Gpu* gpu : gpus) {
      std::string arch = gpu->arch;
      if (const auto value = f.variable(override_variable)) arch = gfx_of_override(*value);
      if (arch.empty() || chips.contains(arch)) continue;
      Finding finding = fail();
      finding.seen(folder, fmt::format("TensileLibrary_lazy_{}.dat: -", arch))
          .seen(gpu->arch_source, gpu->arch);
      finding.with("path", folder)
          .with("arch", arch)
          .with("known", fmt::format("{}", fmt::join(chips, ", ")));
      finding.with("overridable",
                   known.override_10_3_0.contains(arch) && chips.contains("gfx1030") ? "yes" : "no");
      finding.with("variable", override_variable).with("value", "10.3.0");
      const auto newest = std::find_if(known.rocm.rbegin(), known.rocm.rend(),
                                       [&](const auto& row) { return row.targets.contains(arch); });
      finding.with("newer", newest != known.rocm.rend() ? "yes" : "no");
      return finding.with("newest", newest != known.rocm.rend() ? newest->version.text() : "");
    }
  }
  return pass();
});

const AddProbe miopen("amd.miopen.kernels", [](const Facts& f) {
  const auto gpus = computing_gpus(f, Vendor::amd);
  if (gpus.empty()) return skip();
  for (const std::string& rocm : f.rocm_folders()) {
    const std::string folder = rocm + "/share/miopen/db";
    if (!f.machine().exists(folder)) continue;
    for (const Gpu* gpu : gpus)
      // MIOpen has kernels only for chips that it has settings for.
      if (!gpu->arch.empty() && f.machine().glob(folder + "/" + gpu->arch + "*.kdb").empty() &&
          !f.machine().glob(folder + "/" + gpu->arch + "*").empty())
        return fail().seen(folder, gpu->arch + "*.kdb: -").with("arch", gpu->arch);
    return pass();
  }
  return skip();
});

const AddProbe headers("amd.hiprtc.headers", [](const Facts& f) {
  if (computing_gpus(f, Vendor::amd).empty() || !has_rocm(f)) return skip();
  int newest = 0;
  std::string folder;
  for (const std::string& path : f.machine().glob("/usr/lib/gcc/x86_64-*/*")) {
    int version = 0;
    std::from_chars(path.data() + path.rfind('/') + 1, path.data() + path.size(), version);
    if (version > newest) newest = version, folder = path;
  }
  const bool any = !f.machine().list("/usr/include/c++").empty();
  if (newest == 0 || f.machine().exists(fmt::format("/usr/include/c++/{}", newest))) return pass();
  // Without any C++ headers nothing is compiled here, and hipRTC uses its own.
  if (!any) return pass();
  return fail()
      .seen(folder, "newest")
      .seen("/usr/include/c++", join(f.machine().list("/usr/include/c++")))
      .with("version", std::to_string(newest))
      .with("path", folder);
});

const AddProbe hipblaslt("amd.hipblaslt", [](const Facts& f) {
  const auto gpus = computing_gpus(f, Vendor::amd);
  const auto value = f.variable("TORCH_BLAS_PREFER_HIPBLASLT");
  const Compatibility& known = Compatibility::known();
  for (const TorchBuild& torch : f.torches()) {
    const auto version = Version::parse(torch.version);
    if (torch.rocm.empty() || !version || value == "0") continue;
    // torch 2.5 asked this on every chip; later versions only if told to.
    const bool asks = value == "1" || version->first(2) == Version::parse("2.5");
    for (const Gpu* gpu : gpus)
      if (asks && !gpu->arch.empty() && !known.hipblaslt.contains(gpu->arch))
        return fail()
            .seen("$TORCH_BLAS_PREFER_HIPBLASLT", value ? shortened(*value) : "-")
            .seen(torch.source, torch.version)
            .with("arch", gpu->arch)
            .with("variable", "TORCH_BLAS_PREFER_HIPBLASLT")
            .with("value", "0");
  }
  return gpus.empty() ? skip() : pass();
});

const AddProbe memory_used("amd.memory.used", [](const Facts& f) {
  const auto gpus = computing_gpus(f, Vendor::amd);
  for (const Gpu* gpu : gpus) {
    const std::string folder = "/sys/bus/pci/devices/" + gpu->address;
    const int64_t total = f.machine().read_number(folder + "/mem_info_vram_total").value_or(0);
    const int64_t used = f.machine().read_number(folder + "/mem_info_vram_used").value_or(0);
    if (gpu->integrated || total < (int64_t{2} << 30) || used < total / 10 * 9) continue;
    return fail()
        .seen(folder + "/mem_info_vram_used", std::to_string(used))
        .seen(folder + "/mem_info_vram_total", std::to_string(total))
        .with("used", format_bytes(static_cast<uint64_t>(used)))
        .with("total", format_bytes(static_cast<uint64_t>(total)));
  }
  return gpus.empty() ? skip() : pass();
});

const AddProbe memory_apu("amd.memory.apu", [](const Facts& f) {
  for (const Gpu* gpu : computing_gpus(f, Vendor::amd)) {
    const std::string folder = "/sys/bus/pci/devices/" + gpu->address;
    const int64_t vram = f.machine().read_number(folder + "/mem_info_vram_total").value_or(0);
    const int64_t gtt = f.machine().read_number(folder + "/mem_info_gtt_total").value_or(0);
    if (!gpu->integrated || vram <= 0 || gtt <= 0 || vram > (int64_t{4} << 30) || !has_rocm(f)) continue;
    int64_t memory = 0;  // KiB
    for (const std::string& line : split(f.machine().read("/proc/meminfo").value_or(""), '\n'))
      if (line.starts_with("MemTotal:")) {
        const std::string number = trim(std::string_view(line).substr(9));
        std::from_chars(number.data(), number.data() + number.size(), memory);
      }
    // If it is more than the default, half of the memory, somebody has set it.
    if (memory <= 0 || gtt / 1024 > memory / 100 * 55) continue;
    return fail()
        .seen(folder + "/mem_info_vram_total", std::to_string(vram))
        .seen(folder + "/mem_info_gtt_total", std::to_string(gtt))
        .with("vram", format_bytes(static_cast<uint64_t>(vram)))
        .with("gtt", format_bytes(static_cast<uint64_t>(gtt)))
        .with("pages", std::to_string(memory / 4 / 4 * 3));
  }
  return f.gpus(Vendor::amd).empty() ? skip() : pass();
});

const AddProbe half("amd.half", [](const Facts& f) {
  const auto gpus = computing_gpus(f, Vendor::amd);
  for (const Gpu* gpu : gpus)
    if (Compatibility::known().broken_half.contains(gpu->arch))
      return fail().seen(gpu->arch_source, gpu->arch).with("gpu", gpu->title());
  return gpus.empty() ? skip() : pass();
});

const AddProbe system_known("amd.rocm.system", [](const Facts& f) {
  if (computing_gpus(f, Vendor::amd).empty()) return skip();
  for (const std::string& folder : f.rocm_folders()) {
    const std::string file = folder + "/.info/version";
    const auto version = Version::parse(f.machine().read_line(file).value_or(""));
    const auto* release = version ? Compatibility::known().rocm_release(*version) : nullptr;
    if (release == nullptr || release->systems.empty()) continue;
    const Os& os = f.system().os;
    const std::string here = os.id + " " + os.version;
    // "rhel 9" stands for every 9.x. A system that is newer than all systems of its kind in the list is
    // unknown, not wrong.
    bool known = false, newer = true;
    for (const std::string& system : release->systems) {
      known = known || here == system || here.starts_with(system + ".");
      const auto parts = split(system, ' ');
      const auto listed = Version::parse(parts.back()), mine = Version::parse(os.version);
      if (parts.front() == os.id && listed && mine && !(*mine > *listed)) newer = false;
    }
    const bool of_kind =
        std::any_of(release->systems.begin(), release->systems.end(),
                    [&](const std::string& system) { return system.starts_with(os.id + " "); });
    if (known || (of_kind && newer)) continue;
    return fail()
        .seen(file, version->text())
        .seen("/etc/os-release", here)
        .with("version", version->text())
        .with("system", os.name.empty() ? here : os.name)
        .with("known", join(release->systems));
  }
  return pass();
});

const AddProbe rocm_in_wsl("amd.wsl", [](const Facts& f) {
  if (!f.system().wsl || !has_rocm(f)) return skip();
  const bool library = !f.machine().libraries("librocdxg.so*").empty();
  const bool asked = f.variable("HSA_ENABLE_DXG_DETECTION") == "1";
  if (library && asked) return pass();
  if (!library && !f.machine().covers_libraries()) return not_recorded("/usr/lib");
  Finding finding = fail();
  finding.seen("librocdxg.so", library ? "+" : "-");
  finding.seen("$HSA_ENABLE_DXG_DETECTION", f.variable("HSA_ENABLE_DXG_DETECTION").value_or("-"));
  std::vector<std::string> missing;
  if (!library) missing.emplace_back("librocdxg.so");
  if (!asked) missing.emplace_back("HSA_ENABLE_DXG_DETECTION=1");
  return finding.with("missing", join(missing))
      .with("library", library ? "yes" : "no")
      .with("variable", "HSA_ENABLE_DXG_DETECTION")
      .with("value", "1");
});

}  // namespace
}  // namespace athanor::doctor
