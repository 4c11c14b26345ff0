// Which step of a plan launches a kernel. For errors that a device reports only later.
#pragma once
#include <string>

namespace athanor {

class LaunchSite {
 public:
  virtual ~LaunchSite() = default;
  /// "plan step 3 (take_along in embedding)"
  virtual std::string step() const = 0;
  /// The user's line: "train.cpp:12".
  virtual std::string where() const = 0;

  /// The site of this thread's current launch; nullptr outside of plans.
  static const LaunchSite*& current() {
    thread_local const LaunchSite* site = nullptr;
    return site;
  }
};

}  // namespace athanor
