// Asking in a child process: what may end the program or hang (a driver's library) does that to the child.
#pragma once
#include <functional>
#include <string>

namespace athanor::os {

struct ChildAnswer {
  std::string text;
  /// "" for a complete answer; else what happened to the child: "was ended by SIGABRT: its last words", "gave
  /// no answer within 5 s".
  std::string problem;
  bool late = false;  // it was too slow or hung; the two cannot be told apart
};

/// Reports one line of a child's progress.
using Say = std::function<void(const std::string& line)>;

/// A copy of this process that runs a function and hands its text back. It ends when the thread that started
/// it does. Where there is no fork (Windows) the function runs in this process, when the answer is waited
/// for.
class Child {
 public:
  explicit Child(const std::function<std::string()>& ask);
  explicit Child(std::function<std::string(const Say&)> ask);
  ~Child();
  Child(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Waits until the answer, or until `seconds` after the child started or said its last line; then ends the
  /// child. Passes each line that it says to `heard`.
  ChildAnswer wait(double seconds, const Say& heard = {});

 private:
  struct State;
  State* state_;
};

}  // namespace athanor::os
