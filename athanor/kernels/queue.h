// Queues: how work is given to a device. Commands of one queue run in order; those of different queues run
// side by side, unless one waits for an event of the other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "athanor/memory/storage.h"

namespace athanor {

/// An argument of a kernel: memory of the kernel's device, and an offset in bytes. Without storage: no memory
/// is needed.
struct Binding {
  Storage* storage = nullptr;
  int64_t offset = 0;
};

/// The origin of a command: for traces, and for errors that a device reports late. It is read only while the
/// command is given to the queue.
class CommandSite {
 public:
  virtual ~CommandSite() = default;
  /// "plan step 3 (take_along in embedding)"
  virtual std::string step() const = 0;
  /// The user's line: "train.cpp:12".
  virtual std::string where() const = 0;
  /// What a trace shows: "3 take_along".
  virtual std::string label() const = 0;
};

/// Captured commands, which run again in one call.
class Replay {
 public:
  virtual ~Replay() = default;
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  /// Gives the captured commands to the queue.
  virtual void run() = 0;

 protected:
  Replay() = default;
};

/// What one of a device's queues runs: its kernels, or copies from or to other devices.
enum class QueueKind : uint8_t { kernels, copies_in, copies_out };

class Queue {
 public:
  virtual ~Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  Device device() const { return device_; }
  /// Copies `bytes`. Either place, but not both, may be memory of any other device. Such a copy does not wait
  /// for the other device's queue, nor that queue for it: order them with record() and wait(). It does
  /// wait for what the host wrote to either. The memory may be released at once.
  virtual void copy(Binding to, Binding from, size_t bytes) = 0;
  /// Sets `bytes` to one value.
  virtual void fill(Binding to, uint8_t value, size_t bytes) = 0;
  /// Makes later commands wait until the storage's content is valid.
  virtual void require(Storage& storage) = 0;
  /// Whether the device can capture commands.
  virtual bool captures() const { return false; }
  /// Captures what `commands` gives to this queue, without running it: kernels, whose storage was required
  /// before. nullptr if the driver refuses; then nothing was run, and `why` says what it said.
  virtual std::unique_ptr<Replay> capture(const std::function<void()>& /*commands*/, std::string& /*why*/) {
    return nullptr;
  }
  /// A point after all commands so far; nullptr if they are done already.
  virtual std::shared_ptr<Event> record() = 0;
  /// Makes later commands wait for the event, of any device; nullptr: for nothing.
  virtual void wait(const std::shared_ptr<Event>& event) = 0;
  /// Waits on the host until all commands are done. Throws Error if something failed.
  virtual void finish() = 0;
  /// Seconds that the device needs for what `launches` gives to this queue, by its own clock if it has one.
  virtual double timed(const std::function<void()>& launches) = 0;

 protected:
  explicit Queue(Device device) : device_(device) {}
  /// Throws Error(internal) for a copy between other devices.
  void check_copy(const Binding& to, const Binding& from) const;
  /// Writes to memory of another device, whose queue waits for it.
  static void write_across(const Binding& to, const void* from, size_t bytes);

 private:
  Device device_;
};

}  // namespace athanor
