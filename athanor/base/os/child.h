// Asking in a child process: what may end the program or hang (a driver's library) does that to the child.
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
  /// Another program instead of a copy of this one, which may hold what a copy cannot use: threads, a
  /// driver's state. `words`: its path and its arguments. The lines of its standard output are what it says;
  /// the text of its answer is empty. Where there is no fork it cannot be started.
  static Child of_program(std::vector<std::string> words);
  ~Child();
  Child(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Waits until the answer, or until `seconds` after the child started or said its last line; then ends the
  /// child. Of time that the child waits for cores only a tenth counts (FairTime in load.h). Passes each line
  /// that it says to `heard`. Throws Interrupted when somebody asks to stop (interrupt.h); the child ends
  /// with this object.
  ChildAnswer wait(double seconds, const Say& heard = {});

 private:
  explicit Child(const std::function<void(int answer, int errors, int words)>& begin, int);
  struct State;
  State* state_;
};

/// The path of the program that this process runs; "" where that cannot be told.
std::string own_program();

}  // namespace athanor::os
