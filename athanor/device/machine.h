// The examined machine: its files, environment and user, all read through one root.
//
// `detect` and `doctor` read the machine only through this class. So they can examine a folder with a copy of
// another machine's files (`--root DIR`), and a test can use any machine.
//
// A recorded machine is a tree of files in the real formats: sys/, proc/, dev/, etc/, var/, usr/, home/.
// Files belong to root, those under the user's home to the user; their mode is that of the copy. Files under
// dev/ count as devices. DIR/machine.toml has facts that files cannot hold; every part of it is optional:
//
//     [files."/dev/kfd"]            # what a copy loses: owner, group, mode; kind (file, device)
//     mode = "0660"
//     uid = 0
//     gid = 110
//     [disks."/home"]               # statvfs, for all paths under that folder
//     total_bytes = 500_000_000_000
//     free_bytes = 2_000_000
//     read_only = false
//     [environment]                 # besides proc/self/environ
//     HSA_OVERRIDE_GFX_VERSION = "10.3.0"
//     [clock]                       # seconds since 1970
//     now = 1_790_000_000
//     [[opencl]]                    # a runtime's answers, one table a device: opencl, hip, cuda, nvml
//     name = "gfx1030"
//     compute_units = 36
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// How this machine's user can use a file.
enum class Access { missing, none, read, write, read_write };

struct FileStatus {
  enum class Kind { missing, file, folder, link, device, other } kind = Kind::missing;
  uint32_t mode = 0;  // permission bits
  uint32_t uid = 0, gid = 0;
  uint64_t bytes = 0;
};

struct DiskSpace {
  uint64_t total_bytes = 0, free_bytes = 0;
  bool read_only = false;
};

struct User {
  uint32_t uid = 0, gid = 0;
  std::set<uint32_t> groups;  // `gid` and the supplementary groups
  std::string name;           // "" if /etc/passwd has none
  std::string home;
};

/// Paths are absolute, as on the machine itself ("/sys/class/drm"). Nothing here throws because of the
/// machine: for a missing, unreadable, endless or malformed file the answer is empty. Symbolic links, also
/// absolute ones, are followed inside the root and never lead out of it.
class Machine {
 public:
  /// This machine, with this process's environment and user.
  Machine();
  /// The machine recorded in a folder. Its environment comes from machine.toml and proc/self/environ (with
  /// NUL or newlines between variables), not from this process. The user is that of proc/self/status, else
  /// root. Throws Error(io) if `root` is not a folder, and Error(format) for a malformed machine.toml.
  explicit Machine(std::filesystem::path root);

  /// Whether this is the running machine, so that libraries can be loaded and devices asked.
  bool live() const;
  /// "/" for this machine.
  const std::filesystem::path& root() const { return root_; }

  /// The text of a file, at most its first `limit` bytes; none if it is missing or unreadable. It ends at the
  /// first NUL, because some files of /sys are padded with NULs to a whole page.
  std::optional<std::string> read(std::string_view path, size_t limit = 1 << 20) const;
  /// The bytes of a file that is not text (a device's configuration space, /proc/self/environ), including
  /// NULs.
  std::optional<std::string> read_bytes(std::string_view path, size_t limit = 1 << 20) const;
  /// The text without the white space around it, for most files of /sys.
  std::optional<std::string> read_line(std::string_view path) const;
  /// A number in decimal, or hexadecimal with 0x.
  std::optional<int64_t> read_number(std::string_view path) const;
  /// The names in a folder, sorted so that "card2" comes before "card10".
  std::vector<std::string> list(std::string_view folder) const;
  /// Paths matching a pattern with * and ? within folder names ("/sys/class/drm/card*/device"), sorted
  /// likewise.
  std::vector<std::string> glob(std::string_view pattern) const;
  /// The target of a symbolic link, as written.
  std::optional<std::string> link(std::string_view path) const;
  /// The path with every link in it followed; none if it leads nowhere.
  std::optional<std::string> resolve(std::string_view path) const;
  bool exists(std::string_view path) const;
  /// Whether the path's target may exist in a folder that this user may not read.
  bool hidden(std::string_view path) const;
  /// Whether a missing file is really missing. On a recorded machine this is not known if nothing of its top
  /// folder ("/dev") was recorded.
  bool covers(std::string_view path) const;
  /// The same for the folders with shared libraries.
  bool covers_libraries() const;
  /// The status of the path's target, or of the link itself if it leads nowhere.
  FileStatus status(std::string_view path) const;
  /// How the user can use a file: by its mode, owner and groups; on the live machine the system is asked
  /// (access(2)).
  Access access(std::string_view path) const;
  /// Why this user cannot make files in a folder; "" if they can. By access(); on the live machine by making
  /// a file and removing it.
  std::string refusal_of_files(std::string_view folder) const;
  std::optional<DiskSpace> disk(std::string_view path) const;

  std::optional<std::string> environment(const std::string& name) const;
  /// Names of all variables that are set, sorted.
  std::vector<std::string> environment_names() const;
  const User& user() const;
  /// The name of a group, by /etc/group; "" for an unknown one.
  std::string group_name(uint32_t gid) const;
  /// Seconds since 1970.
  int64_t now() const;

  /// The kernel's log (/dev/kmsg, else a file such as /var/log/dmesg, /var/log/kern.log or syslog), newest
  /// last; none if it cannot be read.
  std::optional<std::string> kernel_log() const;

  /// The files that the dynamic linker would find for a library ("libcuda.so*"), by LD_LIBRARY_PATH,
  /// /etc/ld.so.conf and its usual folders, in its order. Nothing is loaded.
  std::vector<std::string> libraries(std::string_view name_pattern) const;

  /// machine.toml of a recorded machine as JSON text ("{}" if it has none).
  const std::string& recorded() const;

 private:
  struct Record;  // machine.toml of a recorded machine
  std::filesystem::path on_disk(std::string_view resolved) const;
  /// The path with links followed, the last part only if `last_too`; none if it leads nowhere. `stopped`: the
  /// last folder that exists on the way.
  std::optional<std::string> follow(std::string_view path, bool last_too,
                                    std::string* stopped = nullptr) const;

  std::filesystem::path root_;
  std::shared_ptr<const Record> record_;  // none: live
  std::map<std::string, std::string> environment_;
  User user_;
};

}  // namespace athanor
