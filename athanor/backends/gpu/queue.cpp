#include "athanor/backends/gpu/queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "athanor/backends/gpu/device.h"
#include "athanor/backends/gpu/storage.h"
#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/kernels/trace.h"

namespace athanor::gpu {

GpuEvent::~GpuEvent() { queue_.gpu().driver().release(mark_); }

bool GpuEvent::passed() const {
  GpuDevice& device = queue_.gpu();
  return device.driver().passed(mark_) && device.landings.try_land(landings_);
}

void GpuEvent::await() const {
  queue_.await(mark_, launches_);
  queue_.gpu().landings.land(landings_);
}

void GpuEvent::settle() const noexcept {
  try {
    await();
  } catch (const std::exception&) {
    queue_.settle();
  }
}

void GpuEvent::wait() const {
  GpuDevice& device = queue_.gpu();
  await();
  device.traces.finish();
  device.faults.check();
}

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
  limited([&] { command(trace ? &span : nullptr); });
  if (trace) device_.traces.add(span, lane_, label());
}

void GpuQueue::copy(Binding to, Binding from, size_t bytes) {
  if (bytes == 0) return;
  check_copy(to, from);
  refuse_to_capture("a copy");
  if (to.storage->device() != from.storage->device()) return copy_across(to, from, bytes);
  const Place target = place_of(to), source = place_of(from);
  traced([&](Span* span) { driver_.copy(stream_, target, source, bytes, span); },
         [&] { return fmt::format("copy {}", format_bytes(bytes)); });
}

// The host's memory, if a copy to it need not be waited for: only all of it, since a place in an arena has no
// event of its own; and not on a device in the host's processor, which needs no pinned memory.
std::shared_ptr<Storage> GpuQueue::lands(const Binding& to, size_t bytes) const {
  const bool whole = to.offset == 0 && bytes == to.storage->bytes();
  if (this != &device_.copies_out() || to.storage->device() != Device{} || !whole ||
      device_.facts().shares_host_memory)
    return nullptr;
  return to.storage->weak_from_this().lock();
}

void GpuQueue::copy_across(const Binding& to, const Binding& from, size_t bytes) {
  const bool out = from.storage->device() == device();
  Storage& far = out ? *to.storage : *from.storage;
  const SettlesOnError settled(*this);
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
  } else if (const auto shared = lands(to, bytes); shared != nullptr) {
    device_.landings.receive(shared, place_of(from));
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
  if (bytes == 0) return;
  refuse_to_capture("a fill");
  const Place place = place_of(to);
  limited([&] { driver_.fill(stream_, place, value, bytes); });
}

Stream GpuQueue::stream_now() const { return capturing() ? capture_stream_ : stream_; }

// Given to the stream now, the command would run once, before all replays.
void GpuQueue::refuse_to_capture(const char* what) const {
  if (capturing())
    throw Error(ErrorCode::device, fmt::format("{}: {} cannot be captured", device_.name(), what));
}

bool GpuQueue::captures() const { return driver_.captures() && !waits_for_each_launch(); }

uint64_t GpuQueue::landings_before() const {
  return this == &device_.copies_out() ? device_.landings.given() : follows_.load();
}

std::shared_ptr<GpuEvent> GpuQueue::mark() {
  const uint64_t landings = landings_before();  // read first: another thread may give more
  return std::make_shared<GpuEvent>(*this, driver_.mark(stream_, false), pending_.point(), landings);
}

std::shared_ptr<Event> GpuQueue::record() {
  if (this == &device_.kernels()) device_.faults.fetch();
  return mark();
}

// A wait may fail although work goes on. A device on which two fail is lost, and runs nothing any more.
void GpuQueue::settle() noexcept {
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      return await_all();
    } catch (const std::exception&) {
      continue;
    }
  }
}

std::shared_ptr<Event> GpuQueue::record_or_settle() noexcept {
  try {
    return record();
  } catch (const std::exception&) {
    // A lost device, or no memory for an event.
  }
  settle();
  return nullptr;
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
    wait(*known);
}

void GpuQueue::wait(const GpuEvent& event) {
  GpuDevice& other = event.queue().gpu();
  // Pieces are numbered for each device: those of another one are moved before this queue goes on.
  const bool own = &other == &device_;
  if (!own && event.landings() > other.landings.landed()) return event.await();
  driver_.wait(stream_, event.mark());
  if (!own) return;
  uint64_t follows = follows_;
  while (follows < event.landings() && !follows_.compare_exchange_weak(follows, event.landings())) {
  }
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

Error GpuQueue::located(const Error& error, uint64_t launches) {
  if (pending_.knows(launches)) return pending_.located(error, launches);
  return device_.kernels().located(error);
}

// A queue for copies has no launches, but a kernel's failure ends its waits too.
Error GpuQueue::located(const Error& error) {
  if (error.code() != ErrorCode::device || pending_.any()) return pending_.located(error);
  if (this != &device_.kernels()) return device_.kernels().located(error);
  return {error.code(), error.problem() + ", while no launch was under way", error.where(), error.hint()};
}

static Error in_step(const Error& error, const CommandSite& site) {
  return {error.code(), fmt::format("{}, in {}", error.problem(), site.step()), site.where()};
}

Error GpuQueue::located(const Error& error, const CommandSite* site) {
  return site == nullptr || pending_.any() ? located(error) : in_step(error, *site);
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

void GpuQueue::await_all() {
  const uint64_t landings = landings_before();
  await(nullptr, pending_.point());
  device_.landings.land(landings);
}

void GpuQueue::finish() {
  if (this == &device_.kernels()) device_.faults.fetch();
  await_all();
  device_.traces.finish();
  device_.faults.check();
  release_retired();  // last, for a fault may name its launches
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
  double seconds = 0;
  try {
    launches();
    timing_thread_ = std::thread::id();
    if (timing.first && !driver_.facts().spans_cost_nothing) {
      const Mark end = driver_.mark(stream_, true);
      timing.last = Span{end, end};
    }
    finish();
    if (timing.first)
      seconds = driver_.interval(timing.last ? *timing.last : *timing.first).end -
                driver_.interval(*timing.first).begin;
  } catch (...) {
    timing_thread_ = std::thread::id();
    release(timing.first);
    release(timing.last);
    throw;
  }
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
  limited([&] { command(stream_now(), trace || time ? &span : nullptr); }, site);
  const bool captured = capturing();
  if (captured) captured_.launches.add(site);
  if (fault_code != 0) captured ? captured_.faults.push_back(fault_code) : device_.faults.given();
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
    return hangs([&](const Error& error) { return site == nullptr ? error : in_step(error, *site); });
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

// CUDA and HIP return when memory that is not pinned has been written.
void GpuQueue::download(void* to, Place from, size_t bytes) {
  traced([&](Span* span) { driver_.download(stream_, to, from, bytes, span); },
         [&] { return fmt::format("download {}", format_bytes(bytes)); });
}

}  // namespace athanor::gpu
