#include "athanor/backends/cpu/loops/execute.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace athanor::loops {

using Form = TiledReduction::Form;

static constexpr int64_t no_index = std::numeric_limits<int64_t>::max();

Worker& Worker::of_this_thread() {
  thread_local Worker worker;
  return worker;
}

std::byte* Worker::partials(int64_t bytes) {
  if (partials_.size() < static_cast<size_t>(bytes)) partials_.resize(static_cast<size_t>(bytes));
  return partials_.data();
}

void Worker::enter(const TiledLoop& loop, std::span<void* const> buffers) {
  constexpr size_t page = 4096;
  const size_t wanted = static_cast<size_t>(loop.scratch_bytes) + page;
  if (memory_.size() < wanted) memory_.resize(wanted);
  const auto begin = reinterpret_cast<uintptr_t>(memory_.data());
  scratch_ = memory_.data() + ((begin + page - 1) / page * page - begin);
  // A body that never runs reads nothing: its buffers may be empty.
  if (!loop.no_elements) body_.enter(loop.tiling, loop.code, buffers, scratch_);
  if (loop.reduce.form != Form::none)
    epilogue_.enter(loop.epilogue_tiling, loop.epilogue, buffers, scratch_ + loop.epilogue_scratch);
}

void Worker::run_tiles(const TiledLoop& loop, std::span<void* const> buffers, int64_t first, int64_t last) {
  if (first >= last) return;
  enter(loop, buffers);
  body_.seek(first);
  for (int64_t tile = first; tile < last; ++tile) {
    body_.run_tile();
    body_.advance();
  }
  finish_streaming();
}

void Worker::clear(const TiledLoop& loop) {
  const TiledReduction& r = loop.reduce;
  const bool columns = r.form == Form::columns;
  const int64_t n =
      columns ? loop.tiling.tile_size() : r.kept * (r.kept_rows ? loop.epilogue_tiling.rows : 1);
  for (const Accumulator& red : r.reductions) {
    fill(scratch(red.wide), red.wide_identity, size_of(red.fns.wide), static_cast<size_t>(n));
    if (columns && red.fns.flush != nullptr)
      fill(scratch(red.running), red.identity, size_of(red.type), static_cast<size_t>(n));
    if (red.index >= 0) std::fill_n(scratch<int64_t>(red.indices), n, no_index);
  }
}

void Worker::accumulate(const TiledLoop& loop, bool flush) {
  const TiledReduction& r = loop.reduce;
  const auto n = static_cast<size_t>(body_.elements());
  for (const Accumulator& red : r.reductions) {
    const void* source = body_.reg(red.source);
    const void* factor = red.factor >= 0 ? body_.reg(red.factor) : nullptr;
    const auto* index = red.index >= 0 ? static_cast<const int64_t*>(body_.reg(red.index)) : nullptr;
    int64_t* indices = red.index >= 0 ? scratch<int64_t>(red.indices) : nullptr;
    if (r.form == Form::rows) {
      const int64_t place = body_.at(r.place_walker);
      const size_t length = r.row_length == 0 ? n : static_cast<size_t>(r.row_length);
      auto* acc = scratch<std::byte>(red.wide) + place * static_cast<int64_t>(size_of(red.fns.wide));
      if (factor != nullptr)
        red.fns.fold_product_rows(acc, source, factor, n / length, length);
      else
        red.fns.fold_rows(acc, indices == nullptr ? nullptr : indices + place, source, index, n / length,
                          length);
    } else {
      void* acc = scratch(red.fns.flush == nullptr ? red.wide : red.running);
      if (factor != nullptr)
        red.fns.accumulate_product(acc, source, factor, n);
      else
        red.fns.accumulate(acc, indices, source, index, n);
      if (flush && red.fns.flush != nullptr)
        red.fns.flush(scratch(red.wide), scratch(red.running), static_cast<size_t>(loop.tiling.tile_size()));
    }
  }
}

/// Folds a tile's accumulators: those of its reduced rows into the first row.
void Worker::fold_columns(const TiledLoop& loop) {
  const TiledReduction& r = loop.reduce;
  if (r.form != Form::columns || r.kept_rows) return;
  for (const Accumulator& red : r.reductions) {
    auto* wide = scratch<std::byte>(red.wide);
    int64_t* indices = red.index >= 0 ? scratch<int64_t>(red.indices) : nullptr;
    for (int64_t at = r.kept; at < loop.tiling.tile_size(); at += r.kept)
      red.fns.accumulate_wide(wide, indices, wide + at * static_cast<int64_t>(size_of(red.fns.wide)),
                              indices == nullptr ? nullptr : indices + at, static_cast<size_t>(r.kept));
  }
}

/// Calls f(reduction, its values, its indices, count) for a unit's partial results.
template <class F>
static void each_partial(const TiledLoop& loop, std::byte* partial, const F& f) {
  const TiledReduction& r = loop.reduce;
  const int64_t kept = r.kept * (r.kept_rows ? loop.epilogue_tiling.rows : 1);
  const auto round = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  for (const Accumulator& red : r.reductions) {
    const int64_t bytes = kept * static_cast<int64_t>(size_of(red.fns.wide));
    auto* indices = red.index >= 0 ? reinterpret_cast<int64_t*>(partial + round(bytes)) : nullptr;
    f(red, partial, indices, kept);
    partial += round(bytes) + (red.index >= 0 ? round(kept * 8) : 0);
  }
}

void Worker::save(const TiledLoop& loop, std::byte* partial) {
  each_partial(loop, partial, [&](const Accumulator& red, std::byte* values, int64_t* indices, int64_t kept) {
    std::memcpy(values, scratch(red.wide), static_cast<size_t>(kept) * size_of(red.fns.wide));
    if (indices != nullptr) std::copy_n(scratch<int64_t>(red.indices), kept, indices);
  });
}

void Worker::merge(const TiledLoop& loop, std::byte* partial) {
  each_partial(loop, partial, [&](const Accumulator& red, std::byte* values, int64_t* indices, int64_t kept) {
    red.fns.accumulate_wide(scratch(red.wide), red.index >= 0 ? scratch<int64_t>(red.indices) : nullptr,
                            values, indices, static_cast<size_t>(kept));
  });
}

void Worker::finish_unit(const TiledLoop& loop, int64_t unit) {
  epilogue_.seek(unit);
  const auto kept = static_cast<size_t>(loop.reduce.kept * (loop.reduce.kept_rows ? epilogue_.rows() : 1));
  for (const Accumulator& red : loop.reduce.reductions) {
    void* result = scratch(red.wide);
    if (red.index >= 0) {
      auto* indices = scratch<int64_t>(red.indices);
      std::replace(indices, indices + kept, no_index, int64_t{0});
      result = indices;
    }
    if (red.narrow != nullptr) {
      const void* const source[] = {result};
      red.narrow(scratch(red.narrowed), source, kept, 0);
      result = scratch(red.narrowed);
    }
    if (red.result >= 0) epilogue_.set_reg(red.result, result);
  }
  epilogue_.run_tile();
}

void Worker::run_pieces(const TiledLoop& loop, std::span<void* const> buffers, int64_t first, int64_t last,
                        std::byte* partials) {
  if (first >= last) return;
  constexpr int64_t flush_every = 32;  // limits the error of f32 sums
  enter(loop, buffers);
  const TiledReduction& r = loop.reduce;
  const int64_t steps = r.tiles_per_unit / r.tiles_per_step;
  for (int64_t i = first; i < last; ++i) {
    const int64_t unit = i / r.pieces, piece = i % r.pieces;
    const int64_t begin = steps * piece / r.pieces * r.tiles_per_step;
    const int64_t end = steps * (piece + 1) / r.pieces * r.tiles_per_step;
    clear(loop);
    if (!loop.no_elements) {
      body_.seek(unit * r.tiles_per_unit + begin);
      for (int64_t t = begin; t < end; ++t) {
        body_.run_tile();
        accumulate(loop, (t - begin) % flush_every == flush_every - 1 || t + 1 == end);
        body_.advance();
      }
      fold_columns(loop);
    }
    if (r.pieces == 1)
      finish_unit(loop, unit);
    else
      save(loop, partials + i * r.partial_bytes);
  }
  finish_streaming();
}

void Worker::combine(const TiledLoop& loop, std::span<void* const> buffers, std::byte* partials) {
  enter(loop, buffers);
  const TiledReduction& r = loop.reduce;
  for (int64_t unit = 0; unit < r.units; ++unit) {
    clear(loop);
    for (int64_t piece = 0; piece < r.pieces; ++piece)
      merge(loop, partials + (unit * r.pieces + piece) * r.partial_bytes);
    finish_unit(loop, unit);
  }
  finish_streaming();
}

}  // namespace athanor::loops
