// Asking in a child process: what may end the program or hang (a driver's library) does that to the child.
#pragma once
#include <functional>
#include <string>

namespace athanor::os {

struct ChildAnswer {
  std::string text;
  /// "" for a whole answer; else what became of the child: "was ended by SIGABRT: its last words", "gave no
  /// answer within 5 s".
  std::string problem;
};

/// A copy of this process that runs a function and hands its text back. Where there is no fork (Windows) the
/// function runs in this process, when the answer is waited for.
class Child {
 public:
  explicit Child(std::function<std::string()> ask);
  ~Child();
  Child(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Waits at most until `seconds` after the child was started, then ends it.
  ChildAnswer wait(double seconds);

 private:
  struct State;
  State* state_;
};

}  // namespace athanor::os
