// A second program that answers questions one after another.
#pragma once
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace athanor::os {

/// Questions and answers are any bytes. What the program prints is dropped. It ends with this object, and
/// when the thread that started it ends. Where there is no fork (Windows) it never answers.
class Helper {
 public:
  /// `words`: the program's path and its arguments.
  explicit Helper(std::vector<std::string> words);
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  /// None if it has ended, or says nothing for so long; it is then of no more use. Throws Interrupted when
  /// somebody asks to stop (interrupt.h), or asks `stop`.
  std::optional<std::string> ask(const std::string& question, double seconds,
                                 const std::stop_token& stop = {});

 private:
  int process_ = -1;
  int line_ = -1;  // a socket, the program's standard input
};

/// What such a program does: it answers until the asking process has ended.
void answer_questions(const std::function<std::string(const std::string& question)>& answer);

}  // namespace athanor::os
