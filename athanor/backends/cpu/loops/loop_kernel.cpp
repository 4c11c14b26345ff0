#include "athanor/backends/cpu/loops/loop_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "athanor/backends/cpu/loops/execute.h"
#include "athanor/backends/cpu/loops/plan.h"
#include "athanor/backends/cpu/loops/steps.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace athanor {

using loops::Worker;

LoopKernel::LoopKernel(LoopProgram program)
    : plan_(std::make_shared<const loops::LoopPlan>(loops::make_plan(std::move(program)))),
      isa_(loops::isa()) {}

/// Calls f(first, last) with the parts of [0, n), one for each thread.
template <class F>
static void share(int64_t n, int threads, const F& f) {
#ifdef _OPENMP
  if (threads > 1) {
#pragma omp parallel num_threads(threads)
    {
      const int64_t t = omp_get_thread_num(), of = omp_get_num_threads();
      f(n * t / of, n * (t + 1) / of);
    }
    return;
  }
#endif
  (void)threads;
  f(int64_t{0}, n);
}

void LoopKernel::run(std::span<void* const> buffers, int threads) const {
  const loops::LoopPlan& plan = *plan_;
  if (plan.nothing) return;
  // Waking a team of threads and waiting for it takes a few microseconds. Below that, one thread is faster.
  constexpr double worth_sharing_ns = 8000;
  if (plan.cost_ns < worth_sharing_ns) threads = 1;

  if (plan.reduce.form == loops::ReducePlan::Form::none) {
    const int64_t tiles = plan.tiling.tiles();
    share(tiles, static_cast<int>(std::min<int64_t>(threads, tiles)), [&](int64_t first, int64_t last) {
      Worker::of_this_thread().run_tiles(plan, buffers, first, last);
    });
    return;
  }
  const int64_t pieces = plan.reduce.units * plan.reduce.pieces;
  Worker& starter = Worker::of_this_thread();
  std::byte* partials =
      plan.reduce.pieces > 1 ? starter.partials(pieces * plan.reduce.partial_bytes) : nullptr;
  share(pieces, static_cast<int>(std::min<int64_t>(threads, pieces)), [&](int64_t first, int64_t last) {
    Worker::of_this_thread().run_pieces(plan, buffers, first, last, partials);
  });
  if (plan.reduce.pieces > 1) starter.combine(plan, buffers, partials);
}

std::string LoopKernel::description() const {
  const loops::ReducePlan& r = plan_->reduce;
  const auto tiles = plan_->tiling.tiles();
  const size_t steps = plan_->code.each.size();
  std::string text = fmt::format("{}, {} tile{} of {}, {} step{}", isa_, tiles, tiles == 1 ? "" : "s",
                                 plan_->tiling.tile_size(), steps, steps == 1 ? "" : "s");
  if (r.form == loops::ReducePlan::Form::rows) text += ", reducing rows";
  if (r.form == loops::ReducePlan::Form::columns) text += ", reducing columns";
  if (r.pieces > 1) text += fmt::format(" in {} pieces", r.pieces);
  return text;
}

const char* LoopKernel::isa() { return loops::isa(); }

}  // namespace athanor
