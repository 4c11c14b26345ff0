// Variables, start files, libraries, folders, network.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "athanor/base/sqlite.h"
#include "athanor/base/text.h"
#include "athanor/doctor/facts/certificates.h"
#include "athanor/doctor/facts/network.h"
#include "athanor/doctor/own_files.h"
#include "athanor/doctor/probes/shared.h"
#include "athanor/kernels/cache.h"

namespace athanor::doctor {
namespace {

const AddProbe visible("environment.visible_devices", [](const Facts& f) {
  bool any = false;
  for (const auto& [name, vendor] :
       {std::pair{"CUDA_VISIBLE_DEVICES", Vendor::nvidia},
        std::pair{"NVIDIA_VISIBLE_DEVICES", Vendor::nvidia}, std::pair{"HIP_VISIBLE_DEVICES", Vendor::amd},
        std::pair{"ROCR_VISIBLE_DEVICES", Vendor::amd}, std::pair{"CUDA_VISIBLE_DEVICES", Vendor::amd}}) {
    const auto value = f.variable(name);
    const size_t count = f.gpus(vendor).size();
    if (!value || count == 0) continue;
    any = true;
    const std::string first = trim(std::string_view(*value).substr(0, value->find(',')));
    int number = -1;
    const auto parsed = std::from_chars(first.data(), first.data() + first.size(), number);
    const bool is_number = parsed.ec == std::errc() && parsed.ptr == first.data() + first.size();
    // Names ("GPU-8932...", "all") are not checked here.
    const bool named =
        !first.empty() && !is_number && first != "none" && first != "NoDevFiles" && first != "void";
    if (named || (is_number && number >= 0 && number < static_cast<int>(count))) continue;
    Finding finding = fail();
    finding.seen(fmt::format("${}", name), value->empty() ? "''" : shortened(*value));
    for (const Setting& setting : f.shell())
      if (setting.name == name && !setting.unset) finding.seen(setting.where(), shortened(setting.value));
    return finding.with("variable", name)
        .with("shown", value->empty() ? "''" : shortened(*value))
        .with("count", std::to_string(count));
  }
  return any ? pass() : skip();
});

// Variables that GPU programs read; doctor ignores all others in a start file.
bool matters(std::string_view name) {
  for (const char* prefix :
       {"HSA_",   "HIP_",     "ROCR_", "ROCM_", "GPU_", "CUDA_", "NVIDIA_",  "NCCL_", "RCCL_",    "MIOPEN_",
        "TORCH_", "PYTORCH_", "TF_",   "XLA_",  "JAX_", "OMP_",  "ATHANOR_", "OCL_",  "RUSTICL_", "AMD_"})
    if (name.starts_with(prefix)) return true;
  return name == "LD_LIBRARY_PATH";
}

const AddProbe not_exported("environment.not_exported", [](const Facts& f) {
  for (const Setting& setting : f.shell()) {
    if (!matters(setting.name) || setting.exported || setting.unset || setting.conditional) continue;
    const bool elsewhere = std::any_of(f.shell().begin(), f.shell().end(), [&](const Setting& other) {
      return other.name == setting.name && other.exported;
    });
    if (elsewhere || f.variable(setting.name)) continue;
    return fail()
        .seen(setting.where(), fmt::format("{}={}", setting.name, shortened(setting.value)))
        .with("variable", setting.name)
        .with("value", setting.value)
        .with("where", setting.where());
  }
  return f.shell().empty() ? skip() : pass();
});

const AddProbe overridden("environment.overridden", [](const Facts& f) {
  std::map<std::string, const Setting*> last;
  for (const Setting& setting : f.shell()) {
    if (!matters(setting.name) || setting.conditional || setting.unset) continue;
    const Setting* before = last[setting.name];
    last[setting.name] = &setting;
    // "PATH=$PATH:..." keeps the old value.
    if (before == nullptr || before->value == setting.value ||
        setting.value.find("$" + setting.name) != std::string::npos ||
        setting.value.find("${" + setting.name) != std::string::npos)
      continue;
    return fail()
        .seen(before->where(), fmt::format("{}={}", setting.name, shortened(before->value)))
        .seen(setting.where(), fmt::format("{}={}", setting.name, shortened(setting.value)))
        .with("variable", setting.name)
        .with("first", before->where())
        .with("where", setting.where())
        .with("old", shortened(before->value))
        .with("new", shortened(setting.value));
  }
  return f.shell().empty() ? skip() : pass();
});

// A file in a folder whose name starts with `name`: "/usr/local/cuda/lib64/libcublasLt.so.11".
std::string library_in(const Machine& machine, const std::string& folder, const std::string& name) {
  for (const std::string& file : machine.list(folder))
    if (file.starts_with(name + ".so")) return fmt::format("{}/{}", folder, file);
  return {};
}

const AddProbe library_path("environment.library_path", [](const Facts& f) {
  const auto path = f.variable("LD_LIBRARY_PATH");
  if (!path || f.torches().empty()) return skip();
  const Machine& machine = f.machine();
  for (const TorchBuild& torch : f.torches()) {
    if (torch.folder.empty() || !torch.environment->on_path) continue;
    const std::string packages = torch.folder.substr(0, torch.folder.rfind('/'));
    for (const char* name :
         {"libcublasLt", "libcublas", "libcudnn", "libnvJitLink", "libcusparse", "librocblas", "libMIOpen"}) {
      std::string own = library_in(machine, torch.folder + "/lib", name);
      for (const char* part : {"cublas", "cudnn", "nvjitlink", "cusparse", "cu13"})
        if (own.empty()) own = library_in(machine, packages + "/nvidia/" + part + "/lib", name);
      if (own.empty()) continue;
      for (const std::string& folder : split(*path, ':')) {
        if (!folder.starts_with("/") || folder.starts_with(packages)) continue;
        const std::string other = library_in(machine, folder, name);
        if (other.empty()) continue;
        return fail()
            .seen("$LD_LIBRARY_PATH", shortened(*path))
            .seen(other, "first")
            .seen(own, "second")
            .with("library", name)
            .with("own", own)
            .with("other", other)
            .with("variable", "LD_LIBRARY_PATH");
      }
    }
  }
  return pass();
});

const AddProbe tmp("environment.tmp", [](const Facts& f) {
  const auto folder = f.variable("TMPDIR");
  if (!folder || folder->empty()) return skip();
  const std::string refusal = f.machine().refusal_of_files(*folder);
  if (refusal.empty()) return pass();
  return fail()
      .seen("$TMPDIR", shortened(*folder))
      .seen(*folder, f.machine().exists(*folder) ? refusal : "-")
      .with("path", shortened(*folder))
      .with("variable", "TMPDIR");
});

// SQLite's user_version, from the header of a database.
std::optional<uint32_t> version_of_database(const Machine& machine, const std::string& file) {
  constexpr size_t at = 60;
  const auto head = machine.read_bytes(file, database_head);
  if (!head || head->size() < database_head || !is_database_head(*head)) return std::nullopt;
  uint32_t version = 0;
  for (size_t i = at; i < at + 4; ++i) version = version << 8 | static_cast<uint8_t>((*head)[i]);
  return version;
}

// Folders in which only the kernel makes folders, whatever their modes say.
bool is_kernels(const std::string& folder) {
  return folder == "/proc" || folder == "/sys" || folder.starts_with("/proc/") || folder.starts_with("/sys/");
}

// A cache folder in /tmp that is the user's own or does not exist: any user could have made one of this name.
std::string temporary_cache(const Machine& machine) {
  const std::string usual = fmt::format("/tmp/athanor-{}", machine.user().uid);
  std::string folder = usual;
  for (int i = 2; machine.status(folder).kind != FileStatus::Kind::missing &&
                  (machine.link(folder) || machine.status(folder).uid != machine.user().uid ||
                   machine.status(folder).kind != FileStatus::Kind::folder);
       ++i)
    folder = fmt::format("{}-{}", usual, i);
  return folder;
}

const AddProbe cache("environment.cache", [](const Facts& f) {
  std::string folder = cache_folder(f);
  if (folder.empty()) return skip();
  if (!folder.starts_with("/"))
    return skip().seen(folder, "is not an absolute path, so it depends on where Athanor is started");
  const std::string whole = folder;
  const Machine& machine = f.machine();
  // A folder that does not exist yet will be made in the first existing folder above it.
  while (folder.size() > 1 && machine.status(folder).kind == FileStatus::Kind::missing)
    folder = folder.substr(0, std::max<size_t>(1, folder.rfind('/')));
  const auto space = machine.disk(folder);
  const std::string database = path_in(whole, "athanor.db");
  const FileStatus status = machine.status(folder), file = machine.status(database);
  const bool no_folder = status.kind != FileStatus::Kind::folder || (folder != whole && is_kernels(folder));
  const bool full = space && space->total_bytes > 0 && space->free_bytes < (uint64_t{16} << 20);
  const bool read_only = space && space->read_only;
  const bool file_refused = machine.exists(database) && machine.access(database) != Access::read_write;
  const auto version = version_of_database(machine, database);
  const bool later = version && *version > static_cast<uint32_t>(KernelCache::schema);
  const std::string refusal = no_folder ? "" : machine.refusal_of_files(folder);
  const bool refused = file_refused || !refusal.empty();
  if (!no_folder && !full && !read_only && !refused && !later) return pass();
  // Whether another owner or mode would solve it.
  const Access allowed = machine.access(folder);
  const bool by_mode = file_refused || (allowed != Access::write && allowed != Access::read_write);
  Finding finding = fail();
  if (no_folder)
    finding.seen(folder, status.kind != FileStatus::Kind::folder ? "not a folder" : "made by the kernel");
  else if (read_only || full)
    finding.seen(folder, read_only ? "ro" : fmt::format("{} B free", space->free_bytes));
  else if (refused && !by_mode)
    finding.seen(folder, fmt::format("takes no new file: {}", refusal));
  else if (refused)
    finding.seen(file_refused ? database : folder,
                 fmt::format("uid {}, gid {}, mode {:04o}", (file_refused ? file : status).uid,
                             (file_refused ? file : status).gid, (file_refused ? file : status).mode));
  else
    finding.seen(database, fmt::format("format {}, of a later Athanor; this one's is {}", *version,
                                       KernelCache::schema));
  // Existing folders are given back to the user; missing ones are made for them.
  const std::string own = own_files(f).cache;
  const bool mended = refused && by_mode && !no_folder && !full && !read_only && !own.empty();
  return finding.with("path", whole)
      .with("kind", !mended               ? "other"
                    : machine.exists(own) ? "own"
                                          : "make")
      .with("cache_folder", own)
      .with("variable", "ATHANOR_CACHE")
      .with("value", temporary_cache(machine));
});

const AddProbe cache_corrupt("environment.cache.corrupt", [](const Facts& f) {
  const std::string folder = cache_folder(f), file = path_in(folder, "athanor.db");
  if (!folder.starts_with("/")) return skip();
  const auto head = f.machine().read_bytes(file, database_head);
  if (!head) return skip();
  // A database that nothing was written to yet is empty.
  if (head->empty()) return pass();
  if (!head->starts_with(std::string_view("SQLite format 3\0", 16)))
    return fail().seen(file, "not 'SQLite format 3'").with("path", file).with("cache_file", file);
  if (!is_database_head(*head))
    return fail().seen(file, "its head is not a database's").with("path", file).with("cache_file", file);
  const auto place = f.machine().resolve(file);
  sqlite3* database = place ? open_foreign_database(f.machine().root() / place->substr(1)) : nullptr;
  if (database == nullptr) return skip();
  const std::string damage = find_damage(database);
  close_database(database);
  if (damage.empty()) return pass();
  return fail().seen(file, "PRAGMA integrity_check: " + damage).with("path", file).with("cache_file", file);
});

const AddProbe port("environment.port", [](const Facts& f) {
  const auto text = f.variable("MASTER_PORT");
  uint16_t number = 29500;  // torch.distributed's
  if (text && std::from_chars(text->data(), text->data() + text->size(), number).ec != std::errc())
    return skip();
  std::set<uint16_t> taken;
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"})
    taken.merge(listening_ports(f.machine().read(file).value_or("")));
  if (!taken.contains(number)) return taken.empty() ? skip() : pass();
  uint16_t other = number;
  while (taken.contains(other)) ++other;
  Finding finding = text ? fail() : warn();
  return finding.seen("/proc/net/tcp", fmt::format("LISTEN {}", number))
      .with("port", std::to_string(number))
      .with("variable", "MASTER_PORT")
      .with("value", std::to_string(other));
});

const AddProbe certificates("environment.certificates", [](const Facts& f) {
  const Machine& machine = f.machine();
  constexpr size_t largest = size_t{4} << 20;
  const auto problem_of = [&](const std::string& file) -> std::string {
    const auto text = machine.read(file, largest);
    if (!text) return "(missing)";
    const auto ends = certificate_ends(*text);
    const auto gone =
        std::count_if(ends.begin(), ends.end(), [&](int64_t end) { return end < machine.now(); });
    // Bundles always contain a few expired ones. If most have expired, the bundle is not updated.
    if (!ends.empty() && gone * 2 > static_cast<int64_t>(ends.size()))
      return fmt::format("({} / {} expired, {})", gone, ends.size(),
                         date_text(*std::max_element(ends.begin(), ends.end())));
    return {};
  };
  for (const char* name : {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"})
    if (const auto file = f.variable(name); file && !file->empty())
      if (const std::string problem = problem_of(*file); !problem.empty())
        return fail()
            .seen(fmt::format("${}", name), shortened(*file))
            .seen(*file, problem)
            .with("path", shortened(*file))
            .with("kind", "variable")
            .with("variable", name);
  for (const char* file :
       {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"})
    if (machine.exists(file)) {
      const std::string problem = problem_of(file);
      if (problem.empty()) return pass();
      return fail().seen(file, problem).with("path", file).with("kind", "system");
    }
  return skip();
});

}  // namespace
}  // namespace athanor::doctor
