// The program `athanor`, run as a child process.
#pragma once
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "athanor/base/file.h"

namespace athanor::testing {

struct Outcome {
  int exit_code = -1;  // 128 + the signal that ended it
  std::string out, err;
  double cpu_seconds = 0;  // CPU time that it used
};

/// Tests may be run in the background, where shells let programs ignore these signals.
inline const bool signals_by_default = [] {
  for (const int stops : {SIGINT, SIGTERM, SIGHUP}) std::signal(stops, SIG_DFL);
  return true;
}();

/// A run of the program in the folder `where`, which also gets its output and its kernel timings, so that
/// tests that run at the same time do not share them.
class Program {
 public:
  /// `out`: the file for its output, instead of one in `where`.
  Program(const std::filesystem::path& where, const std::vector<std::string>& arguments,
          const std::filesystem::path& out = {})
      : where_(where) {
    const char* other = std::getenv("ATHANOR_TEST_PROGRAM");  // a program of another version
    std::vector<std::string> words{other != nullptr ? other : ATHANOR_BINARY_DIR "/athanor"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    child_ = fork();
    if (child_ != 0) return;
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    redirect(STDOUT_FILENO, out.empty() ? where / "stdout" : out);
    redirect(STDERR_FILENO, where / "stderr");
    setenv("ATHANOR_CACHE", (where / "cache").c_str(), 1);
    setenv("OMP_WAIT_POLICY", "passive", 1);  // other tests run at the same time
    alarm(250);                               // ends a program that hangs; a test has 300 s
    if (chdir(where.c_str()) == 0) execv(pointers[0], pointers.data());
    _exit(127);
  }
  ~Program() {
    if (child_ > 0) kill(child_, SIGKILL), waitpid(child_, nullptr, 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Does nothing after the program has ended: kill(0) would signal the whole process group.
  void send(int signal) const {
    if (child_ > 0) kill(child_, signal);
  }

  bool running() {
    if (child_ > 0 && wait4(child_, &status_, WNOHANG, &used_) == child_) child_ = 0;
    return child_ > 0;
  }

  /// CPU time in seconds that it has used so far. Other programs hardly change it.
  double cpu_seconds() const {
    clockid_t clock{};
    timespec time{};
    if (child_ <= 0 || clock_getcpuclockid(child_, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }

  Outcome wait() {
    if (child_ > 0) wait4(child_, &status_, 0, &used_);
    child_ = 0;
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    return {WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_), text_of("stdout"),
            text_of("stderr"), seconds(used_.ru_utime) + seconds(used_.ru_stime)};
  }

  /// Waits until `file` has `lines` lines or the program has ended.
  void wait_for_lines(const std::filesystem::path& file, int64_t lines) {
    while (running()) {
      std::error_code missing;
      if (std::filesystem::exists(file, missing)) {
        const std::string text = read_text_file(file);
        if (std::count(text.begin(), text.end(), '\n') >= lines) return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

 private:
  static void redirect(int descriptor, const std::filesystem::path& file) {
    const int opened = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(opened, descriptor);
  }

  std::string text_of(const std::string& file) const {
    std::error_code missing;
    return std::filesystem::exists(where_ / file, missing) ? read_text_file(where_ / file) : std::string();
  }

  std::filesystem::path where_;
  pid_t child_;
  int status_ = 0;
  rusage used_{};
};

inline Outcome run_program(const std::filesystem::path& where, const std::vector<std::string>& arguments,
                           const std::filesystem::path& out = {}) {
  return Program(where, arguments, out).wait();
}

}  // namespace athanor::testing
