#include "athanor/kernels/trace.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <nlohmann/json.hpp>

namespace athanor {
namespace {

std::atomic<Trace*> current{nullptr};

}  // namespace

double trace_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Trace::Trace() { current = this; }
Trace::~Trace() { current = nullptr; }
Trace* Trace::active() { return current; }

void Trace::add(TraceSpan span) {
  const std::scoped_lock lock(mutex_);
  spans_.push_back(std::move(span));
}

std::string Trace::json() const {
  const std::scoped_lock lock(mutex_);
  auto events = nlohmann::ordered_json::array();
  std::map<std::string, int> lanes;
  double first = spans_.empty() ? 0 : spans_.front().start;
  for (const TraceSpan& span : spans_) {
    first = std::min(first, span.start);
    lanes.emplace(span.lane, 0);
  }
  int number = 0;
  for (auto& [lane, id] : lanes) {
    id = lane == "host" ? 0 : ++number;
    events.push_back(
        {{"ph", "M"}, {"pid", 1}, {"tid", id}, {"name", "thread_name"}, {"args", {{"name", lane}}}});
  }
  for (const TraceSpan& span : spans_)
    events.push_back({{"ph", "X"},
                      {"pid", 1},
                      {"tid", lanes[span.lane]},
                      {"name", span.name},
                      {"ts", (span.start - first) * 1e6},
                      {"dur", span.seconds * 1e6}});
  return nlohmann::ordered_json{{"displayTimeUnit", "ms"}, {"traceEvents", events}}.dump();
}

}  // namespace athanor
