// Traces of what the host computes.
#pragma once
#include "athanor/kernels/queue.h"
#include "athanor/kernels/trace.h"

namespace athanor {

/// Adds the scope to the trace, if there is one and the command has a site.
class HostTrace {
 public:
  explicit HostTrace(const CommandSite* site)
      : trace_(site == nullptr ? nullptr : Trace::active()),
        site_(site),
        began_(trace_ == nullptr ? 0 : trace_clock()) {}
  ~HostTrace() {
    if (trace_ != nullptr) trace_->add({"cpu kernels", site_->label(), began_, trace_clock() - began_});
  }
  HostTrace(const HostTrace&) = delete;
  HostTrace& operator=(const HostTrace&) = delete;

 private:
  Trace* trace_;
  const CommandSite* site_;
  double began_;
};

}  // namespace athanor
