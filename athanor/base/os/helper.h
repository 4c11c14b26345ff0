// A helper program that answers questions one after another.
#pragma once
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace athanor::os {

/// Runs a program and asks it questions. Questions and answers are any bytes. The program's output is
/// dropped. It ends with this object, and when the thread that started it ends. On systems without fork
/// (Windows) it never answers.
class Helper {
 public:
  /// `words`: the program's path and its arguments.
  explicit Helper(std::vector<std::string> words);
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  /// The answer to a question. None if the program has ended or sends nothing for `seconds`; it cannot be
  /// used afterwards. Throws Interrupted on a request to stop (interrupt.h, or by `stop`).
  std::optional<std::string> ask(const std::string& question, double seconds,
                                 const std::stop_token& stop = {});

 private:
  int process_ = -1;
  int line_ = -1;  // a socket, the program's standard input
};

/// The main loop of such a program: answers questions until the asking process has ended.
void answer_questions(const std::function<std::string(const std::string& question)>& answer);

}  // namespace athanor::os
