// Points in the work of a device, to wait for.
#pragma once

namespace athanor {

/// A point in a device's work: passed when everything before it is done.
class Event {
 public:
  virtual ~Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// Never waits.
  virtual bool passed() const = 0;
  /// Waits. Throws Error for what went wrong on the device before this point.
  virtual void wait() const = 0;

 protected:
  Event() = default;
};

}  // namespace athanor
