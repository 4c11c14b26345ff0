#ifndef _WIN32
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "athanor/base/os/file.h"

namespace athanor::os {
namespace {

[[noreturn]] void throw_errno(const char* call) {
  throw std::system_error(errno, std::generic_category(), call);
}

/// Calls `f` again for as long as a signal interrupts it; throws when it fails.
template <class F>
auto retried(const char* call, F f) {
  for (;;) {
    const auto result = f();
    if (result >= 0) return result;
    if (errno != EINTR) throw_errno(call);
  }
}

int open_file(const std::filesystem::path& path, int flags) {
  return retried("open", [&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
}

/// Whether `path` still names the file that `fd` has open.
bool still_named(int fd, const std::filesystem::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

/// Opens and locks `path`. A writer that held the lock before renames or removes the file, so this checks the
/// name again after waiting. On file systems without locks it works without one.
int open_scratch(const std::filesystem::path& path) {
  for (;;) {
    const int fd = open_file(path, O_WRONLY | O_CREAT | O_NOFOLLOW);
    while (::flock(fd, LOCK_EX) != 0 && errno == EINTR) {
    }
    if (still_named(fd, path)) return fd;
    ::close(fd);
  }
}

int open_as(const std::filesystem::path& path, Open how) {
  switch (how) {
    case Open::read:
      return open_file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    case Open::write:
      return open_file(path, O_WRONLY | O_CREAT);
    case Open::append:
      return open_file(path, O_WRONLY | O_CREAT | O_APPEND);
    case Open::scratch:
      break;
  }
  return open_scratch(path);
}

/// Writing past RLIMIT_FSIZE raises SIGXFSZ, which ends the process by default. While this exists, the signal
/// is blocked in the calling thread, and the write fails with EFBIG.
class HoldSizeSignal {
 public:
  HoldSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    sigset_t before;
    pthread_sigmask(SIG_BLOCK, &signal_, &before);
    was_blocked_ = sigismember(&before, SIGXFSZ) == 1;
  }
  ~HoldSizeSignal() {
    if (was_blocked_) return;
    sigset_t pending;
    sigpending(&pending);
    int number = 0;
    if (sigismember(&pending, SIGXFSZ) == 1) sigwait(&signal_, &number);
    pthread_sigmask(SIG_UNBLOCK, &signal_, nullptr);
  }
  HoldSizeSignal(const HoldSizeSignal&) = delete;
  HoldSizeSignal& operator=(const HoldSizeSignal&) = delete;

 private:
  sigset_t signal_{};
  bool was_blocked_ = false;
};

/// Returns when a pipe has data or has ended.
void wait_for_data(int fd) {
  constexpr int patience_ms = 10'000;
  pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
  if (retried("poll", [&] { return ::poll(&wanted, 1, patience_ms); }) == 0)
    throw std::system_error(std::make_error_code(std::errc::timed_out), "poll");
}

constexpr size_t most_at_once = size_t{1} << 30;  // Linux moves at most 2 GiB a call, macOS fails above it

}  // namespace

File::File(const std::filesystem::path& path, Open how) : handle_(open_as(path, how)) {
  if (how == Open::scratch) {
    try {
      truncate(0);
    } catch (...) {
      ::close(static_cast<int>(handle_));
      throw;
    }
  }
}

File::~File() {
  if (handle_ >= 0) ::close(static_cast<int>(handle_));
}

File::File(File&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

File::Kind File::kind() const {
  struct stat info {};
  if (::fstat(static_cast<int>(handle_), &info) != 0) throw_errno("fstat");
  if (S_ISDIR(info.st_mode)) return Kind::folder;
  if (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)) return Kind::pipe;
  return S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode) ? Kind::device : Kind::file;
}

size_t File::read(std::span<std::byte> out) {
  const int fd = static_cast<int>(handle_);
  const bool pipe = kind() == Kind::pipe;
  size_t done = 0;
  while (done < out.size()) {
    if (pipe) wait_for_data(fd);
    const size_t want = std::min(out.size() - done, most_at_once);
    const auto got = retried("read", [&] { return ::read(fd, out.data() + done, want); });
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

void File::write(std::span<const std::byte> data) {
  const HoldSizeSignal hold;
  while (!data.empty()) {
    const size_t want = std::min(data.size(), most_at_once);
    const auto put = retried("write", [&] { return ::write(static_cast<int>(handle_), data.data(), want); });
    data = data.subspan(static_cast<size_t>(put));
  }
}

uint64_t File::size() const {
  struct stat info {};
  if (::fstat(static_cast<int>(handle_), &info) != 0) throw_errno("fstat");
  return static_cast<uint64_t>(info.st_size);
}

void File::truncate(uint64_t size) {
  retried("ftruncate", [&] { return ::ftruncate(static_cast<int>(handle_), static_cast<off_t>(size)); });
}

void File::sync() {
  // Pipes and some file systems cannot sync. Nothing more can be done for them.
  if (::fsync(static_cast<int>(handle_)) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS)
    throw_errno("fsync");
}

std::optional<Lock> Lock::take(const std::filesystem::path& path) {
  const int fd = open_file(path, O_WRONLY | O_CREAT | O_NOFOLLOW);
  Lock lock(fd);
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::nullopt;
    if (errno != EINTR) break;
  }
  return lock;
}

Lock::~Lock() {
  if (handle_ >= 0) ::close(static_cast<int>(handle_));
}

Lock::Lock(Lock&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}

Lock& Lock::operator=(Lock&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

void replace_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_errno("rename");
}

bool made_by_us(const std::filesystem::path& folder) {
  std::error_code unknown;
  std::filesystem::path above;
  for (const auto& part : std::filesystem::absolute(folder, unknown).lexically_normal()) {
    const std::filesystem::path here = above / part;
    struct stat outer {
    }, inner{};
    const bool open = !above.empty() && ::stat(above.c_str(), &outer) == 0 && (outer.st_mode & S_IWOTH) != 0;
    // lstat, because a link belongs to the user who made it, wherever it leads.
    if (open && ::lstat(here.c_str(), &inner) == 0 && inner.st_uid != 0 && inner.st_uid != ::geteuid())
      return false;
    above = here;
  }
  return true;
}

void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);  // not every file system can do this; the file itself is on the disk already
  ::close(fd);
}

}  // namespace athanor::os
#endif
