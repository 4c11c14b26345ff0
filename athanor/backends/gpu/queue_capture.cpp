// Commands that a queue captures once and replays: a plan's launches.
#include <algorithm>
#include <iterator>

#include "athanor/backends/gpu/device.h"
#include "athanor/backends/gpu/queue.h"
#include "athanor/base/error.h"

namespace athanor::gpu {
namespace {

class GpuReplay final : public Replay {
 public:
  GpuReplay(GpuQueue& queue, GpuQueue::Capture capture) : queue_(queue), capture_(std::move(capture)) {
    for (const int code : capture_.faults) queue.gpu().faults.keep(code);
  }
  ~GpuReplay() override { queue_.retire(std::move(capture_)); }
  void run() override { queue_.replay(capture_); }

 private:
  GpuQueue& queue_;
  GpuQueue::Capture capture_;
};

}  // namespace

std::unique_ptr<Replay> GpuQueue::capture(const std::function<void()>& commands, std::string& why) {
  if (!captures()) return nullptr;
  const std::scoped_lock one_at_a_time(capture_mutex_);
  release_retired();
  captured_ = {};
  const auto end = [&](std::string& problem) {
    capturing_ = std::thread::id();
    captured_.commands = driver_.end_capture(capture_stream_, problem);
  };
  const auto abandon = [&] {
    std::string ignored;
    try {
      if (capture_stream_ != nullptr) end(ignored);
    } catch (const Error&) {
      // A device that is lost keeps nothing.
    }
    if (captured_.commands != nullptr) driver_.release_captured(captured_.commands);
    captured_.commands = nullptr;
  };
  try {
    if (capture_stream_ == nullptr) capture_stream_ = driver_.make_stream();
    driver_.begin_capture(capture_stream_);
    capturing_ = std::this_thread::get_id();
    commands();
    end(why);
  } catch (const Error& error) {  // given one by one, the command that fails is named, or none fails
    why = error.problem();
    abandon();
  } catch (...) {
    abandon();
    throw;
  }
  if (captured_.commands != nullptr) return std::make_unique<GpuReplay>(*this, std::move(captured_));
  capture_stream_ = nullptr;  // it may be capturing still
  return nullptr;
}

void GpuQueue::replay(Capture& capture) {
  if (capture.last != nullptr) capture.last->await();
  capture.last = nullptr;
  pending_.launched(capture.launches);
  capture.ran = true;
  try {
    limited([&] { driver_.replay(stream_, capture.commands); });
    if (!capture.faults.empty()) device_.faults.given();
    if (!driver_.replays_overlap()) capture.last = mark();
  } catch (const Error& error) {
    throw pending_.located(error, pending_.point());
  }
}

// A driver may not keep what it runs: HIP does not say that it does.
void GpuQueue::retire(Capture capture) noexcept {
  std::shared_ptr<Event> ended = capture.ran ? record_or_settle() : nullptr;
  {
    const std::scoped_lock lock(retired_mutex_);
    retired_.push_back({std::move(capture), std::move(ended)});
  }
  release_retired();
}

void GpuQueue::release_retired() noexcept {
  std::vector<Retired> ended;
  {
    const std::scoped_lock lock(retired_mutex_);
    const auto runs = [](const Retired& one) { return one.ended != nullptr && !one.ended->passed(); };
    const auto first = std::stable_partition(retired_.begin(), retired_.end(), runs);
    ended.assign(std::make_move_iterator(first), std::make_move_iterator(retired_.end()));
    retired_.erase(first, retired_.end());
  }
  for (const Retired& one : ended) {
    for (const int code : one.capture.faults) device_.faults.forget(code);
    driver_.release_captured(one.capture.commands);
  }
}

}  // namespace athanor::gpu
