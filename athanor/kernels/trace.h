// Traces: what ran when, on the host and on devices, as Chrome and Perfetto show it (JSON Trace Event
// Format).
#pragma once
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

namespace athanor {

/// Something that took time. Lanes are drawn under one another: "host", "opencl:0 kernels", "opencl:0
/// copies".
struct TraceSpan {
  std::string lane, name;
  double start = 0, seconds = 0;  // on trace_clock()
};

/// Seconds of the clock that spans are on.
double trace_clock();

/// Gathers spans while it lives; at most one does. Any thread may add to it.
class Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// The one that lives, or nullptr: then nobody records anything.
  static Trace* active();
  void add(TraceSpan span);
  /// What kernels that this thread launches are shown as.
  static std::string& label();
  /// All spans, for chrome://tracing or ui.perfetto.dev.
  std::string json() const;

 private:
  mutable std::mutex mutex_;
  std::vector<TraceSpan> spans_;
};

/// A span of the host, from here to the end of the scope.
class TraceScope {
 public:
  explicit TraceScope(const char* name)
      : name_(name), start_(Trace::active() != nullptr ? trace_clock() : 0) {}
  ~TraceScope() {
    if (Trace* trace = Trace::active(); trace != nullptr && start_ > 0)
      trace->add({"host", name_, start_, trace_clock() - start_});
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  const char* name_;
  double start_;
};

}  // namespace athanor
