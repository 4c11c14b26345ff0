// Traces: what ran when, on the host and on devices, in the format that Chrome and Perfetto show (JSON Trace
// Event Format).
#pragma once
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

namespace athanor {

/// Something that took time. Lanes are drawn below one another: "host", "opencl:0 kernels", "opencl:0
/// copies".
struct TraceSpan {
  std::string lane, name;
  double start = 0, seconds = 0;  // on trace_clock()
};

/// The current time in seconds, on the clock of spans.
double trace_clock();

/// Collects spans while it exists. At most one exists at a time. Any thread may add to it.
class Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// The current one, or nullptr if nothing is recorded.
  static Trace* active();
  void add(TraceSpan span);
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
