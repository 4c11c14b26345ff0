#include "athanor/base/os/limits.h"

#include "athanor/base/os/signal_stack.h"

#if __has_include(<sys/resource.h>)
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace athanor::os {

#if __has_include(<sys/resource.h>)

namespace {

std::string& last_words() {
  static std::string words;
  return words;
}

extern "C" void say_last_words(int signal) {
  const std::string& words = last_words();
  if (write(STDERR_FILENO, words.data(), words.size()) < 0) _exit(128 + signal);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

std::optional<uint64_t> address_space_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

void spare_addresses() {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, 1);
#endif
}

void make_file_size_an_error() { std::signal(SIGXFSZ, SIG_IGN); }

void say_when_crashing(const std::string& message) {
  last_words() = message;
  use_signal_stack();  // the crash may be a stack overflow
  struct sigaction action {};
  action.sa_handler = say_last_words;
  action.sa_flags = SA_ONSTACK | static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT}) sigaction(signal, &action, nullptr);
}

#else

std::optional<uint64_t> address_space_limit() { return std::nullopt; }
void spare_addresses() {}
void make_file_size_an_error() {}
void say_when_crashing(const std::string&) {}

#endif

}  // namespace athanor::os
