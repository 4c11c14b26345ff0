#include "athanor/backends/cpu/loops/loop_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "athanor/backends/cpu/loops/execute.h"
#include "athanor/backends/cpu/loops/steps.h"
#include "athanor/backends/cpu/loops/tiled_loop.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace athanor {

using loops::Worker;

LoopKernel::LoopKernel(LoopProgram program)
    : loop_(std::make_shared<const loops::TiledLoop>(loops::tile_loop(std::move(program)))),
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
  const loops::TiledLoop& loop = *loop_;
  if (loop.nothing) return;
  // Waking a team of threads and waiting for it takes a few microseconds. Below that, one thread is faster.
  constexpr double worth_sharing_ns = 8000;
  if (loop.cost_ns < worth_sharing_ns) threads = 1;

  if (loop.reduce.form == loops::TiledReduction::Form::none) {
    const int64_t tiles = loop.tiling.tiles();
    share(tiles, static_cast<int>(std::min<int64_t>(threads, tiles)), [&](int64_t first, int64_t last) {
      Worker::of_this_thread().run_tiles(loop, buffers, first, last);
    });
    return;
  }
  const int64_t pieces = loop.reduce.units * loop.reduce.pieces;
  Worker& starter = Worker::of_this_thread();
  std::byte* partials =
      loop.reduce.pieces > 1 ? starter.partials(pieces * loop.reduce.partial_bytes) : nullptr;
  share(pieces, static_cast<int>(std::min<int64_t>(threads, pieces)), [&](int64_t first, int64_t last) {
    Worker::of_this_thread().run_pieces(loop, buffers, first, last, partials);
  });
  if (loop.reduce.pieces > 1) starter.combine(loop, buffers, partials);
}

std::string LoopKernel::description() const {
  const loops::TiledReduction& r = loop_->reduce;
  const auto tiles = loop_->tiling.tiles();
  const size_t steps = loop_->code.each.size();
  std::string text = fmt::format("{}, {} tile{} of {}, {} step{}", isa_, tiles, tiles == 1 ? "" : "s",
                                 loop_->tiling.tile_size(), steps, steps == 1 ? "" : "s");
  if (r.form == loops::TiledReduction::Form::rows) text += ", reducing rows";
  if (r.form == loops::TiledReduction::Form::columns) text += ", reducing columns";
  if (r.pieces > 1) text += fmt::format(" in {} pieces", r.pieces);
  return text;
}

const char* LoopKernel::isa() { return loops::isa(); }

}  // namespace athanor
