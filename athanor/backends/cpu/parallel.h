// Loops over several threads.
#pragma once
#include <cstdint>

#include "athanor/base/threads.h"

namespace athanor::cpu {

/// Refers to a function object f(begin, end, thread). It is compiled once, not once for each way to divide a
/// loop.
class RangeBody {
 public:
  template <class F>
  RangeBody(const F& f)
      : object_(&f), call_([](const void* object, int64_t begin, int64_t end, int thread) {
          (*static_cast<const F*>(object))(begin, end, thread);
        }) {}
  void operator()(int64_t begin, int64_t end, int thread) const { call_(object_, begin, end, thread); }

 private:
  const void* object_;
  void (*call_)(const void*, int64_t, int64_t, int);
};

/// Calls body(begin, end, thread) for disjoint ranges that cover [0, count): one range for each thread, or
/// more if there are part-time threads. Results must not depend on the ranges. `work` is roughly the number
/// of elements that the whole loop touches: below about ten thousand, waking threads costs more than it
/// gains. `thread` is below `max_threads`. If ranges throw, the exception of the first of them is thrown
/// here.
void parallel_for(int64_t count, int64_t work, RangeBody body, int max_threads = cpu_workers());

}  // namespace athanor::cpu
