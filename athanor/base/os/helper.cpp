#include "athanor/base/os/helper.h"

#ifndef _WIN32
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <limits>

#include "athanor/base/clock.h"
#include "athanor/base/os/begin_child.h"
#include "athanor/base/os/interrupt.h"

namespace athanor::os {
namespace {

constexpr size_t most_bytes_of_message = size_t{1} << 30;
constexpr double forever = std::numeric_limits<double>::infinity();

// Whether there is something to read or the other end is closed.
bool await_message(int line, double seconds, const std::stop_token& stop) {
  constexpr double turn = 0.05;
  const auto start = Clock::now();
  for (;;) {
    const double left = std::min(seconds - seconds_since(start), turn);
    if (left <= 0) return false;
    pollfd waiting{line, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(left * 1000) + 1) > 0) return true;
    throw_if_interrupted();
    if (stop.stop_requested()) throw Interrupted();
  }
}

bool take(int line, char* to, size_t bytes, double seconds, const std::stop_token& stop) {
  for (size_t done = 0; done < bytes;) {
    if (seconds < forever && !await_message(line, seconds, stop)) return false;
    const ssize_t count = read(line, to + done, bytes - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

bool give(int line, const char* from, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t count = send(line, from + done, bytes - done, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

// A message is its size, then its bytes.
bool give_message(int line, const std::string& text) {
  const uint64_t size = text.size();
  return give(line, reinterpret_cast<const char*>(&size), sizeof size) &&
         give(line, text.data(), text.size());
}

std::optional<std::string> take_message(int line, double seconds, const std::stop_token& stop = {}) {
  uint64_t size = 0;
  if (!take(line, reinterpret_cast<char*>(&size), sizeof size, seconds, stop) || size > most_bytes_of_message)
    return {};
  std::string text(size, '\0');
  if (!take(line, text.data(), text.size(), seconds, stop)) return {};
  return text;
}

}  // namespace

Helper::Helper(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) {
    begin_child(parent, ends[1], -1, -1);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  close(ends[1]);
  line_ = ends[0];
}

Helper::~Helper() {
  if (line_ >= 0) close(line_);
  if (process_ <= 0) return;
  kill(-process_, SIGKILL);
  kill(process_, SIGKILL);  // it may not have its own process group yet
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<std::string> Helper::ask(const std::string& question, double seconds,
                                       const std::stop_token& stop) {
  if (process_ <= 0 || !give_message(line_, question)) return {};
  return take_message(line_, seconds, stop);
}

void answer_questions(const std::function<std::string(const std::string& question)>& answer) {
  while (const auto question = take_message(STDIN_FILENO, forever))
    if (!give_message(STDIN_FILENO, answer(*question))) return;
}

}  // namespace athanor::os
#else
namespace athanor::os {

Helper::Helper(std::vector<std::string>) {}
Helper::~Helper() = default;
std::optional<std::string> Helper::ask(const std::string&, double, const std::stop_token&) { return {}; }
void answer_questions(const std::function<std::string(const std::string& question)>&) {}

}  // namespace athanor::os
#endif
