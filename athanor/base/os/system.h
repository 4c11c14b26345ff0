// What the operating system knows about files, the process and itself. Nothing here throws or blocks.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace athanor::os {

struct FileFacts {
  enum class Kind { file, folder, link, device, other } kind = Kind::other;
  uint32_t mode = 0;  // permission bits
  uint32_t uid = 0, gid = 0;
  uint64_t bytes = 0;
};

/// Facts about the path itself: a symbolic link is not followed.
std::optional<FileFacts> file_facts(const std::filesystem::path& path);

/// At most `limit` bytes of an ordinary file, from its start or its end. None if it cannot be read, and for
/// pipes and devices, which could block or never end.
std::optional<std::string> read_some(const std::filesystem::path& path, size_t limit, bool from_end = false);

/// Whether this process may read, or write, an existing file (access(2) for the effective user).
bool may_read(const std::filesystem::path& path);
bool may_write(const std::filesystem::path& path);
/// Why no file can be made in a folder, found by making one and removing it; no error if it can. Permissions
/// are not enough: file systems of the kernel, quotas and immutable folders refuse files, even from root.
std::error_code refusal_of_files(const std::filesystem::path& folder);

struct Space {
  uint64_t total_bytes = 0, free_bytes = 0;
  bool read_only = false;
};
std::optional<Space> space(const std::filesystem::path& path);

struct ProcessUser {
  uint32_t uid = 0, gid = 0;
  std::vector<uint32_t> groups;
};
ProcessUser process_user();

/// Identifies this process, now and later: process numbers are given again, and are the machine's or the
/// container's own. "" if it cannot be found out.
std::string process_identity();
/// Whether the process with this identity still runs. False for one of another machine or container, of which
/// nothing is known here.
bool is_running(const std::string& identity);

/// "NAME=value" of every variable.
std::vector<std::string> environment();

/// The kernel's newest messages, one per line, at most `limit` bytes; none if they cannot be read.
std::optional<std::string> kernel_messages(size_t limit);

}  // namespace athanor::os
