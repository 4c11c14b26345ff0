// A driver of a GPU that does not exist: its memory is the host's, and commands run at once. For tests
// of the code between the compiler and a driver that need no compiled kernel.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "athanor/backends/gpu/device.h"
#include "athanor/base/error.h"
#include "athanor/kernels/queue.h"

namespace athanor::testing {

class HostDriver final : public gpu::Driver {
 public:
  /// tests/support/fake_libraries/fake_gpu.h recognizes a stream of host memory by `magic`.
  struct HostStream {
    uint64_t magic = 0x4154484e4f525354;
    int given = 0;  // work given by libraries
  };

  ~HostDriver() override {
    std::free(freed_);
    for (const auto& [memory, bytes] : sizes_) std::free(memory);  // a pool keeps some
  }
  /// `device`: without it, its memory is taken for that of the host.
  HostDriver(GpuTarget target, int release, const std::string& architecture, Device device = {}) {
    facts_.info.device = device;
    facts_.info.name = "host memory";
    facts_.info.kind = "gpu";
    facts_.info.properties["architecture"] = {architecture, "test"};
    facts_.target = target;
    facts_.release = release;
  }

  /// Work that is given to it never ends, after so many waits that do end, or it takes this long.
  std::atomic<bool> hangs = false;
  std::atomic<int> waits_before = 0;
  /// Whether its commands wait for all work, as those of a driver that was given too many.
  std::atomic<bool> is_full = false;
  std::chrono::milliseconds takes{0};
  /// Whether a kernel has failed. Every call reports this.
  std::atomic<bool> failed = false;
  /// Whether marks pass only when they are waited for; how many times a stream was told to wait for one.
  std::atomic<bool> late = false;
  std::atomic<int> waits = 0;
  /// How many of the next waits fail although the work goes on.
  std::atomic<int> failing_waits = 0;
  /// What a launch does; none: it is refused.
  std::function<void(const gpu::Launch&)> kernel;
  /// How many times a whole stream, or a mark, was waited for, and how many marks were given back.
  std::atomic<int> finishes = 0, awaits = 0, released = 0;
  /// The streams that were marked, in order.
  std::vector<gpu::Stream> marked;
  /// After how many commands it does not tell any more when they ran.
  std::atomic<int> intervals = 1'000'000;
  /// Whether it captures, and, if it refuses to, why; captures that exist, and how often any of them ran.
  bool can_capture = false, can_overlap = true;
  std::string refuses;
  std::atomic<int> captured = 0, replays = 0;

  /// The device's bytes of memory, and those that are allocated now.
  std::atomic<size_t> room = SIZE_MAX;
  size_t held() const {
    const std::scoped_lock lock(mutex_);
    return held_;
  }

  /// Whether it reaches the memory and marks of all others.
  bool reaches_others = false;
  bool reaches(const Driver&) const override { return reaches_others; }

  void open() override {}
  gpu::Memory allocate(size_t bytes, std::string& why) override {
    const std::scoped_lock lock(mutex_);
    if (bytes > room - std::min<size_t>(room, held_)) {
      why = "no room";
      return nullptr;
    }
    void* memory = nullptr;
    if (freed_ != nullptr && freed_bytes_ == bytes) std::swap(memory, freed_);
    if (memory == nullptr) memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    held_ += sizes_[memory] = bytes;
    return memory;
  }
  void free(gpu::Memory memory) noexcept override {
    work();
    const std::scoped_lock lock(mutex_);
    freed_bytes_ = sizes_[memory];
    held_ -= freed_bytes_;
    sizes_.erase(memory);
    std::free(std::exchange(freed_, memory));
  }
  void* pin(size_t bytes) override { return std::malloc(bytes); }
  gpu::Stream make_stream() override { return &streams_.emplace_back(); }
  void upload(gpu::Stream, gpu::Place to, const void* from, size_t bytes, gpu::Span*) override {
    take_command();
    std::memcpy(at(to), from, bytes);
  }
  void download(gpu::Stream, void* to, gpu::Place from, size_t bytes, gpu::Span*) override {
    take_command();
    std::memcpy(to, at(from), bytes);
  }
  void copy(gpu::Stream, gpu::Place to, gpu::Place from, size_t bytes, gpu::Span*) override {
    take_command();
    std::memmove(at(to), at(from), bytes);
  }
  void fill(gpu::Stream, gpu::Place to, uint8_t value, size_t bytes) override {
    take_command();
    std::memset(at(to), value, bytes);
  }
  void launch(gpu::Stream, const gpu::Launch& launch, gpu::Span*) override {
    if (!kernel) no("launch " + launch.name);
    kernel(launch);
  }
  void give(gpu::Stream stream, const std::function<void(gpu::Stream)>& commands, gpu::Span*) override {
    take_command();
    if (stream != nullptr) ++static_cast<HostStream*>(stream)->given;
    commands(stream);
  }
  gpu::Mark mark(gpu::Stream stream, bool) override {
    if (failed) fail_late("record an event", "error 719");
    {
      const std::scoped_lock lock(mutex_);
      marked.push_back(stream);
    }
    return this;
  }
  void wait(gpu::Stream, gpu::Mark) override { ++waits; }
  bool passed(gpu::Mark) override { return !late; }
  void await(gpu::Mark) override {
    ++awaits;
    fail_wait();
    work();
  }
  void finish(gpu::Stream) override {
    ++finishes;
    fail_wait();
    work();
  }
  void release(gpu::Mark) noexcept override { ++released; }
  gpu::Interval interval(const gpu::Span&) override {
    if (intervals-- <= 0) no("tell when a command ran");
    return {};
  }
  bool captures() const override { return can_capture; }
  gpu::Captured end_capture(gpu::Stream, std::string& why) override {
    why = refuses;
    if (!why.empty()) return nullptr;
    ++captured;
    return this;
  }
  void replay(gpu::Stream, gpu::Captured) override {
    take_command();
    ++replays;
  }
  bool replays_overlap() const override { return can_overlap; }
  void release_captured(gpu::Captured) noexcept override { --captured; }
  gpu::Module compile(const std::string&, const GpuLaunch& launch, std::string*) override {
    no("compile " + launch.name);
  }
  gpu::Module load(const std::string&) override { return nullptr; }
  gpu::Function find(gpu::Module, const GpuLaunch& launch) override { no("find " + launch.name); }
  void unload(gpu::Module, std::span<const gpu::Function>) noexcept override {}

 private:
  void fail_wait() {
    if (failing_waits > 0 && failing_waits-- > 0) no("be waited for");
  }
  void take_command() {
    if (is_full) work();
  }
  void work() {
    do std::this_thread::sleep_for(takes);
    while (hangs && waits_before-- <= 0);
  }
  static void* at(const gpu::Place& place) { return static_cast<std::byte*>(place.memory) + place.offset; }
  [[noreturn]] static void no(const std::string& what) {
    throw Error(ErrorCode::device, "this device cannot " + what);
  }
  std::deque<HostStream> streams_;
  mutable std::mutex mutex_;
  std::map<gpu::Memory, size_t> sizes_;
  size_t held_ = 0;
  void* freed_ = nullptr;  // the last one, for the next allocation of its size
  size_t freed_bytes_ = 0;
};

/// The purpose of commands: "plan step 3 (conv2d in layer1)", in line 12 of net.cpp.
class TestSite final : public CommandSite {
 public:
  explicit TestSite(std::string step) : step_(std::move(step)) {}
  std::string step() const override { return step_; }
  std::string where() const override { return "net.cpp:12"; }
  std::string label() const override { return step_; }

 private:
  std::string step_;
};

}  // namespace athanor::testing
