// Points in the work of a device that a program can wait for.
#pragma once

namespace athanor {

/// A point in a device's work. It has passed when everything before it is done.
class Event {
 public:
  virtual ~Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// Whether the point has passed. Never waits.
  virtual bool passed() const = 0;
  /// Waits until the point has passed. Throws Error if something went wrong on the device before it.
  virtual void wait() const = 0;
  /// Waits as well, but throws nothing: for memory that must not be used again before. What went wrong is
  /// reported to those who wait for results.
  virtual void settle() const noexcept = 0;

 protected:
  Event() = default;
};

}  // namespace athanor
