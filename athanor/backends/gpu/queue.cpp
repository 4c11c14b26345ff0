#include "athanor/backends/gpu/queue.h"

#include <fmt/format.h>

#include "athanor/backends/gpu/device.h"
#include "athanor/backends/gpu/storage.h"
#include "athanor/backends/gpu/wait_limit.h"
#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/kernels/trace.h"

namespace athanor::gpu {

GpuEvent::~GpuEvent() { queue_.gpu().driver().release(mark_); }
bool GpuEvent::passed() const { return queue_.gpu().driver().passed(mark_); }

void GpuEvent::await() const { queue_.await(mark_, launches_); }

void GpuEvent::wait() const {
  GpuDevice& device = queue_.gpu();
  await();
  device.traces.finish();
  device.faults.check();
}

namespace {

class GpuReplay final : public Replay {
 public:
  GpuReplay(GpuQueue& queue, Captured captured, std::vector<int> faults, Pending::Group launches)
      : queue_(queue), captured_(captured), faults_(std::move(faults)), launches_(std::move(launches)) {
    for (const int code : faults_) queue.gpu().faults.keep(code);
  }
  ~GpuReplay() override {
    for (const int code : faults_) queue_.gpu().faults.forget(code);
    queue_.gpu().driver().release_captured(captured_);
  }
  void run() override {
    queue_.replay(captured_, launches_);
    if (!faults_.empty()) queue_.gpu().faults.given();
  }

 private:
  GpuQueue& queue_;
  Captured captured_;
  std::vector<int> faults_;  // numbers of the captured launches that may report a fault
  Pending::Group launches_;
};

}  // namespace

GpuQueue::GpuQueue(GpuDevice& device, Driver& driver, std::string lane)
    : Queue(device.id()),
      device_(device),
      driver_(driver),
      lane_(std::move(lane)),
      stream_(driver.make_stream()),
      wait_limit_(wait_limit(driver.facts().shares_host_memory)) {}

Place GpuQueue::place_of(const Binding& binding) {
  if (binding.storage == nullptr) return {};
  if (binding.storage->device() != device())
    throw Error(ErrorCode::internal, fmt::format("a command of {} was given memory of {}", device_.name(),
                                                 to_string(binding.storage->device())));
  auto& storage = static_cast<GpuStorage&>(*binding.storage);
  if (this != &device_.kernels()) {
    wait(storage.ready());
    storage.set_used();
  } else if (!storage.seen()) {
    wait(storage.ready());
    storage.set_seen();
  }
  return {storage.memory(), static_cast<size_t>(binding.offset)};
}

template <class Command, class Label>
void GpuQueue::traced(const Command& command, const Label& label) {
  const bool trace = Trace::active() != nullptr;
  Span span;
  command(trace ? &span : nullptr);
  if (trace) device_.traces.add(span, lane_, label());
}

void GpuQueue::copy(Binding to, Binding from, size_t bytes) {
  if (bytes == 0) return;
  check_copy(to, from);
  if (to.storage->device() != from.storage->device()) return copy_across(to, from, bytes);
  const Place target = place_of(to), source = place_of(from);
  traced([&](Span* span) { driver_.copy(stream_, target, source, bytes, span); },
         [&] { return fmt::format("copy {}", format_bytes(bytes)); });
}

void GpuQueue::copy_across(const Binding& to, const Binding& from, size_t bytes) {
  const bool out = from.storage->device() == device();
  Storage& far = out ? *to.storage : *from.storage;
  wait(far.ready());
  const auto* const there = dynamic_cast<GpuStorage*>(&far);
  if (there != nullptr && driver_.reaches(there->gpu().driver())) {
    auto& storage = static_cast<GpuStorage&>(far);
    const auto side = [&](const Binding& binding) {
      return binding.storage == &far ? Driver::Side{storage.gpu().driver(),
                                                    {storage.memory(), static_cast<size_t>(binding.offset)}}
                                     : Driver::Side{driver_, place_of(binding)};
    };
    const Driver::Side target = side(to), source = side(from);
    traced([&](Span* span) { driver_.copy_between(stream_, target, source, bytes, span); },
           [&] {
             return fmt::format("{} {} {}", out ? "send" : "fetch", format_bytes(bytes),
                                to_string(far.device()));
           });
    storage.used_by(record());
  } else if (!out) {
    device_.crossings.copy_in(*this, place_of(to), from, bytes);
  } else if (far.device() == Device{}) {
    download(static_cast<std::byte*>(far.address()) + to.offset, place_of(from), bytes);
    finish();
  } else {
    device_.crossings.copy_out(
        *this, place_of(from), bytes, [&](const void* piece, size_t before, size_t count) {
          write_across({to.storage, to.offset + static_cast<int64_t>(before)}, piece, count);
        });
  }
}

void GpuQueue::fill(Binding to, uint8_t value, size_t bytes) {
  if (bytes > 0) driver_.fill(stream_, place_of(to), value, bytes);
}

Stream GpuQueue::stream_now() const {
  return capturing_.load() == std::this_thread::get_id() ? capture_stream_ : stream_;
}

bool GpuQueue::captures() const { return driver_.captures() && !waits_for_each_launch(); }

std::unique_ptr<Replay> GpuQueue::capture(const std::function<void()>& commands) {
  if (!captures()) return nullptr;
  const std::scoped_lock one_at_a_time(capture_mutex_);
  if (capture_stream_ == nullptr) capture_stream_ = driver_.make_stream();
  captured_faults_.clear();
  captured_launches_ = {};
  const auto end = [&] {
    capturing_ = std::thread::id();
    return driver_.end_capture(capture_stream_);
  };
  const auto abandon = [&] {
    try {
      if (const Captured captured = end(); captured != nullptr) driver_.release_captured(captured);
    } catch (const Error&) {
      // A device that is lost keeps nothing.
    }
  };
  try {
    driver_.begin_capture(capture_stream_);
    capturing_ = std::this_thread::get_id();
    commands();
  } catch (const Error& error) {
    abandon();
    if (error.code() != ErrorCode::device) throw;
    return nullptr;  // given one by one, the command that fails is named, or none fails
  } catch (...) {
    abandon();
    throw;
  }
  const Captured captured = end();
  if (captured == nullptr) return nullptr;
  return std::make_unique<GpuReplay>(*this, captured, std::move(captured_faults_),
                                     std::move(captured_launches_));
}

void GpuQueue::replay(Captured captured, const Pending::Group& launches) {
  pending_.launched(launches);
  try {
    driver_.replay(stream_, captured);
  } catch (const Error& error) {
    throw pending_.located(error, pending_.point());
  }
}

std::shared_ptr<Event> GpuQueue::record() {
  if (this == &device_.kernels()) device_.faults.fetch();
  return std::make_shared<GpuEvent>(*this, driver_.mark(stream_, false), pending_.point());
}

void GpuQueue::wait(const std::shared_ptr<Event>& event) {
  if (event == nullptr) return;
  const auto* const known = dynamic_cast<const GpuEvent*>(event.get());
  const auto reached = [&](GpuDevice& other) {
    return &other == &device_ || driver_.reaches(other.driver());
  };
  if (known == nullptr || !reached(known->queue().gpu()))
    event->wait();  // the event is of a device of another kind: the host waits
  else if (&known->queue() != this && !known->passed())
    driver_.wait(stream_, known->mark());
}

Error GpuQueue::hangs(const std::function<Error(const Error&)>& where) const {
  const Error error = where(
      {ErrorCode::device, fmt::format("{} has not ended its work for {:g} s", device_.name(), wait_limit_)});
  return {error.code(), error.problem(), error.where(),
          "A running kernel cannot be stopped, so the program ends. What a run has saved is whole: 'athanor "
          "train --resume' goes on from there, also on another --device. ATHANOR_WAIT_LIMIT=SECONDS waits "
          "longer (0: without end). " +
              error.hint()};
}

// A queue for copies has no launches, but a kernel's failure ends its waits too.
Error GpuQueue::located(const Error& error, uint64_t launches) {
  if (pending_.knows(launches)) return pending_.located(error, launches);
  return device_.kernels().located(error);
}

Error GpuQueue::located(const Error& error) {
  if (error.code() != ErrorCode::device || pending_.any()) return pending_.located(error);
  return {error.code(), error.problem() + ", while no launch was under way", error.where(), error.hint()};
}

void GpuQueue::await(Mark mark, uint64_t launches) {
  const LimitedWait limited(wait_limit_, [this, launches] {
    return hangs([&](const Error& error) { return located(error, launches); });
  });
  try {
    if (mark != nullptr)
      driver_.await(mark);
    else
      driver_.finish(stream_);
  } catch (const Error& error) {
    throw located(error, launches);
  }
  pending_.passed(launches);
}

void GpuQueue::finish() {
  if (this == &device_.kernels()) device_.faults.fetch();
  await_all();
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
  timing_thread_ = std::this_thread::get_id();
  try {
    launches();
    timing_thread_ = std::thread::id();
    if (timing.first && !driver_.facts().spans_cost_nothing) {
      const Mark end = driver_.mark(stream_, true);
      timing.last = Span{end, end};
    }
    finish();
  } catch (...) {
    timing_thread_ = std::thread::id();
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

template <class Command>
void GpuQueue::run(const Command& command, const std::string& name, int fault_code, const CommandSite* site) {
  const bool trace = Trace::active() != nullptr;
  Timing* const timing = this->timing();
  const bool time = timing != nullptr && (!timing->first || driver_.facts().spans_cost_nothing);
  Span span;
  command(stream_now(), trace || time ? &span : nullptr);
  const bool captured = capturing_.load() == std::this_thread::get_id();
  if (captured) captured_launches_.add(site);
  if (fault_code != 0) captured ? captured_faults_.push_back(fault_code) : device_.faults.given();
  if (time) {
    auto& place = timing->first ? timing->last : timing->first;
    release(place);
    place = span;
  } else if (trace) {
    device_.traces.add(span, lane_, site == nullptr ? name : site->label());
  }
  if (captured) return;
  if (!waits_for_each_launch() || timing != nullptr) return pending_.launched(site);
  const LimitedWait limited(wait_limit_, [&] {
    return hangs([&](const Error& error) {
      return site == nullptr ? error
                             : Error(error.code(), fmt::format("{}, in {}", error.problem(), site->step()),
                                     site->where());
    });
  });
  driver_.finish(stream_);
}

void GpuQueue::launch(const Launch& launch, const CommandSite* site) {
  run([&](Stream stream, Span* span) { driver_.launch(stream, launch, span); }, launch.name,
      launch.fault_code, site);
}

void GpuQueue::give(const std::string& name, const std::function<void(Stream)>& commands,
                    const CommandSite* site) {
  run([&](Stream stream, Span* span) { driver_.give(stream, commands, span); }, name, 0, site);
}

void GpuQueue::upload(Place to, const void* from, size_t bytes) {
  traced([&](Span* span) { driver_.upload(stream_, to, from, bytes, span); },
         [&] { return fmt::format("upload {}", format_bytes(bytes)); });
}

void GpuQueue::download(void* to, Place from, size_t bytes) { driver_.download(stream_, to, from, bytes); }

}  // namespace athanor::gpu
