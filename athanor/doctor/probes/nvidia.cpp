// NVIDIA GPUs: kernel driver, device files, CUDA toolkit.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "athanor/base/text.h"
#include "athanor/doctor/compatibility.h"
#include "athanor/doctor/last_driver.h"
#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {
namespace {

const Gpu* first_gpu(const Facts& f) {
  const auto gpus = computing_gpus(f, Vendor::nvidia);
  return gpus.empty() ? nullptr : gpus.front();
}

bool driver_runs(const Facts& f) { return !f.nvidia().module_version.empty(); }

// "NVRM: Xid (PCI:0000:01:00): 79, pid=1234, GPU has fallen off the bus."
struct Xid {
  int number = 0;
  std::string address, line;
};

std::vector<Xid> xids(const Facts& f) {
  std::vector<Xid> found;
  for (const std::string& line : f.log_lines({"NVRM: Xid (PCI:"}, 50)) {
    const size_t open = line.find("(PCI:"), close = line.find("): ", open);
    if (close == std::string::npos) continue;
    Xid xid{0, line.substr(open + 5, close - open - 5), line};
    std::from_chars(line.data() + close + 3, line.data() + line.size(), xid.number);
    found.push_back(std::move(xid));
  }
  return found;
}

const AddProbe xid("nvidia.xid", [](const Facts& f) {
  if (f.gpus(Vendor::nvidia).empty() && xids(f).empty()) return skip();
  for (const Xid& one : xids(f))
    if (one.number == 79) return fail().seen("kernel log", one.line).with("address", one.address);
  return pass();
});

const AddProbe xid_other("nvidia.xid.other", [](const Facts& f) {
  const auto all = xids(f);
  for (auto one = all.rbegin(); one != all.rend(); ++one)
    if (one->number != 79)
      return fail()
          .seen("kernel log", one->line)
          .with("address", one->address)
          .with("number", std::to_string(one->number));
  return f.gpus(Vendor::nvidia).empty() ? skip() : pass();
});

const AddProbe nouveau("nvidia.nouveau", [](const Facts& f) {
  const auto gpus = computing_gpus(f, Vendor::nvidia);
  for (const Gpu* gpu : gpus)
    if (gpu->driver == "nouveau")
      return fail()
          .seen(fmt::format("/sys/bus/pci/devices/{}/driver", gpu->address), "nouveau")
          .with("gpu", gpu->title());
  return gpus.empty() ? skip() : pass();
});

const AddProbe nvidia_dkms("nvidia.driver.dkms", [](const Facts& f) {
  if (first_gpu(f) == nullptr) return skip();
  if (driver_runs(f)) return pass();
  for (const char* package : {"nvidia", "nvidia-current", "nvidia-open"})
    if (auto finding = failed_dkms(f, package)) return *finding;
  return pass();
});

const AddProbe nvidia_loaded("nvidia.driver.loaded", [](const Facts& f) {
  const Gpu* gpu = first_gpu(f);
  if (gpu == nullptr || f.system().wsl) return skip();
  if (driver_runs(f) || gpu->driver == "nvidia") return pass();
  // nouveau has its own check, which this one needs.
  Finding finding = fail();
  finding.seen("/proc/driver/nvidia/version", "-");
  finding.seen(fmt::format("/sys/bus/pci/devices/{}/driver", gpu->address),
               gpu->driver.empty() ? "-" : gpu->driver);
  const bool installed =
      !f.nvidia().library_version.empty() ||
      !f.machine().glob("/lib/modules/" + f.system().kernel + "/updates/dkms/nvidia.ko*").empty();
  return finding.with("gpu", gpu->title()).with("installed", installed ? "yes" : "no");
});

const AddProbe legacy("nvidia.driver.legacy", [](const Facts& f) {
  const auto gpus = f.gpus(Vendor::nvidia);
  if (gpus.empty() || f.system().wsl) return skip();
  // The same driver may run another card: then only this card has a problem.
  const bool runs_another = std::any_of(gpus.begin(), gpus.end(), [&](const Gpu* gpu) {
    return gpu->driver != "vfio-pci" && !is_left_behind(f, *gpu);
  });
  for (const Gpu* gpu : gpus) {
    if (!is_left_behind(f, *gpu)) continue;
    const LastDriver last = *last_driver(f, *gpu);
    const std::string there = newest_nvidia_driver(f);
    Finding finding = runs_another ? warn() : fail();
    if (!there.empty())
      finding.seen(f.nvidia().module_version.empty() ? f.nvidia().library : f.nvidia().source, there);
    return finding.seen(last.source, last.said)
        .with("gpu", gpu->title())
        .with("driver", there.empty() ? "?" : there)
        .with("branch", std::to_string(last.branch));
  }
  return pass();
});

const AddProbe mismatch("nvidia.driver.mismatch", [](const Facts& f) {
  const NvidiaDriver& driver = f.nvidia();
  if (driver.module_version.empty() || driver.library_version.empty()) return skip();
  if (driver.module_version == driver.library_version) return pass();
  return fail()
      .seen("/proc/driver/nvidia/version", driver.module_version)
      .seen(driver.library, driver.library_version)
      .with("module", driver.module_version)
      .with("library", driver.library_version);
});

const AddProbe in_container("container.nvidia", [](const Facts& f) {
  const Gpu* gpu = first_gpu(f);
  if (gpu == nullptr || f.system().container.empty() || f.system().wsl) return skip();
  std::vector<std::string> missing;
  if (!f.machine().exists("/dev/nvidiactl")) missing.emplace_back("/dev/nvidiactl");
  if (f.machine().libraries("libcuda.so*").empty()) missing.emplace_back("libcuda.so.1");
  // If the host lacks it too, the container is not the cause.
  if (missing.empty() || (gpu->driver != "nvidia" && !driver_runs(f))) return pass();
  Finding finding = fail();
  for (const std::string& file : missing) finding.seen(file, "-");
  return finding.seen("container", f.system().container)
      .with("gpu", gpu->title())
      .with("missing", join(missing));
});

std::vector<std::string> device_files(const Facts& f) {
  std::vector<std::string> files{"/dev/nvidiactl"};
  const size_t count = f.machine().list("/proc/driver/nvidia/gpus").size();
  for (size_t i = 0; i < std::max<size_t>(1, count); ++i) files.push_back(fmt::format("/dev/nvidia{}", i));
  return files;
}

const AddProbe devices("nvidia.devices", [](const Facts& f) {
  if (!driver_runs(f)) return skip();
  if (f.machine().exists("/dev/nvidiactl") && !f.system().container.empty()) return pass();  // has some
  for (const std::string& file : device_files(f))
    if (!f.machine().exists(file)) return fail().seen(file, "-").with("path", file);
  return pass();
});

const AddProbe nvidia_permission("nvidia.permission", [](const Facts& f) {
  if (!driver_runs(f)) return skip();
  for (const std::string& file : device_files(f))
    if (f.machine().exists(file) && f.machine().access(file) != Access::read_write)
      return not_permitted(f, file);
  return pass();
});

const AddProbe uvm("nvidia.uvm", [](const Facts& f) {
  if (!driver_runs(f)) return skip();
  if (f.has_module("nvidia_uvm")) return pass();
  Finding finding = fail();
  finding.seen("/sys/module/nvidia_uvm", "-");
  if (!f.machine().exists("/dev/nvidia-uvm")) finding.seen("/dev/nvidia-uvm", "-");
  return finding;
});

const AddProbe suspend("nvidia.suspend", [](const Facts& f) {
  if (!driver_runs(f)) return skip();
  const auto slept = f.log_lines({"PM: suspend exit"}, 1);
  for (const std::string& line : split(f.machine().read("/proc/driver/nvidia/params").value_or(""), '\n'))
    if (!slept.empty() && line.starts_with("PreserveVideoMemoryAllocations:") && line.ends_with(" 0"))
      return fail().seen("kernel log", slept.front()).seen("/proc/driver/nvidia/params", line);
  return pass();
});

const AddProbe fabric("nvidia.fabric_manager", [](const Facts& f) {
  if (!driver_runs(f) || !f.system().container.empty()) return skip();
  const Machine& machine = f.machine();
  const std::string bridge = nvswitch_folder(f);
  if (bridge.empty()) return skip();
  for (const std::string& file : machine.glob("/proc/*/comm"))
    if (machine.read_line(file).value_or("").starts_with("nv-fabricmanag")) return pass();
  return fail()
      .seen(bridge, "NVSwitch")
      .seen("/proc/*/comm", "nv-fabricmanager: -")
      .with("version", f.nvidia().module_version)
      .with("branch", split(f.nvidia().module_version, '.').front());
});

// The version in the version.json of a CUDA toolkit, "12.4.1"; that of nvcc, if it is there.
std::string toolkit_version(const Machine& machine, const std::string& folder) {
  const auto text = machine.read(folder + "/version.json");
  const auto document = nlohmann::json::parse(text.value_or(""), nullptr, false);
  for (const char* part : {"cuda_nvcc", "cuda", "cuda_cudart"})
    if (document.is_object() && document.contains(part) && document[part].is_object() &&
        document[part].contains("version") && document[part]["version"].is_string())
      return document[part]["version"].get<std::string>();
  return {};
}

const AddProbe toolkit("nvidia.toolkit.driver", [](const Facts& f) {
  const auto driver = Version::parse(f.nvidia().version);
  const std::string version = toolkit_version(f.machine(), "/usr/local/cuda");
  const auto parsed = Version::parse(version);
  if (!driver || !parsed) return skip();
  const Compatibility& known = Compatibility::known();
  const auto needed = known.oldest_driver(*parsed);
  if (!needed || *driver >= *needed) return pass();
  std::string newest;
  for (const auto& one : known.cuda)
    if (const auto oldest = known.oldest_driver(one.version); oldest && *driver >= *oldest)
      newest = one.version.text();
  return fail()
      .seen("/usr/local/cuda/version.json", shortened(version))
      .seen(f.nvidia().source, f.nvidia().version)
      .with("toolkit", parsed->first(2).text())
      .with("needed", needed->text())
      .with("driver", f.nvidia().version)
      .with("newest", newest.empty() ? "-" : newest);
});

// The number in "#if __GNUC__ > 13" of CUDA's host_config.h.
int newest_gcc(std::string_view header) {
  int newest = 0;
  for (const std::string& line : split(header, '\n')) {
    const size_t at = line.find("__GNUC__ > ");
    if (line.find("#if") == std::string::npos || at == std::string::npos) continue;
    int number = 0;
    std::from_chars(line.data() + at + 11, line.data() + line.size(), number);
    newest = std::max(newest, number);
  }
  return newest;
}

const AddProbe nvcc("nvidia.nvcc", [](const Facts& f) {
  const Machine& machine = f.machine();
  const std::string header = "/usr/local/cuda/include/crt/host_config.h";
  const int newest = newest_gcc(machine.read(header).value_or(""));
  if (newest == 0 || !machine.exists("/usr/local/cuda/bin/nvcc")) return skip();
  // The user has chosen a compiler.
  for (const char* name : {"NVCC_CCBIN", "CUDAHOSTCXX", "NVCC_PREPEND_FLAGS"})
    if (f.variable(name)) return pass();
  // "x86_64-linux-gnu-gcc-14"
  const std::string program = machine.resolve("/usr/bin/gcc").value_or("");
  int gcc = 0;
  const size_t dash = program.rfind('-');
  if (dash != std::string::npos)
    std::from_chars(program.data() + dash + 1, program.data() + program.size(), gcc);
  if (gcc == 0)
    for (const std::string& folder : machine.glob("/usr/lib/gcc/x86_64-*/*"))
      std::from_chars(folder.data() + folder.rfind('/') + 1, folder.data() + folder.size(), gcc);
  if (gcc <= newest) return pass();
  const auto version = Version::parse(toolkit_version(machine, "/usr/local/cuda"));
  return fail()
      .seen(header, fmt::format("__GNUC__ > {}", newest))
      .seen("/usr/bin/gcc", program.empty() ? std::to_string(gcc) : program)
      .with("toolkit", version ? version->first(2).text() : "?")
      .with("gcc", std::to_string(gcc))
      .with("newest", std::to_string(newest))
      .with("path", header);
});

}  // namespace
}  // namespace athanor::doctor
