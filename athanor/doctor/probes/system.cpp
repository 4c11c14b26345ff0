// The system around the devices.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "athanor/base/text.h"
#include "athanor/doctor/compatibility.h"
#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {
namespace {

constexpr uint64_t mib = uint64_t{1} << 20;

const AddProbe modules("kernel.modules", [](const Facts& f) {
  const System& system = f.system();
  // Containers and WSL have no kernel modules.
  if (!system.container.empty() || system.wsl || system.kernel.empty()) return skip();
  const auto installed = f.machine().list("/lib/modules");
  if (installed.empty()) return skip();
  if (std::find(installed.begin(), installed.end(), system.kernel) != installed.end()) return pass();
  return fail()
      .seen("/proc/sys/kernel/osrelease", system.kernel)
      .seen("/lib/modules", join(installed))
      .with("installed", join(installed));
});

const AddProbe secure_boot("kernel.secure_boot", [](const Facts& f) {
  if (f.system().secure_boot != true) return f.system().secure_boot ? pass() : skip();
  const auto module_of = [](const std::string& line) {
    return line.find("nvidia") != std::string::npos   ? "nvidia"
           : line.find("amdgpu") != std::string::npos ? "amdgpu"
                                                      : "";
  };
  // "Loading of unsigned module is rejected", "Loading of module with unavailable key is rejected"; modprobe
  // says "Key was rejected by service".
  for (const auto& parts : {std::vector<std::string_view>{"Loading of", "module", "is rejected"},
                            std::vector<std::string_view>{"Key was rejected by service"}})
    for (const std::string& line : f.log_lines(parts, 20)) {
      std::string module = module_of(line);
      // The kernel does not name the rejected module, but a missing driver does.
      for (const Gpu* gpu : computing_gpus(f))
        if (module.empty() && gpu->driver.empty())
          module = gpu->vendor == Vendor::nvidia ? "nvidia" : "amdgpu";
      if (module.empty() || f.has_module(module)) continue;
      return fail().seen("efivars/SecureBoot", "1").seen("kernel log", line).with("module", module);
    }
  for (const Gpu* gpu : computing_gpus(f)) {
    const std::string module = gpu->vendor == Vendor::nvidia ? "nvidia" : "amdgpu";
    const auto built =
        f.machine().glob("/lib/modules/" + f.system().kernel + "/updates/dkms/" + module + ".ko*");
    if (!gpu->driver.empty() || built.empty() || f.has_module(module)) continue;
    if (f.machine().kernel_log()) continue;  // the log would report it
    return fail().seen("efivars/SecureBoot", "1").seen(built.front(), "not loaded").with("module", module);
  }
  return pass();
});

// "2026-11-20 10:22:33" as seconds since 1970.
std::optional<int64_t> parse_time(std::string_view text) {
  if (text.size() < 16 || text[4] != '-' || text[7] != '-') return std::nullopt;
  const auto number = [&](size_t at, size_t count) {
    int value = -1;
    std::from_chars(text.data() + at, text.data() + at + count, value);
    return value;
  };
  const std::chrono::year_month_day day{std::chrono::year(number(0, 4)),
                                        std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                        std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  const int hour = number(11, 2), minute = number(14, 2);
  if (!day.ok() || hour < 0 || minute < 0) return std::nullopt;
  return std::chrono::sys_days(day).time_since_epoch().count() * int64_t{86400} + hour * 3600 + minute * 60;
}

const AddProbe clock_probe("system.clock", [](const Facts& f) {
  // Dates that cannot be in the future: those of packages, and that of Athanor's own data (a copy of a
  // machine may be older than that).
  std::string newest_source = "Athanor";
  int64_t newest = 0;
  if (f.machine().live()) newest = parse_time(Compatibility::built_in().date + " 00:00").value_or(0);
  const std::string log = f.machine().read("/var/log/dpkg.log", size_t{16} << 20).value_or("");
  const std::string last =
      trim(std::string_view(log).substr(log.size() - std::min<size_t>(log.size(), 4096)));
  if (const auto time = parse_time(std::string_view(last).substr(last.rfind('\n') + 1));
      time && *time > newest)
    newest = *time, newest_source = "/var/log/dpkg.log";
  constexpr int64_t day = 86400;  // logs are in local time
  if (f.machine().now() >= newest - day) return pass();
  return fail()
      .seen(newest_source, date_text(newest))
      .seen("clock", date_text(f.machine().now()))
      .with("path", newest_source)
      .with("now", date_text(f.machine().now()))
      .with("newest", date_text(newest));
});

// Folders that need free space for work.
std::vector<std::string> folders(const Facts& f) {
  std::vector<std::string> all{"/", "/tmp", "/var/tmp"};
  if (!f.machine().user().home.empty()) all.insert(all.begin(), f.machine().user().home);
  return all;
}

const AddProbe disk("system.disk", [](const Facts& f) {
  bool known = false;
  for (const std::string& folder : folders(f)) {
    const auto space = f.machine().disk(folder);
    if (!space || space->total_bytes == 0) continue;
    known = true;
    if (space->read_only || space->free_bytes >= 1024 * mib) continue;
    Finding finding = space->free_bytes < 256 * mib ? fail() : warn();
    return finding.seen(folder, fmt::format("{} B free", space->free_bytes))
        .with("path", folder)
        .with("folder", folder)
        .with("free", format_bytes(space->free_bytes))
        .with("total", format_bytes(space->total_bytes));
  }
  return known ? pass() : skip();
});

const AddProbe read_only("system.read_only", [](const Facts& f) {
  const std::string home = f.machine().user().home;
  for (const std::string& folder : {home, std::string("/tmp")}) {
    const auto space = folder.empty() ? std::nullopt : f.machine().disk(folder);
    if (!space || !space->read_only) continue;
    // The longest mount point above it.
    std::string mount;
    for (const std::string& line : split(f.machine().read("/proc/mounts").value_or(""), '\n'))
      if (const auto words = split(line, ' '); words.size() > 1)
        if (const std::string& point = words[1];
            (point == "/" || folder == point || folder.starts_with(point + "/")) &&
            point.size() > mount.size())
          mount = point;
    return fail()
        .seen(folder, "ro")
        .with("path", folder)
        .with("mounted", mount.empty() ? "no" : "yes")
        .with("mount_point", mount);
  }
  return pass();
});

const AddProbe memory("system.memory", [](const Facts& f) {
  uint64_t total = 0, available = 0;
  for (const std::string& line : split(f.machine().read("/proc/meminfo").value_or(""), '\n'))
    for (const auto& [name, value] : {std::pair{"MemTotal:", &total}, std::pair{"MemAvailable:", &available}})
      if (line.starts_with(name)) {
        const std::string number = trim(std::string_view(line).substr(std::string_view(name).size()));
        std::from_chars(number.data(), number.data() + number.size(), *value);
      }
  if (total == 0) return skip();
  if (available >= 1024 * 1024) return pass();
  return fail()
      .seen("/proc/meminfo", fmt::format("MemAvailable: {} kB", available))
      .with("available", format_bytes(available * 1024))
      .with("total", format_bytes(total * 1024));
});

const AddProbe shm("system.shm", [](const Facts& f) {
  const auto space = f.machine().disk("/dev/shm");
  if (!space || space->total_bytes == 0) return skip();
  if (space->total_bytes > 128 * mib) return pass();
  return fail()
      .seen("/dev/shm", fmt::format("{} B", space->total_bytes))
      .with("total", format_bytes(space->total_bytes))
      .with("container", f.system().container.empty() ? "no" : "yes");
});

const AddProbe glibc("system.glibc", [](const Facts& f) {
  std::string file, version;
  // The package's version tells it; before 2.34, the library's own name did too.
  const Packages& packages = f.packages();
  for (const char* name : {"libc6", "glibc"})
    if (const auto package = packages.versions.find(name); package != packages.versions.end())
      file = name, version = package->second;
  for (const char* pattern : {"/lib/x86_64-linux-gnu/libc-2.*.so", "/lib64/libc-2.*.so"})
    for (const std::string& path : f.machine().glob(pattern))
      file = path, version = path.substr(path.rfind("libc-") + 5);
  const auto parsed = Version::parse(version);
  if (!parsed && !packages.unread.empty())
    return skip().seen(packages.unread, "packages were not read: of rpm's formats only SQLite is known");
  if (!parsed) return skip();
  if (*parsed >= *Version::parse("2.28")) return pass();
  return fail().seen(file, version).with("version", parsed->first(2).text());
});

const AddProbe container_amd("container.amd", [](const Facts& f) {
  if (f.system().container.empty()) return skip();
  std::vector<std::string> missing;
  const Gpu* found = nullptr;
  for (const Gpu& gpu : f.gpus())
    if (gpu.kfd_node >= 0) found = &gpu;
  if (found == nullptr) return skip();
  if (!f.machine().exists("/dev/kfd")) missing.emplace_back("/dev/kfd");
  if (f.machine().glob("/dev/dri/renderD*").empty()) missing.emplace_back("/dev/dri/renderD*");
  if (missing.empty()) return pass();
  Finding finding = fail();
  for (const std::string& file : missing) finding.seen(file, "-");
  return finding.seen("container", f.system().container)
      .with("gpu", found->title())
      .with("missing", join(missing));
});

const AddProbe wsl_gpu("wsl.gpu", [](const Facts& f) {
  if (!f.system().wsl) return skip();
  if (f.machine().exists("/dev/dxg")) return pass();
  return fail().seen("/dev/dxg", "-").seen("/proc/sys/kernel/osrelease", f.system().kernel);
});

const AddProbe wsl_nvidia("wsl.nvidia", [](const Facts& f) {
  if (!f.system().wsl) return skip();
  for (const auto& [name, version] : f.packages().versions)
    if (name.starts_with("nvidia-driver-") || name.starts_with("libnvidia-compute-") || name == "libcuda1")
      return fail().seen(f.packages().record, fmt::format("{} {}", name, version)).with("package", name);
  return pass();
});

}  // namespace
}  // namespace athanor::doctor
