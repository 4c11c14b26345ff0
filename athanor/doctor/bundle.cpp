#include "athanor/doctor/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "athanor/base/text.h"
#include "athanor/doctor/redact.h"
#include "athanor/doctor/report.h"

namespace athanor::doctor {
namespace {

// Small texts that probes read. Never a start file, a key or a configuration with secrets.
constexpr const char* patterns[] = {"/etc/os-release",
                                    "/proc/sys/kernel/osrelease",
                                    "/proc/version",
                                    "/proc/cmdline",
                                    "/proc/meminfo",
                                    "/proc/sys/kernel/numa_balancing",
                                    "/proc/driver/nvidia/version",
                                    "/proc/driver/nvidia/params",
                                    "/etc/modprobe.d/*.conf",
                                    "/etc/OpenCL/vendors/*.icd",
                                    "/opt/rocm*/.info/version",
                                    "/usr/local/cuda/version.json",
                                    "/sys/class/kfd/kfd/topology/nodes/*/properties",
                                    "/sys/bus/pci/devices/*/class",
                                    "/sys/bus/pci/devices/*/vendor",
                                    "/sys/bus/pci/devices/*/device",
                                    "/sys/bus/pci/devices/*/mem_info_vram_total",
                                    "/sys/bus/pci/devices/*/mem_info_gtt_total",
                                    "/sys/module/amdgpu/initstate",
                                    "/sys/module/nvidia/initstate",
                                    "/sys/module/nvidia_uvm/initstate"};
constexpr size_t largest = 64 << 10;

// A line of a file must not look like the start of another file.
bool plain(std::string_view text) {
  return text.find('\0') == std::string_view::npos && text.find("\n== /") == std::string_view::npos &&
         text.find("\n++ /") == std::string_view::npos && text.find("\n--- /") == std::string_view::npos &&
         text.find("\ninclude ") == std::string_view::npos && text.find("{{") == std::string_view::npos;
}

void add_file(std::string& bundle, const std::string& path, std::string text) {
  if (!plain("\n" + text)) return;
  if (!text.empty() && text.back() != '\n') text += '\n';
  bundle += "== " + path + "\n" + text;
}

// Whether probes look at a Python package. Other installed packages are private.
bool is_looked_at(const std::string& package) {
  for (const char* name :
       {"torch", "tensorflow", "tensorflow-rocm", "jax", "jaxlib", "onnxruntime", "onnxruntime-gpu", "numpy"})
    if (package == name) return true;
  for (const char* family : {"jax-cuda", "jax-rocm", "nvidia-cu"})
    if (package.starts_with(family)) return true;
  return false;
}

bool of_gpu(const Facts& facts, const std::string& path) {
  if (!path.starts_with("/sys/bus/pci/")) return true;
  return std::any_of(facts.gpus().begin(), facts.gpus().end(), [&](const Gpu& gpu) {
    return !gpu.address.empty() && path.find(gpu.address) != std::string::npos;
  });
}

// GPUs of Windows are in no file: adds what a runtime reported about them, in the form of machine.toml.
void add_gpus_of_windows(std::string& bundle, const Facts& facts) {
  std::string tables;
  for (const FoundDevice& device : facts.detection().devices) {
    if (!device.from_windows) continue;
    tables += device.text("vendor") == "NVIDIA" ? "[[nvml]]\n" : "[[hip]]\n";
    for (const auto& [key, value] : {std::pair{"name", device.name},
                                     {"vendor", device.text("vendor")},
                                     {"arch", device.text("architecture")},
                                     {"driver_version", device.text("driver_version")}})
      if (!value.empty()) tables += fmt::format("{} = {}\n", key, nlohmann::json(printable(value)).dump());
  }
  if (tables.empty()) return;
  bundle += "== /dev/dxg\n";
  add_file(bundle, "/machine.toml", tables);
}

}  // namespace

std::string make_bundle(const Diagnosis& diagnosis, const Facts& facts) {
  const Machine& machine = facts.machine();
  const Redaction redacted(machine);
  std::string bundle =
      "# Made by athanor doctor export, Athanor " ATHANOR_VERSION ". Read it before you send it.\n";
  std::set<std::string> seen;
  for (const char* pattern : patterns)
    for (const std::string& path : machine.glob(pattern)) {
      const auto text = machine.read_bytes(path, largest);
      if (text && of_gpu(facts, path) && seen.insert(path).second)
        add_file(bundle, redacted(path), redacted(*text));
    }
  for (const Gpu& gpu : facts.gpus())
    if (!gpu.driver.empty() && gpu.id != 0)
      bundle += fmt::format("== /sys/bus/pci/devices/{}/driver -> ../../../bus/pci/drivers/{}\n", gpu.address,
                            gpu.driver);
  for (const PythonEnvironment& environment : facts.pythons())
    for (const Distribution& one : environment.distributions)
      if (is_looked_at(one.name))
        add_file(bundle, redacted(one.folder) + "/METADATA",
                 fmt::format("Metadata-Version: 2.1\nName: {}\nVersion: {}\n", one.name, one.version));
  add_gpus_of_windows(bundle, facts);
  std::string log;
  for (const char* word : {"amdgpu", "kfd", "NVRM", "nouveau", "i915"})
    for (const std::string& line : facts.log_lines({word}, 20)) log += line + "\n";
  if (!log.empty()) add_file(bundle, "/var/log/dmesg", redacted(log));
  std::string variables;
  for (const std::string& name : machine.environment_names())
    for (const char* prefix :
         {"HSA_", "HIP_", "ROCR_", "CUDA_VISIBLE", "NVIDIA_VISIBLE", "MIOPEN_", "TORCH_BLAS", "PYTORCH_HIP",
          "PYTORCH_CUDA", "ATHANOR_", "LD_LIBRARY_PATH", "OCL_ICD", "RUSTICL_", "LANG"})
      if (name.starts_with(prefix))
        variables += redacted(name + "=" + machine.environment(name).value_or("")) + "\n";
  if (!variables.empty()) add_file(bundle, "/proc/self/environ", variables);
  add_file(bundle, "/report.json", redacted(report_json(diagnosis, facts, Language::en).dump(2)));
  return bundle;
}

}  // namespace athanor::doctor
