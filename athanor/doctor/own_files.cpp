#include "athanor/doctor/own_files.h"

#include <algorithm>

#include "athanor/base/text.h"
#include "athanor/doctor/facts.h"

namespace athanor::doctor {
namespace {

// Folders of the system, with everything in them.
constexpr std::string_view system_trees[] = {
    "/bin",  "/boot", "/dev",  "/efi",  "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix",    "/proc",
    "/root", "/run",  "/sbin", "/snap", "/sys", "/usr", "/var",   "/opt",   "/gnu",    "/ostree", "/sysroot",
};
// Exceptions: people's homes and files are here.
constexpr std::string_view people_trees[] = {"/root/", "/usr/home/", "/var/home/", "/var/tmp/"};

bool in_tree(std::string_view path, std::string_view tree) {
  return path.starts_with(tree) && (path.size() == tree.size() || path[tree.size()] == '/');
}

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool is_folder(const Machine& machine, const std::string& path) {
  return machine.status(path).kind == FileStatus::Kind::folder;
}

// For root, root's home is not a folder of the system.
bool is_home(const Machine& machine, const std::string& path) {
  const User& user = machine.user();
  const bool root = user.uid == 0 && path == "/root";
  return is_plain_path(path) && is_folder(machine, path) && machine.status(path).uid == user.uid &&
         (root || !leads_to_system(machine, path));
}

bool has_our_name(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.starts_with("athanor") || name.starts_with(".athanor");
}

// The folder that an XDG variable names, or the usual one in the home. By the standard, programs ignore a
// relative path; here it means no folder at all, so that a setting is never overlooked.
std::string base_folder(const Machine& machine, const char* variable, const char* usual,
                        const std::string& home) {
  if (const auto folder = machine.environment(variable); folder && !folder->empty())
    return is_plain_path(*folder) ? *folder : "";
  return home.empty() ? "" : home + usual;
}

// Whether the owner is neither the user nor root, who may have made it for the user with `sudo`.
bool is_anothers(const Machine& machine, const std::string& path) {
  const uint32_t owner = machine.status(path).uid;
  return owner != 0 && owner != machine.user().uid;
}

// Whether a folder exists or could be made: in the home, or in another existing folder.
bool may_be_made(const Machine& machine, const std::string& path, const std::string& home) {
  const FileStatus status = machine.status(path);
  if (status.kind != FileStatus::Kind::missing)
    return status.kind == FileStatus::Kind::folder && !is_anothers(machine, path);
  if (!home.empty() && in_tree(path, home)) return true;
  return is_folder(machine, parent_of(path)) && !is_anothers(machine, parent_of(path));
}

}  // namespace

bool is_plain_path(std::string_view path) {
  if (path.size() < 2 || path[0] != '/' || path.back() == '/') return false;
  if (std::any_of(path.begin(), path.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }))
    return false;
  const auto parts = split(path.substr(1), '/');
  return std::none_of(parts.begin(), parts.end(),
                      [](const std::string& part) { return part.empty() || part == "." || part == ".."; });
}

bool is_system_path(std::string_view path) {
  if (!is_plain_path(path)) return true;
  if (std::count(path.begin(), path.end(), '/') < 2) return true;  // "/home", "/tmp", "/data"
  if (path.starts_with("/.")) return true;                         // "/.cache/athanor", if HOME is "/"
  for (const std::string_view tree : people_trees)
    if (path.starts_with(tree)) return false;
  return std::any_of(std::begin(system_trees), std::end(system_trees),
                     [&](std::string_view tree) { return in_tree(path, tree); });
}

bool leads_to_system(const Machine& machine, const std::string& path) {
  if (is_system_path(path)) return true;
  // A missing path will be in the first existing folder above it.
  std::string there = path, missing;
  while (!there.empty() && machine.status(there).kind == FileStatus::Kind::missing) {
    missing.insert(0, there.substr(there.rfind('/')));
    there = parent_of(there);
  }
  const auto real = there.empty() ? std::optional<std::string>("") : machine.resolve(there);
  return !real || is_system_path((*real == "/" ? "" : *real) + missing);
}

std::string cache_folder(const Facts& facts) {
  if (const auto folder = facts.variable("ATHANOR_CACHE"); folder && !folder->empty()) return *folder;
  if (const auto folder = facts.variable("XDG_CACHE_HOME"); folder && !folder->empty())
    return path_in(*folder, "athanor");
  const std::string& home = facts.machine().user().home;
  return home.empty() ? "" : path_in(home, ".cache/athanor");
}

OwnFiles own_files(const Facts& facts) {
  const Machine& machine = facts.machine();
  OwnFiles own;
  if (is_home(machine, machine.user().home)) own.home = machine.user().home;
  const std::string cache = cache_folder(facts);
  if (!leads_to_system(machine, cache)) {
    own.database = path_in(cache, "athanor.db");
    // A folder without Athanor's name, or a link to one, may hold other things than Athanor's.
    const auto real = machine.resolve(cache);
    const bool named = has_our_name(cache) && (!real || has_our_name(*real));
    if (named && may_be_made(machine, cache, own.home)) own.cache = cache;
  }
  const std::string config = base_folder(machine, "XDG_CONFIG_HOME", "/.config", own.home);
  if (const std::string file = environment_file(machine);
      !config.empty() && file == config + "/athanor/env" && !leads_to_system(machine, file) &&
      may_be_made(machine, config, own.home))
    own.environment = file;
  if (!own.home.empty() && !leads_to_system(machine, shell_file(machine))) own.start = shell_file(machine);
  return own;
}

}  // namespace athanor::doctor
