// What the program is waiting for, told to a listener that shows it.
#pragma once
#include <functional>
#include <string>

namespace athanor {

/// `what`: "timing kernels"; `how_far`: "7 of 20: conv2d", or "".
using WaitListener = std::function<void(const std::string& what, const std::string& how_far)>;

/// Until the end of the scope, `listener` is told what this thread waits for: comparing devices, compiling,
/// timing.
class ScopedWaitListener {
 public:
  explicit ScopedWaitListener(WaitListener listener);
  ~ScopedWaitListener();
  ScopedWaitListener(const ScopedWaitListener&) = delete;
  ScopedWaitListener& operator=(const ScopedWaitListener&) = delete;

 private:
  WaitListener before_;
};

/// Call this before something that may take long. Tells the listener, if there is one.
void tell_wait(const std::string& what, const std::string& how_far);

}  // namespace athanor
