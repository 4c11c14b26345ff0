// Standard output that detects failed writes.
#pragma once
#include <array>
#include <streambuf>

namespace athanor::cli {

/// While it lives, std::cout writes through it. The first failed write (a full disk) is kept, and later
/// output is dropped. Single writes are not checked, so finish() reports it at the end.
class CheckedOutput : public std::streambuf {
 public:
  CheckedOutput();
  ~CheckedOutput() override;
  CheckedOutput(const CheckedOutput&) = delete;
  CheckedOutput& operator=(const CheckedOutput&) = delete;

  /// Writes what is left. Returns `exit_code`; but if it is 0 and output was lost, prints a message to
  /// standard error and returns `failed`.
  int finish(int exit_code, int failed = 1);

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

 private:
  bool flush();

  std::array<char, 8192> buffer_{};
  bool lines_;  // a terminal shows each line at once
  std::streambuf* before_;
  int failure_ = 0;  // errno of the first write that failed
};

}  // namespace athanor::cli
