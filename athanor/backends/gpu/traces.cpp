#include "athanor/backends/gpu/traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "athanor/backends/gpu/device.h"
#include "athanor/kernels/trace.h"

namespace athanor::gpu {
namespace {

/// Gives the driver back its marks, also if it does not tell when a command ran.
struct Released {
  Driver& driver;
  std::vector<Span> spans;
  ~Released() {
    for (const Span& span : spans) {
      driver.release(span.begin);
      if (span.end != span.begin) driver.release(span.end);
    }
  }
};

}  // namespace

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
    // The device has a clock of its own. A mark that passes now tells how far that clock is from ours. It is
    // not behind kernels, or the first wait for a copy would be one for all kernels that were given.
    const Mark now = driver.mark(device_.reads().stream(), true);
    const Released released{driver, {{now, now}}};
    device_.reads().await(now);
    clock_offset_ = trace_clock() - driver.interval({now, now}).end;
    clock_known_ = true;
  }
  const auto runs = [&](const Traced& one) { return !driver.passed(one.span.end); };
  const auto first = std::stable_partition(traced_.begin(), traced_.end(), runs);
  std::vector<Traced> ended(std::make_move_iterator(first), std::make_move_iterator(traced_.end()));
  traced_.erase(first, traced_.end());
  Released released{driver, {}};
  for (const Traced& one : ended) released.spans.push_back(one.span);
  if (trace == nullptr) return;
  for (Traced& one : ended) {
    const Interval when = driver.interval(one.span);
    trace->add({std::move(one.lane), std::move(one.name), when.begin + clock_offset_, when.end - when.begin});
  }
}

}  // namespace athanor::gpu
