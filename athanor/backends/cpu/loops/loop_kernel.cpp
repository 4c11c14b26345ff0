#include "athanor/backends/cpu/loops/loop_kernel.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "athanor/backends/cpu/loops/execute.h"
#include "athanor/backends/cpu/loops/steps.h"
#include "athanor/backends/cpu/loops/tiled_loop.h"
#include "athanor/backends/cpu/parallel.h"

namespace athanor {

using loops::Worker;

LoopKernel::LoopKernel(LoopProgram program)
    : loop_(std::make_shared<const loops::TiledLoop>(loops::tile_loop(std::move(program)))),
      isa_(loops::isa()) {}

namespace {

// The loop's cost decides whether it is shared.
constexpr int64_t worth_sharing = std::numeric_limits<int64_t>::max();

}  // namespace

void LoopKernel::run(std::span<void* const> buffers, int threads) const {
  const loops::TiledLoop& loop = *loop_;
  if (loop.nothing) return;
  if (loop.cost_ns < loops::worth_sharing_ns) threads = 1;

  if (loop.reduce.form == loops::TiledReduction::Form::none) {
    const int64_t tiles = loop.tiling.tiles();
    cpu::parallel_for(
        tiles, worth_sharing,
        [&](int64_t first, int64_t last, int) {
          Worker::of_this_thread().run_tiles(loop, buffers, first, last);
        },
        threads);
    return;
  }
  const int64_t pieces = loop.reduce.units * loop.reduce.pieces;
  Worker& starter = Worker::of_this_thread();
  std::byte* partials =
      loop.reduce.pieces > 1 ? starter.partials(pieces * loop.reduce.partial_bytes) : nullptr;
  cpu::parallel_for(
      pieces, worth_sharing,
      [&](int64_t first, int64_t last, int) {
        Worker::of_this_thread().run_pieces(loop, buffers, first, last, partials);
      },
      threads);
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
