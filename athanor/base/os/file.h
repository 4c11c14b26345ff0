// Files, as the operating system provides them.
//
// This is the only code that knows file descriptors. Everything here reports failure as std::system_error
// with the system's code; athanor/base/file.h turns that into messages for people.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

namespace athanor::os {

enum class Open {
  read,     // an existing file, for reading; does not wait for a pipe without a writer
  write,    // for writing in place; created if missing
  append,   // every write goes to the end; created if missing
  scratch,  // created or emptied, and locked against other processes and threads until closed
};

/// An open file; closed on destruction.
class File {
 public:
  File(const std::filesystem::path& path, Open how);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  enum class Kind { file, folder, pipe, device };
  Kind kind() const;
  /// Fills `out` and returns its size, or less if the file ends before. Waits for data from a pipe; fails
  /// with timed_out if nothing comes for 10 seconds.
  size_t read(std::span<std::byte> out);
  /// Writes all of `data` or throws; a size limit of the process is an error here, not a signal.
  void write(std::span<const std::byte> data);
  uint64_t size() const;
  void truncate(uint64_t size);
  /// Returns when the content is on the disk.
  void sync();

 private:
  intptr_t handle_;  // a file descriptor, or a HANDLE on Windows
};

/// A lock that one process holds at a time, represented by a file. It is released when the object is
/// destroyed or the process ends, even by a crash. The file stays; its existence alone means nothing.
class Lock {
 public:
  /// Takes the lock, and creates the file if it is missing. None if another process holds it. On file systems
  /// without locks, every process gets it.
  static std::optional<Lock> take(const std::filesystem::path& path);
  ~Lock();
  Lock(Lock&& other) noexcept;
  Lock& operator=(Lock&& other) noexcept;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  explicit Lock(intptr_t handle) : handle_(handle) {}
  intptr_t handle_;
};

/// Renames `from` to `to` in one step, replacing an existing file.
void replace_file(const std::filesystem::path& from, const std::filesystem::path& to);

/// Whether this user or root made every part of the path that lies in a folder where any user may write
/// ("/tmp/x").
bool made_by_us(const std::filesystem::path& folder);

/// Returns when the names in `folder` are on the disk. Returns at once if the folder cannot be read.
void sync_folder(const std::filesystem::path& folder);

}  // namespace athanor::os
