#ifndef _WIN32
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/os/child.h"

namespace athanor::os {
namespace {

constexpr size_t most_bytes = size_t{16} << 20;

void write_all(int file, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = write(file, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    done += static_cast<size_t>(count);
  }
}

// Never returns. The status says whether `text` is whole.
[[noreturn]] void run_child(const std::function<std::string()>& ask, int answer, int errors) {
  setpgid(0, 0);  // so that what it starts ends with it
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal : {SIGINT, SIGTERM, SIGABRT, SIGSEGV, SIGPIPE}) std::signal(signal, SIG_DFL);
  dup2(errors, STDERR_FILENO);
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDIN_FILENO);
  dup2(errors, STDOUT_FILENO);  // some libraries talk
  int status = 1;
  try {
    write_all(answer, ask());
    status = 0;
  } catch (const std::exception& error) {
    write_all(errors, error.what());
  } catch (...) {
  }
  _exit(status);
}

std::string name_of_signal(int signal) {
  switch (signal) {
    case SIGABRT:
      return "SIGABRT";
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGILL:
      return "SIGILL";
    case SIGFPE:
      return "SIGFPE";
    case SIGKILL:
      return "SIGKILL";
    default:
      return "signal " + std::to_string(signal);
  }
}

// The last line that says something, shortened.
std::string last_words(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  text.erase(0, text.find_last_of('\n') + 1);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return text.size() > 200 ? text.substr(0, 200) + "..." : text;
}

}  // namespace

struct Child::State {
  pid_t process = -1;
  std::array<int, 2> files{-1, -1};  // the answer and the errors, to be read
  Clock::time_point start = Clock::now();
};

Child::Child(std::function<std::string()> ask) : state_(new State) {
  std::array<int, 2> answer{-1, -1}, errors{-1, -1};
  if (pipe2(answer.data(), O_CLOEXEC) != 0) return;
  if (pipe2(errors.data(), O_CLOEXEC) != 0) {
    close(answer[0]), close(answer[1]);
    return;
  }
  state_->process = fork();
  if (state_->process == 0) run_child(ask, answer[1], errors[1]);
  close(answer[1]), close(errors[1]);
  state_->files = {answer[0], errors[0]};
}

Child::Child(Child&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}

Child::~Child() {
  if (state_ == nullptr) return;
  wait(0);
  delete state_;
}

ChildAnswer Child::wait(double seconds) {
  if (state_ == nullptr || state_->process <= 0)
    return {{}, state_ == nullptr || state_->process == 0 ? "was asked before" : "could not be started"};
  const auto end =
      state_->start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::array<std::string, 2> texts;
  bool late = false;
  // What it leaves running may hold the pipe of errors open, so only the answer's end counts.
  while (state_->files[0] >= 0 && !late) {
    std::array<pollfd, 2> waiting{{{state_->files[0], POLLIN, 0}, {state_->files[1], POLLIN, 0}}};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0 || poll(waiting.data(), waiting.size(), static_cast<int>(left)) == 0) {
      late = true;
      break;
    }
    for (size_t i = 0; i < 2; ++i) {
      if (state_->files[i] < 0 || (waiting[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      std::array<char, 65536> part{};
      const ssize_t count = read(state_->files[i], part.data(), part.size());
      if (count < 0 && errno == EINTR) continue;
      if (count > 0 && texts[i].size() < most_bytes) {
        texts[i].append(part.data(), static_cast<size_t>(count));
      } else {
        close(std::exchange(state_->files[i], -1));
      }
    }
  }
  // Words that were written just before the end.
  if (pollfd waiting{state_->files[1], POLLIN, 0}; state_->files[1] >= 0 && poll(&waiting, 1, 0) > 0) {
    std::array<char, 65536> part{};
    if (const ssize_t count = read(state_->files[1], part.data(), part.size()); count > 0)
      texts[1].append(part.data(), static_cast<size_t>(count));
  }
  int status = 0;
  pid_t ended = 0;
  // It may still take a moment to end; one that hangs in the kernel does not even when it is killed.
  for (int i = 0; i < 200 && ended == 0; ++i) {
    if (late || i == 100) kill(-state_->process, SIGKILL), kill(state_->process, SIGKILL);
    ended = waitpid(state_->process, &status, WNOHANG);
    if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(i < 20 ? 1 : 5));
  }
  kill(-state_->process, SIGKILL);  // what it left running
  for (int& file : state_->files)
    if (file >= 0) close(std::exchange(file, -1));
  state_->process = 0;
  const std::string words = last_words(texts[1]);
  const std::string said = words.empty() ? "" : ": " + words;
  if (late) return {{}, "gave no answer within " + std::to_string(static_cast<int>(seconds)) + " s"};
  if (ended > 0 && WIFSIGNALED(status))
    return {{}, "was ended by " + name_of_signal(WTERMSIG(status)) + said};
  if (ended <= 0 || WEXITSTATUS(status) != 0) return {{}, "gave no answer" + said};
  return {std::move(texts[0]), {}};
}

}  // namespace athanor::os
#endif
