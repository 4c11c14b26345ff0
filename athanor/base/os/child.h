// Asks in a child process, so that code that may crash or hang (a driver's library) does so only there.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace athanor::os {

struct ChildAnswer {
  std::string text;
  /// "" for a complete answer; else what happened to the child: "was ended by SIGABRT: its last words", "gave
  /// no answer within 5 s".
  std::string problem;
  bool late = false;  // the child was too slow or hung; these cannot be told apart
};

/// Reports one line of a child's progress.
using Say = std::function<void(const std::string& line)>;

/// A copy of this process that runs a function and returns its text. It ends when the thread that started it
/// does. On systems without fork (Windows) the function runs in this process, during wait().
class Child {
 public:
  explicit Child(const std::function<std::string()>& ask);
  explicit Child(std::function<std::string(const Say&)> ask);
  /// Starts another program instead of a copy of this process, whose threads and driver state a copy cannot
  /// use. `words`: its path and its arguments. Its standard output is reported line by line as progress; the
  /// text of its answer is empty. On systems without fork it cannot be started.
  static Child of_program(std::vector<std::string> words);
  ~Child();
  Child(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Waits for the answer, at most until `seconds` after the child started or reported its last line; then
  /// ends the child. Time that the child waits for cores hardly counts (FairTime in load.h). Passes each
  /// reported line to `heard`. Throws Interrupted on a request to stop (interrupt.h); the child ends with
  /// this object.
  ChildAnswer wait(double seconds, const Say& heard = {});

 private:
  explicit Child(const std::function<void(int answer, int errors, int words)>& begin, int);
  struct State;
  State* state_;
};

/// The path of the program that this process runs; "" if it is not known.
std::string own_program();

}  // namespace athanor::os
