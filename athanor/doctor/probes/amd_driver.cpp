// AMD GPUs up to the files in /dev: PCI, kernel driver, firmware, KFD.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/text.h"
#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {
namespace {

bool without_driver(const Gpu* gpu) { return gpu->driver.empty(); }

const AddProbe atomics("amd.pci.atomics", [](const Facts& f) {
  const auto gpus = computing_gpus(f, Vendor::amd);
  if (gpus.empty()) return skip();
  for (const std::string& line : f.log_lines({"kfd", "PCI rejects atomics"})) {
    Finding finding = fail();
    finding.seen("kernel log", line).with("gpu", gpus.front()->title());
    for (const Gpu* gpu : gpus)
      if (line.find(gpu->address) != std::string::npos) finding.with("gpu", gpu->title());
    return finding;
  }
  return pass();
});

// The line in a file of modprobe.d that keeps a module from being loaded.
std::string forbidding_line(std::string_view text, const std::string& module) {
  for (const std::string& raw : split(text, '\n')) {
    std::vector<std::string> words = split(trim(raw), ' ');
    std::erase(words, "");
    if (words.size() >= 2 && words[1] == module &&
        (words[0] == "blacklist" || (words[0] == "install" && words.size() > 2 &&
                                     (words[2] == "/bin/false" || words[2] == "/bin/true"))))
      return join(words, " ");
  }
  return {};
}

const AddProbe blacklisted("amd.driver.blacklisted", [](const Facts& f) {
  const auto gpus = computing_gpus(f, Vendor::amd);
  if (gpus.empty() || !f.system().container.empty()) return skip();
  // A module that is loaded nevertheless (by the initramfs) works.
  if (std::none_of(gpus.begin(), gpus.end(), without_driver)) return pass();
  for (const std::string& word : f.system().command_line)
    if (word == "nomodeset" || word == "amdgpu.modeset=0" ||
        (word.starts_with("modprobe.blacklist=") && word.find("amdgpu") != std::string::npos))
      return fail()
          .seen("/proc/cmdline", word)
          .with("kind", "cmdline")
          .with("path", "/proc/cmdline")
          .with("line", word);
  for (const char* pattern :
       {"/etc/modprobe.d/*.conf", "/usr/lib/modprobe.d/*.conf", "/lib/modprobe.d/*.conf"})
    for (const std::string& file : f.machine().glob(pattern))
      if (const std::string line = forbidding_line(f.machine().read(file).value_or(""), "amdgpu");
          !line.empty())
        return fail()
            .seen(file, line)
            .with("kind", file.starts_with("/etc/") ? "file" : "package-file")
            .with("modprobe_file", file.substr(file.rfind('/') + 1))
            .with("path", file)
            .with("line", line);
  return pass();
});

const AddProbe dkms("amd.driver.dkms", [](const Facts& f) {
  if (computing_gpus(f, Vendor::amd).empty()) return skip();
  return failed_dkms(f, "amdgpu").value_or(pass());
});

const AddProbe loaded("amd.driver.loaded", [](const Facts& f) {
  const auto gpus = computing_gpus(f, Vendor::amd);
  const auto alone = std::find_if(gpus.begin(), gpus.end(), without_driver);
  if (gpus.empty()) return skip();
  if (alone == gpus.end()) return pass();
  Finding finding = fail();
  finding.with("gpu", (*alone)->title());
  finding.seen(fmt::format("/sys/bus/pci/devices/{}/driver", (*alone)->address), "-");
  finding.seen("/sys/module/amdgpu", f.has_module("amdgpu") ? "live" : "-");
  return finding;
});

const AddProbe firmware("amd.firmware", [](const Facts& f) {
  if (computing_gpus(f, Vendor::amd).empty()) return skip();
  for (const std::string& line : f.log_lines({"amdgpu", "firmware", "failed"}, 20)) {
    const size_t at = line.find("amdgpu/");
    if (at == std::string::npos) continue;
    const std::string file = line.substr(at, line.find_first_of(" '\"", at) - at);
    // Blobs for the trusted application and for virtual machines are optional.
    if (file.ends_with("_ta.bin") || file.ends_with("_cap.bin") || file.find("_kicker") != std::string::npos)
      continue;
    if (f.machine().exists("/lib/firmware/" + file)) continue;  // installed since; see the next start
    return fail().seen("kernel log", line).with("file", file);
  }
  return pass();
});

const AddProbe mes("amd.mes", [](const Facts& f) {
  if (computing_gpus(f, Vendor::amd).empty()) return skip();
  for (const std::string& line : f.log_lines({"MES", "failed to respond"}, 1))
    return fail().seen("kernel log", line);
  return pass();
});

const AddProbe node("amd.kfd.node", [](const Facts& f) {
  const auto gpus = computing_gpus(f, Vendor::amd);
  if (gpus.empty() || !f.machine().exists("/sys/class/kfd/kfd/topology")) return skip();
  for (const Gpu* gpu : gpus)
    if (gpu->driver == "amdgpu" && gpu->kfd_node < 0) {
      Finding finding = fail();
      finding.seen("/sys/class/kfd/kfd/topology/nodes", fmt::format("{}: -", gpu->address));
      for (const char* words : {"skipped device", "not supported in kfd"})
        for (const std::string& line : f.log_lines({"kfd", words}, 1)) finding.seen("kernel log", line);
      return finding.with("gpu", gpu->title());
    }
  return pass();
});

bool kfd_lists_gpu(const Facts& f) {
  const auto& gpus = f.gpus();
  return std::any_of(gpus.begin(), gpus.end(), [](const Gpu& gpu) { return gpu.kfd_node >= 0; });
}

const AddProbe device("amd.kfd.device", [](const Facts& f) {
  if (!kfd_lists_gpu(f)) return skip();
  if (f.machine().exists("/dev/kfd")) return pass();
  if (!f.machine().covers("/dev")) return not_recorded("/dev");
  return fail().seen("/dev/kfd", "-").seen("/sys/class/kfd/kfd/topology/nodes", "1+ GPU");
});

const AddProbe permission("amd.kfd.permission", [](const Facts& f) {
  if (!f.machine().exists("/dev/kfd") || computing_gpus(f, Vendor::amd).empty()) return skip();
  return f.machine().access("/dev/kfd") == Access::read_write ? pass() : not_permitted(f, "/dev/kfd");
});

const AddProbe page_fault("amd.page_fault", [](const Facts& f) {
  if (computing_gpus(f, Vendor::amd).empty()) return skip();
  const auto lines = f.log_lines({"amdgpu", "page fault"}, 1);
  return lines.empty() ? pass() : fail().seen("kernel log", lines.front());
});

}  // namespace
}  // namespace athanor::doctor
