#include "athanor/backends/cpu/loops/loop_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "athanor/backends/cpu/loops/execute.h"
#include "athanor/backends/cpu/loops/steps.h"
#include "athanor/backends/cpu/loops/tiled_loop.h"
#include "athanor/backends/cpu/parallel.h"
#include "athanor/base/ceil_div.h"
#include "athanor/kernels/row_chain.h"

namespace athanor {
namespace {

using loops::TiledLoop;
using loops::Worker;
using Form = loops::TiledReduction::Form;

/// How many tiles, or pieces of reductions, the loop has.
int64_t shares_of(const TiledLoop& loop) {
  return loop.reduce.form == Form::none ? loop.tiling.tiles() : loop.reduce.units * loop.reduce.pieces;
}

/// Tiles, or pieces of reductions, that follow each other in the order of rows.
struct Shares {
  int64_t elements = 0;  // of `count` of them; of the last ones, perhaps fewer. 0: they follow another order
  int64_t count = 1;
};

/// The fewest shares that end together. `order`: the strides of elements that follow each other.
Shares fewest_shares(const TiledLoop& loop, const Ints& order) {
  const loops::TiledReduction& r = loop.reduce;
  const int64_t all = loop.program.iterations(), total = shares_of(loop);
  int64_t elements = all, found = 1;
  for (const loops::Loop& l : loop.tiling.loops) {
    if (found == total) break;
    const int64_t next = order[l.dim] * l.step;
    const bool whole = next * l.extent == elements, ragged = l.cut && found == 1;
    if (next <= 0 || (!whole && !(ragged && ceil_div(elements, next) == l.extent))) break;
    elements = next;
    found *= l.extent;
  }
  if (r.form == Form::none || r.pieces == 1) return {total % found == 0 ? elements : 0, total / found};
  // Pieces of rows that are all reduced to one result.
  const int64_t steps = r.tiles_per_unit / r.tiles_per_step, piece = all / r.pieces;
  const bool fits = r.units == 1 && steps % r.pieces == 0 && all % r.pieces == 0 && piece % elements == 0;
  return {fits ? piece : 0, 1};
}

/// The same for a loop of a chain, whose space is simplified. An operand that has the elements of all rows,
/// one after the other, tells where the dimensions are.
Shares fewest_shares(const TiledLoop& loop, const LoopProgram& before) {
  Ints order(before.space.size(), 1);
  for (size_t d = order.size() - 1; d-- > 0;) order[d] = order[d + 1] * before.space[d + 1];
  Shares fewest;
  for (size_t o = 0; o < before.operands.size(); ++o) {
    if (before.operands[o].strides != order) continue;
    const Shares shares = fewest_shares(loop, loop.program.operands[o].strides);
    if (shares.elements > 0 && (fewest.elements == 0 || shares.elements < fewest.elements)) fewest = shares;
  }
  return fewest;
}

/// The bytes of all buffers.
int64_t bytes_of(const std::vector<LoopProgram>& loops) {
  std::vector<int64_t> bytes(static_cast<size_t>(loops.front().buffers), 0);
  for (const LoopProgram& p : loops)
    for (const LoopOperand& o : p.operands) {
      int64_t elements = 1;
      for (size_t d = 0; d < p.space.size(); ++d)
        if (o.strides[d] != 0) elements *= p.space[d];
      int64_t& most = bytes[static_cast<size_t>(o.buffer)];
      most = std::max(most, elements * static_cast<int64_t>(size_of(o.dtype)));
    }
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

}  // namespace

std::optional<LoopChain> LoopChain::make(std::span<const LoopProgram> loops) {
  constexpr int64_t fewest = 8, parts = 16;                             // so that threads can share them
  constexpr int64_t part_bytes = 256 << 10, most_part_bytes = 1 << 20;  // in a second-level cache
  const std::optional<RowChain> chain = row_chain(loops);
  if (!chain) return std::nullopt;
  LoopChain result;
  result.isa_ = loops::isa();
  const int64_t all = chain->loops.front().iterations();
  int64_t unit = chain->row();  // elements after which a part can end
  std::vector<Shares> shares;
  for (const LoopProgram& program : chain->loops) {
    const auto loop = std::make_shared<TiledLoop>(loops::tile_loop(program));
    // The next loop reads it from a cache.
    if (&program != &chain->loops.back())
      for (loops::Instruction& i : loop->code.each) i.streams = false;
    shares.push_back(fewest_shares(*loop, program));
    if (shares.back().elements == 0) return std::nullopt;
    unit = std::lcm(unit, shares.back().elements);
    if (unit > all / fewest) return std::nullopt;
    Member member{.loop = loop, .shares = shares_of(*loop), .partials = result.partial_bytes_};
    member.combines = loop->reduce.pieces > 1;
    if (member.combines) result.partial_bytes_ += loop->reduce.pieces * loop->reduce.partial_bytes;
    result.cost_ns_ += loop->cost_ns;
    result.members_.push_back(std::move(member));
  }
  const int64_t bytes = bytes_of(chain->loops), wanted = all / std::max(parts, bytes / part_bytes);
  const int64_t elements = std::max<int64_t>(wanted / unit, 1) * unit;
  if (static_cast<double>(bytes) * static_cast<double>(elements) >
      static_cast<double>(most_part_bytes) * static_cast<double>(all))
    return std::nullopt;
  result.parts_ = ceil_div(all, elements);
  for (size_t l = 0; l < shares.size(); ++l)
    result.members_[l].per_part = elements / shares[l].elements * shares[l].count;
  return result;
}

void LoopChain::run(std::span<void* const> buffers, int threads) const {
  if (cost_ns_ < loops::worth_sharing_ns) threads = 1;
  Worker& starter = Worker::of_this_thread();
  std::byte* const partials = partial_bytes_ > 0 ? starter.partials(partial_bytes_) : nullptr;
  cpu::parallel_for(
      parts_, std::numeric_limits<int64_t>::max(),
      [&](int64_t first, int64_t last, int) {
        Worker& worker = Worker::of_this_thread();
        for (int64_t part = first; part < last; ++part)
          for (const Member& m : members_) {
            const int64_t begin = part * m.per_part, end = std::min(begin + m.per_part, m.shares);
            if (m.loop->reduce.form == Form::none)
              worker.run_tiles(*m.loop, buffers, begin, end);
            else
              worker.run_pieces(*m.loop, buffers, begin, end, partials + m.partials);
          }
      },
      threads);
  for (const Member& m : members_)
    if (m.combines) starter.combine(*m.loop, buffers, partials + m.partials);
}

std::string LoopChain::description() const {
  return fmt::format("{}, {} loops over {} parts of the rows", isa_, members_.size(), parts_);
}

}  // namespace athanor
