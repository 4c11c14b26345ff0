#include "athanor/backends/gpu/traces.h"

#include <fmt/format.h>

#include "athanor/backends/gpu/device.h"
#include "athanor/kernels/trace.h"

namespace athanor::gpu {

void Traces::add(const Span& span, const std::string& lane, std::string name) {
  const std::scoped_lock lock(mutex_);
  traced_.push_back({span, fmt::format("{} {}", device_.name(), lane), std::move(name)});
}

void Traces::finish() {
  const std::scoped_lock lock(mutex_);
  if (traced_.empty()) return;
  Driver& driver = device_.driver();
  Trace* const trace = Trace::active();
  if (!clock_known_ && trace != nullptr) {
    // The device has a clock of its own. A mark that passes now tells how far that clock is from ours.
    const Stream stream = device_.kernels().stream();
    const Mark now = driver.mark(stream, true);
    driver.await(now);
    clock_offset_ = trace_clock() - driver.interval({now, now}).end;
    clock_known_ = true;
    driver.release(now);
  }
  std::vector<Traced> later;
  for (Traced& one : traced_) {
    if (!driver.passed(one.span.end)) {
      later.push_back(std::move(one));
      continue;
    }
    if (trace != nullptr) {
      const Interval when = driver.interval(one.span);
      trace->add(
          {std::move(one.lane), std::move(one.name), when.begin + clock_offset_, when.end - when.begin});
    }
    driver.release(one.span.begin);
    if (one.span.end != one.span.begin) driver.release(one.span.end);
  }
  traced_ = std::move(later);
}

}  // namespace athanor::gpu
