#ifndef _WIN32
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <sstream>

#include "athanor/base/os/system.h"

extern char** environ;

namespace athanor::os {
namespace {

class Descriptor {
 public:
  // O_NONBLOCK: opening a pipe without a writer must not wait.
  explicit Descriptor(const std::filesystem::path& path)
      : value_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int value() const { return value_; }

 private:
  int value_;
};

FileFacts::Kind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return FileFacts::Kind::file;
  if (S_ISDIR(mode)) return FileFacts::Kind::folder;
  if (S_ISLNK(mode)) return FileFacts::Kind::link;
  return S_ISCHR(mode) || S_ISBLK(mode) ? FileFacts::Kind::device : FileFacts::Kind::other;
}

// The boot, the container, the number, and the time of the start of a process; "" if there is none.
std::string identity_of(const std::string& number) {
  constexpr size_t longest = 4096;
  const auto boot = read_some("/proc/sys/kernel/random/boot_id", longest);
  const auto facts = read_some("/proc/" + number + "/stat", longest);  // "7 (name) S 1 ..."
  std::error_code unknown;
  const auto space = std::filesystem::read_symlink("/proc/self/ns/pid", unknown).string();
  if (!boot || !facts || facts->rfind(')') == std::string::npos) return {};  // the name may hold anything
  std::istringstream fields(facts->substr(facts->rfind(')') + 1));
  std::string state, field;
  fields >> state;
  constexpr int before_start = 18;  // proc(5): the start is field 22, the state field 3
  for (int i = 0; i < before_start; ++i) fields >> field;
  fields >> field;
  if (!fields || state == "Z" || state == "X") return {};
  return boot->substr(0, boot->find('\n')) + ' ' + space + ' ' + number + ' ' + field;
}

// Extracts the text from "6,1234,5678,-;text" and lines of " KEY=value" after it.
std::string_view message_of(std::string_view record) {
  const size_t start = record.find(';');
  if (start == std::string_view::npos) return {};
  record.remove_prefix(start + 1);
  return record.substr(0, record.find('\n'));
}

}  // namespace

std::optional<FileFacts> file_facts(const std::filesystem::path& path) {
  struct stat facts {};
  if (lstat(path.c_str(), &facts) != 0) return std::nullopt;
  return FileFacts{kind_of(facts.st_mode), facts.st_mode & 07777U, facts.st_uid, facts.st_gid,
                   static_cast<uint64_t>(std::max<off_t>(0, facts.st_size))};
}

std::optional<std::string> read_some(const std::filesystem::path& path, size_t limit, bool from_end) {
  const Descriptor file(path);
  struct stat facts {};
  if (file.value() < 0 || fstat(file.value(), &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  if (from_end && facts.st_size > static_cast<off_t>(limit))
    lseek(file.value(), facts.st_size - static_cast<off_t>(limit), SEEK_SET);
  std::string text;
  std::array<char, 16384> part{};
  while (text.size() < limit) {
    const ssize_t count = ::read(file.value(), part.data(), std::min(part.size(), limit - text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && text.empty()) return std::nullopt;
    if (count <= 0) break;
    text.append(part.data(), static_cast<size_t>(count));
  }
  return text;
}

bool may_read(const std::filesystem::path& path) {
  return faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) == 0;
}

bool may_write(const std::filesystem::path& path) {
  return faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
}

std::error_code refusal_of_files(const std::filesystem::path& folder) {
#ifdef O_TMPFILE
  // A file without a name, which no other process sees. Not every file system has such files.
  if (const int file = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600); file >= 0) {
    close(file);
    return {};
  }
#endif
  std::string name = (folder / "athanor-trial-XXXXXX").string();
  const int file = mkstemp(name.data());
  if (file < 0) return {errno, std::generic_category()};
  close(file);
  unlink(name.c_str());
  return {};
}

std::optional<Space> space(const std::filesystem::path& path) {
  struct statvfs facts {};
  if (statvfs(path.c_str(), &facts) != 0) return std::nullopt;
  const uint64_t block = facts.f_frsize;
  return Space{facts.f_blocks * block, facts.f_bavail * block, (facts.f_flag & ST_RDONLY) != 0};
}

ProcessUser process_user() {
  ProcessUser user{geteuid(), getegid(), {}};
  std::vector<gid_t> groups(static_cast<size_t>(std::max(0, getgroups(0, nullptr))));
  const int count = getgroups(static_cast<int>(groups.size()), groups.data());
  for (int i = 0; i < count; ++i) user.groups.push_back(groups[static_cast<size_t>(i)]);
  return user;
}

std::string process_identity() { return identity_of(std::to_string(getpid())); }

bool is_running(const std::string& identity) {
  std::istringstream fields(identity);
  std::string boot, space, number;
  fields >> boot >> space >> number;
  return fields && number.find_first_not_of("0123456789") == std::string::npos &&
         identity_of(number) == identity;
}

std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char** one = environ; one != nullptr && *one != nullptr; ++one) all.emplace_back(*one);
  return all;
}

std::optional<std::string> kernel_messages(size_t limit) {
  const Descriptor log("/dev/kmsg");
  if (log.value() < 0) return std::nullopt;
  std::string text;
  // the kernel returns one record at a time, and refuses a buffer that is too small
  std::array<char, 8192> record{};
  constexpr int most_records = 200'000;
  for (int i = 0; i < most_records; ++i) {
    const ssize_t count = ::read(log.value(), record.data(), record.size());
    // EPIPE: the record was overwritten in the meantime, so take the next one
    if (count < 0 && (errno == EPIPE || errno == EINTR)) continue;
    if (count <= 0) break;  // EAGAIN: that was the last
    text.append(message_of({record.data(), static_cast<size_t>(count)})).push_back('\n');
    if (text.size() > 2 * limit) text.erase(0, text.size() - limit);
  }
  if (text.size() > limit) text.erase(0, text.size() - limit);
  return text;
}

}  // namespace athanor::os
#endif
