#ifndef _WIN32
#include <fcntl.h>
#include <poll.h>
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
#include "athanor/base/os/begin_child.h"
#include "athanor/base/os/child.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/base/os/load.h"

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

// Never returns. The exit status says whether `text` is complete.
[[noreturn]] void run_child(const std::function<std::string(const Say&)>& ask, int answer, int errors,
                            int words) {
  int status = 1;
  try {
    write_all(answer, ask([words](const std::string& line) { write_all(words, line + '\n'); }));
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

// The last line that is not empty, shortened.
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
  std::array<int, 3> files{-1, -1, -1};  // pipes to read: the answer, errors, and reported lines
  Clock::time_point start = Clock::now();
};

Child::Child(const std::function<std::string()>& ask) : Child([ask](const Say&) { return ask(); }) {}

Child::Child(std::function<std::string(const Say&)> ask)
    : Child(
          [&ask, parent = getpid()](int answer, int errors, int words) {
            begin_child(parent, -1, errors, errors);  // some libraries print to standard output
            run_child(ask, answer, errors, words);
          },
          0) {}

Child Child::of_program(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return Child(
      [&pointers, parent = getpid()](int answer, int errors, int said) {
        begin_child(parent, -1, said, errors);
        fcntl(answer, F_SETFD, 0);  // stays open, with nothing in it, until the program ends
        execv(pointers[0], pointers.data());
        _exit(127);
      },
      0);
}

Child::Child(const std::function<void(int answer, int errors, int words)>& begin, int) : state_(new State) {
  std::array<std::array<int, 2>, 3> pipes{};
  size_t made = 0;
  while (made < pipes.size() && pipe2(pipes[made].data(), O_CLOEXEC) == 0) ++made;
  if (made == pipes.size()) state_->process = fork();
  if (state_->process == 0) begin(pipes[0][1], pipes[1][1], pipes[2][1]);
  for (size_t i = 0; i < made; ++i) {
    close(pipes[i][1]);
    if (state_->process > 0)
      state_->files[i] = pipes[i][0];
    else
      close(pipes[i][0]);
  }
}

std::string own_program() {
  std::array<char, 4096> path{};
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size() - 1);
  return size > 0 ? std::string(path.data(), static_cast<size_t>(size)) : std::string();
}

Child::Child(Child&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}

// After Ctrl-C the child may finish what it is doing, such as removing the mark of a kernel on trial.
static void let_end(pid_t process) {
  constexpr std::chrono::milliseconds turn{10};
  constexpr int most_turns = 500;
  kill(process, SIGTERM);
  for (int i = 0; i < most_turns; ++i, std::this_thread::sleep_for(turn)) {
    siginfo_t ended{};
    if (waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        ended.si_pid != 0)
      return;
  }
}

Child::~Child() {
  if (state_ == nullptr) return;
  if (interrupt_signal() != 0 && state_->process > 0) let_end(state_->process);
  wait(0);
  delete state_;
}

ChildAnswer Child::wait(double seconds, const Say& heard) {
  if (state_ == nullptr || state_->process <= 0)
    return {
        {}, state_ == nullptr || state_->process == 0 ? "was asked before" : "could not be started", false};
  // Waits in short turns. Time in which this process itself was stopped does not count as the child's
  // silence.
  constexpr double turn = 0.25, longest_turn = 1;
  double quiet = seconds_since(state_->start);
  FairTime fair(state_->process);
  std::array<std::string, 3> texts;
  bool late = false, spoke = false;
  const auto hear = [&] {
    std::string& said = texts[2];
    for (size_t line = said.find('\n'); line != std::string::npos; line = said.find('\n')) {
      if (heard) heard(said.substr(0, line));
      said.erase(0, line + 1);
      spoke = true;
      quiet = 0;
    }
  };
  // Processes that the child leaves running may keep the pipe of errors open, so only the answer's end
  // counts.
  while (state_->files[0] >= 0 && !late) {
    std::array<pollfd, 3> waiting{};
    for (size_t i = 0; i < waiting.size(); ++i) waiting[i] = {state_->files[i], POLLIN, 0};
    const auto begin = Clock::now();
    const double left = std::min(seconds - quiet, turn);
    const int ready = left <= 0 ? 0 : poll(waiting.data(), waiting.size(), static_cast<int>(left * 1000) + 1);
    if (left > 0) throw_if_interrupted();  // the destructor ends the child
    quiet += fair.of(std::min(seconds_since(begin), longest_turn));
    if (ready == 0) {
      late = quiet >= seconds;
      continue;
    }
    for (size_t i = 0; i < waiting.size(); ++i) {
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
    hear();
  }
  // Reads what was written just before the end.
  for (size_t i = 1; i < texts.size(); ++i) {
    if (pollfd waiting{state_->files[i], POLLIN, 0}; state_->files[i] < 0 || poll(&waiting, 1, 0) <= 0)
      continue;
    std::array<char, 65536> part{};
    if (const ssize_t count = read(state_->files[i], part.data(), part.size()); count > 0)
      texts[i].append(part.data(), static_cast<size_t>(count));
  }
  hear();
  int status = 0;
  pid_t ended = 0;
  // The child may need a moment to end. One that hangs in the kernel does not end even when it is killed.
  for (int i = 0; i < 200 && ended == 0; ++i) {
    if (late || i == 100) kill(-state_->process, SIGKILL), kill(state_->process, SIGKILL);
    ended = waitpid(state_->process, &status, WNOHANG);
    if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(i < 20 ? 1 : 5));
  }
  kill(-state_->process, SIGKILL);  // processes that it left running
  for (int& file : state_->files)
    if (file >= 0) close(std::exchange(file, -1));
  state_->process = 0;
  const std::string words = last_words(texts[1]);
  const std::string said = words.empty() ? "" : ": " + words;
  if (late)
    return {{},
            (spoke ? "said nothing for " : "gave no answer within ") +
                std::to_string(static_cast<int>(seconds)) + " s",
            true};
  if (ended > 0 && WIFSIGNALED(status))
    return {{}, "was ended by " + name_of_signal(WTERMSIG(status)) + said, false};
  if (ended <= 0 || WEXITSTATUS(status) != 0) return {{}, "gave no answer" + said, false};
  return {std::move(texts[0]), {}, false};
}

}  // namespace athanor::os
#endif
