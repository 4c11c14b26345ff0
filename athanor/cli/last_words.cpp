#include "athanor/cli/last_words.h"

#include <cstdio>
#include <cstdlib>
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
    return {ErrorCode::out_of_memory,
            "a thread could not be started",
            {},
            memory_hint("stop other programs, or raise the limit of processes (see 'ulimit -u')")};
  return {ErrorCode::internal, error.what()};
}

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
