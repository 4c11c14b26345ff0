#include "athanor/cli/last_words.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <system_error>

#include "athanor/base/error.h"
#include "athanor/base/memory_hint.h"
#include "athanor/base/os/limits.h"

namespace athanor::cli {
namespace {

Error as_error(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) return *ours;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return {ErrorCode::out_of_memory,
            "there is not enough memory",
            {},
            memory_hint("try a smaller --batch-size")};
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
    return no_thread_error("a thread");
  return {ErrorCode::internal, error.what()};
}

#ifdef __linux__
// Constructors of libraries and of Athanor allocate before main() runs. If that fails, nothing may be
// allocated, and std::cout does not exist yet.
[[noreturn]] void say_that_starting_failed() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    constexpr double mib = 1 << 20;
    std::fputs("athanor: error: there is not enough memory to start.", stderr);
    if (const auto limit = os::address_space_limit())
      std::fprintf(stderr, " The process may take at most %.1f MiB: raise that (see 'ulimit -v')",
                   static_cast<double>(*limit) / mib);
    std::fputs("\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "athanor: error: it cannot start: %s\n", error.what());
  } catch (...) {
    std::fputs("athanor: error: it cannot start\n", stderr);
  }
  std::_Exit(1);
}

// The loader calls these before any constructor, including those of libraries.
[[gnu::section(".preinit_array"), gnu::used]] void (*const first_of_all)() = [] {
  std::set_terminate(say_that_starting_failed);
};
#endif

[[noreturn]] void say_and_end() {
  int exit_code = 1;
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    exit_code = complain(error);
  } catch (...) {
    std::fputs("athanor: error: something was thrown that is not an exception\n", stderr);
  }
  std::_Exit(exit_code);
}

}  // namespace

int complain(const std::exception& error) {
  const Error known = as_error(error);
  std::cout.flush();
  std::fprintf(stderr, "athanor: error: %s\n", known.what());
  return known.code() == ErrorCode::usage ? 2 : 1;
}

void prepare_last_words() {
  os::make_file_size_an_error();
  std::set_terminate(say_and_end);
  if (os::address_space_limit()) {
    os::spare_addresses();
    os::say_when_crashing("athanor: error: a crash, most likely of a library that got no memory. " +
                          memory_hint("stop other programs") + "\n");
  }
}

}  // namespace athanor::cli
