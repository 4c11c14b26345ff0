#include "athanor/backends/gpu/queue.h"

#include <fmt/format.h>

#include "athanor/backends/gpu/device.h"
#include "athanor/backends/gpu/storage.h"
#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/kernels/trace.h"

namespace athanor::gpu {

GpuEvent::~GpuEvent() { queue_.gpu().driver().release(mark_); }
bool GpuEvent::passed() const { return queue_.gpu().driver().passed(mark_); }

void GpuEvent::wait() const {
  GpuDevice& device = queue_.gpu();
  device.driver().await(mark_);
  device.traces.finish();
  device.faults.check();
}

GpuQueue::GpuQueue(GpuDevice& device, Driver& driver, std::string lane)
    : Queue(device.id()),
      device_(device),
      driver_(driver),
      lane_(std::move(lane)),
      stream_(driver.make_stream()) {}

Place GpuQueue::place_of(const Binding& binding) {
  if (binding.storage == nullptr) return {};
  if (binding.storage->device() != device())
    throw Error(ErrorCode::internal, fmt::format("a command of {} was given memory of {}", device_.name(),
                                                 to_string(binding.storage->device())));
  auto& storage = static_cast<GpuStorage&>(*binding.storage);
  if (!storage.seen()) {
    wait(storage.ready());
    storage.set_seen();
  }
  return {storage.memory(), static_cast<size_t>(binding.offset)};
}

void GpuQueue::copy(Binding to, Binding from, size_t bytes) {
  if (bytes > 0) driver_.copy(stream_, place_of(to), place_of(from), bytes);
}

void GpuQueue::fill(Binding to, uint8_t value, size_t bytes) {
  if (bytes > 0) driver_.fill(stream_, place_of(to), value, bytes);
}

std::shared_ptr<Event> GpuQueue::record() {
  return std::make_shared<GpuEvent>(*this, driver_.mark(stream_, false));
}

void GpuQueue::wait(const std::shared_ptr<Event>& event) {
  if (event == nullptr) return;
  const auto* own = dynamic_cast<const GpuEvent*>(event.get());
  if (own == nullptr || &own->queue().gpu() != &device_)
    event->wait();  // of another device: the host waits
  else if (&own->queue() != this && !own->passed())
    driver_.wait(stream_, own->mark(), own->queue().stream());
}

void GpuQueue::finish() {
  driver_.finish(stream_);
  device_.traces.finish();
  device_.faults.check();
}

void GpuQueue::release(std::optional<Span>& span) noexcept {
  if (!span) return;
  driver_.release(span->begin);
  if (span->end != span->begin) driver_.release(span->end);
  span.reset();
}

double GpuQueue::timed(const std::function<void()>& launches) {
  const std::scoped_lock one_at_a_time(timing_mutex_);
  finish();
  Timing timing;
  timing_ = &timing;
  try {
    launches();
    timing_ = nullptr;
    if (timing.first && !driver_.facts().spans_cost_nothing) {
      const Mark end = driver_.mark(stream_, true);
      timing.last = Span{end, end};
    }
    finish();
  } catch (...) {
    timing_ = nullptr;
    release(timing.first);
    release(timing.last);
    throw;
  }
  double seconds = 0;
  if (timing.first)
    seconds = driver_.interval(timing.last ? *timing.last : *timing.first).end -
              driver_.interval(*timing.first).begin;
  release(timing.first);
  release(timing.last);
  return seconds;
}

void GpuQueue::launch(const Launch& launch, const std::function<std::string()>& label) {
  const bool trace = Trace::active() != nullptr;
  const bool time = timing_ != nullptr && (!timing_->first || driver_.facts().spans_cost_nothing);
  Span span;
  driver_.launch(stream_, launch, trace || time ? &span : nullptr);
  if (time) {
    auto& place = timing_->first ? timing_->last : timing_->first;
    release(place);
    place = span;
  } else if (trace) {
    device_.traces.add(span, lane_, label());
  }
}

void GpuQueue::upload(Place to, const void* from, size_t bytes) {
  const bool trace = Trace::active() != nullptr;
  Span span;
  driver_.upload(stream_, to, from, bytes, trace ? &span : nullptr);
  if (trace) device_.traces.add(span, lane_, fmt::format("upload {}", format_bytes(bytes)));
}

void GpuQueue::download(void* to, Place from, size_t bytes) { driver_.download(stream_, to, from, bytes); }

}  // namespace athanor::gpu
