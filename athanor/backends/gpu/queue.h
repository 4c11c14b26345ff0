// A GPU's queues and the events in them.
#pragma once
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "athanor/backends/gpu/driver.h"
#include "athanor/backends/gpu/pending.h"
#include "athanor/backends/gpu/wait_limit.h"
#include "athanor/base/error.h"
#include "athanor/kernels/queue.h"

namespace athanor::gpu {

class GpuDevice;
class GpuQueue;

class GpuEvent final : public Event {
 public:
  GpuEvent(GpuQueue& queue, Mark mark, uint64_t launches, uint64_t landings)
      : queue_(queue), mark_(mark), launches_(launches), landings_(landings) {}
  ~GpuEvent() override;
  bool passed() const override;
  void wait() const override;
  void settle() const noexcept override;
  /// The same as wait(), but without checking for faults that kernels report.
  void await() const;

  GpuQueue& queue() const { return queue_; }
  Mark mark() const { return mark_; }
  uint64_t launches() const { return launches_; }
  /// How many pieces of Landings are copied when this has passed.
  uint64_t landings() const { return landings_; }

 private:
  GpuQueue& queue_;
  Mark mark_;
  uint64_t launches_;  // the queue's before this point
  uint64_t landings_;
};

class GpuQueue final : public Queue {
 public:
  /// `lane`: its name in traces.
  GpuQueue(GpuDevice& device, Driver& driver, std::string lane);

  void copy(Binding to, Binding from, size_t bytes) override;
  void fill(Binding to, uint8_t value, size_t bytes) override;
  std::shared_ptr<Event> record() override;
  void wait(const std::shared_ptr<Event>& event) override;
  void finish() override;
  void require(Storage& storage) override { place_of({&storage, 0}); }
  bool captures() const override;
  std::unique_ptr<Replay> capture(const std::function<void()>& commands, std::string& why) override;
  double timed(const std::function<void()>& launches) override;

  /// Launches a kernel. `site` may be nullptr.
  void launch(const Launch& launch, const CommandSite* site);
  /// Runs a library's kernel: `commands` adds it to the stream.
  void give(const std::string& name, const std::function<void(Stream)>& commands, const CommandSite* site);
  /// A point after all commands so far: record() without fetching faults.
  std::shared_ptr<GpuEvent> mark();
  /// Copies from and to the host; see Driver.
  void upload(Place to, const void* from, size_t bytes);
  void download(void* to, Place from, size_t bytes);

  /// The place of a binding on this device. The queue waits for its content, unless it was used here before.
  Place place_of(const Binding& binding);

  /// Waits for a mark after `launches` launches, or (nullptr) for all commands. An error names the launches
  /// in which it may have arisen. Content that was copied to the host before may still be in pinned memory.
  void await(Mark mark, uint64_t launches);

  /// Waits for all commands.
  void await_all();

  /// Waits for a mark after all launches so far.
  void await(Mark mark) { await(mark, pending_.point()); }
  /// Waits for all commands, and throws nothing.
  void settle() noexcept;
  /// A point after all commands so far; nullptr if the driver cannot mark it, and they have run.
  std::shared_ptr<Event> record_or_settle() noexcept;
  /// Makes a call of the driver that may wait for the device. That is every command, because a driver waits
  /// when it has been given too many.
  template <class Call>
  void limited(const Call& call, const CommandSite* site = nullptr) {
    const LimitedWait limited(wait_limit_, [this, site] {
      return hangs([&](const Error& error) { return located(error, site); });
    });
    call();
  }

  /// Adds to an error of earlier work the steps in which it may have arisen.
  Error located(const Error& error);

  /// The same for a launch at `site` that does not return. If nothing was launched before, it is the launch
  /// itself.
  Error located(const Error& error, const CommandSite* site);

  /// Captured launches.
  struct Capture {
    Captured commands = nullptr;
    std::vector<int> faults;  // numbers of launches that may report a fault
    Pending::Group launches;
    bool ran = false;
    std::shared_ptr<GpuEvent> last = nullptr;  // after the last run, if the next one must wait for it
  };
  void replay(Capture& capture);
  /// Gives the driver back what was captured, once it does not run any more.
  void retire(Capture capture) noexcept;

  GpuDevice& gpu() { return device_; }
  Stream stream() const { return stream_; }

 private:
  GpuDevice& device_;
  Driver& driver_;
  std::string lane_;
  Stream stream_;
  double wait_limit_;                  // in seconds; 0: none
  std::atomic<uint64_t> follows_ = 0;  // the pieces of Landings that events this queue waits for have
  uint64_t landings_before() const;
  /// The stream for this thread's commands: a separate one while it captures.
  Stream stream_now() const;
  bool capturing() const { return capturing_.load() == std::this_thread::get_id(); }
  /// Throws Error(device) if this thread captures: drivers capture kernels only.
  void refuse_to_capture(const char* what) const;
  void release_retired() noexcept;
  Stream capture_stream_ = nullptr;
  std::mutex capture_mutex_;
  std::atomic<std::thread::id> capturing_{};  // the thread that captures
  Capture captured_;                          // what it has captured
  struct Retired {
    Capture capture;
    std::shared_ptr<Event> ended;  // nullptr: it has
  };
  std::mutex retired_mutex_;
  std::vector<Retired> retired_;
  Pending pending_;
  /// The launches made inside timed().
  struct Timing {
    std::optional<Span> first, last;
  };
  void release(std::optional<Span>& span) noexcept;
  /// Runs a kernel: calls `command` with a stream and a Span, which may be nullptr.
  template <class Command>
  void run(const Command& command, const std::string& name, int fault_code, const CommandSite* site);
  void copy_across(const Binding& to, const Binding& from, size_t bytes);
  std::shared_ptr<Storage> lands(const Binding& to, size_t bytes) const;
  void wait(const GpuEvent& event);
  /// Gives a command to the driver, and its span to the trace if there is one.
  template <class Command, class Label>
  void traced(const Command& command, const Label& label);
  /// Adds to an error of a wait for this many launches the steps in which it may have arisen.
  Error located(const Error& error, uint64_t launches);
  /// The error that says that the device hangs; `where` adds the place.
  Error hangs(const std::function<Error(const Error&)>& where) const;
  /// The calling thread's Timing; nullptr if it times nothing. Launches of other threads are not counted.
  Timing* timing() const { return timing_thread_.load() == std::this_thread::get_id() ? timing_ : nullptr; }
  Timing* timing_ = nullptr;
  std::atomic<std::thread::id> timing_thread_;
  std::mutex timing_mutex_;
};

/// If an exception leaves the scope, waits for the queue: its commands use memory that will be used again.
class SettlesOnError {
 public:
  explicit SettlesOnError(GpuQueue& queue) : queue_(queue) {}
  ~SettlesOnError() {
    if (std::uncaught_exceptions() > before_) queue_.settle();
  }
  SettlesOnError(const SettlesOnError&) = delete;
  SettlesOnError& operator=(const SettlesOnError&) = delete;

 private:
  GpuQueue& queue_;
  int before_ = std::uncaught_exceptions();
};

}  // namespace athanor::gpu
