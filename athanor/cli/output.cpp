#include "athanor/cli/output.h"

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <string_view>
#include <system_error>

#include "athanor/base/os/terminal.h"

namespace athanor::cli {

CheckedOutput::CheckedOutput()
    : lines_(os::terminal_of_stdout().has_value()), before_(std::cout.rdbuf(this)) {
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

CheckedOutput::~CheckedOutput() {
  flush();
  std::cout.rdbuf(before_);
}

bool CheckedOutput::flush() {
  const auto count = static_cast<size_t>(pptr() - pbase());
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  errno = 0;
  if (failure_ == 0 && (std::fwrite(pbase(), 1, count, stdout) < count || std::fflush(stdout) != 0))
    failure_ = errno != 0 ? errno : EIO;
  return failure_ == 0;
}

CheckedOutput::int_type CheckedOutput::overflow(int_type c) {
  flush();
  if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
  return traits_type::not_eof(c);
}

std::streamsize CheckedOutput::xsputn(const char* text, std::streamsize count) {
  const std::streamsize put = std::streambuf::xsputn(text, count);
  if (lines_ && std::string_view(text, static_cast<size_t>(count)).find('\n') != std::string_view::npos)
    flush();
  return put;
}

int CheckedOutput::sync() {
  flush();
  return 0;
}

int CheckedOutput::finish(int exit_code, int failed) {
  if (flush()) return exit_code;
  if (failure_ == EPIPE && exit_code != 0)
    return exit_code;  // the reader has left, and because of that the run has ended
  std::fprintf(stderr, "athanor: error: cannot write to standard output: %s. What was printed is not whole\n",
               std::generic_category().message(failure_).c_str());
  return exit_code == 0 ? failed : exit_code;
}

}  // namespace athanor::cli
