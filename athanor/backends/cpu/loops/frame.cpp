#include <algorithm>
#include <cstring>

#include "athanor/backends/cpu/loops/execute.h"

namespace athanor::loops {

using Kind = Instruction::Kind;

static constexpr int64_t line_bytes = 64;

void fill(void* dst, uint64_t bits, size_t item, size_t n) {
  switch (item) {
    case 1:
      std::memset(dst, static_cast<int>(bits & 0xff), n);
      break;
    case 2:
      for (size_t i = 0; i < n; ++i) static_cast<uint16_t*>(dst)[i] = static_cast<uint16_t>(bits);
      break;
    case 4:
      for (size_t i = 0; i < n; ++i) static_cast<uint32_t*>(dst)[i] = static_cast<uint32_t>(bits);
      break;
    default:
      for (size_t i = 0; i < n; ++i) static_cast<uint64_t*>(dst)[i] = bits;
  }
}

void Frame::enter(const Tiling& tiling, const Code& code, std::span<void* const> buffers,
                  std::byte* scratch) {
  tiling_ = &tiling;
  code_ = &code;
  origin_.clear();
  for (const Walker& w : code.walkers) {
    const int64_t base =
        w.buffer < 0 ? 0 : reinterpret_cast<intptr_t>(buffers[static_cast<size_t>(w.buffer)]);
    origin_.push_back(base + w.offset);
  }
  at_ = origin_;
  last_rows_.assign(code.walkers.size(), -1);
  last_.resize(code.walkers.size());
  trip_.assign(tiling.loops.size(), 0);
  registers_.clear();
  for (int64_t offset : code.registers) registers_.push_back(offset < 0 ? nullptr : scratch + offset);
  find_streams();
  for (const Instruction& i : code.once) run(i, 1, uniform_lanes);
}

bool Frame::reads(int target) const {
  for (const auto* list : {&code_->once, &code_->each})
    for (const Instruction& i : *list)
      if (i.kind != Kind::store && i.walker >= 0 &&
          origin_[static_cast<size_t>(i.walker)] == origin_[static_cast<size_t>(target)])
        return true;
  return false;
}

void Frame::find_streams() {
  streamed_.assign(code_->walkers.size(), 0);
  for (const Instruction& i : code_->each)
    if (i.streams) streamed_[static_cast<size_t>(i.target)] = !reads(i.target);

  constexpr int64_t beyond_cache = 1 << 20;
  ahead_.clear();
  int64_t lines = 0;
  for (size_t w = 0; w < code_->walkers.size(); ++w) {
    const Walker& walker = code_->walkers[w];
    const bool seen = std::any_of(ahead_.begin(), ahead_.end(), [&](const Stream& s) {
      return origin_[static_cast<size_t>(s.walker)] == origin_[w];
    });
    if (walker.buffer < 0 || walker.form != Walker::Form::contiguous || walker.bytes < beyond_cache ||
        walker.repeats || walker.loop_strides.empty() || streamed_[w] || seen)
      continue;
    ahead_.push_back({static_cast<int64_t>(w), tiling_->tile_size() * walker.item});
    lines += ahead_.back().bytes / line_bytes;
  }
  // (A body may have no instructions: a sum of constants.)
  ahead_lines_ = lines / std::max<int64_t>(1, static_cast<int64_t>(code_->each.size())) + 1;
}

void Frame::fetch(int64_t lines) {
  while (lines > 0 && fetching_ < ahead_.size()) {
    const Stream& s = ahead_[fetching_];
    const auto w = static_cast<size_t>(s.walker);
    const auto* const from =
        reinterpret_cast<const std::byte*>(at_[w] + code_->walkers[w].loop_strides.back());
    const int64_t some = std::min(lines, (s.bytes - fetched_ + line_bytes - 1) / line_bytes);
    for (int64_t i = 0; i < some; ++i) __builtin_prefetch(from + fetched_ + i * line_bytes);
    lines -= some;
    fetched_ += some * line_bytes;
    if (fetched_ < s.bytes) continue;
    fetched_ = 0;
    ++fetching_;
  }
}

void Frame::seek(int64_t tile) {
  for (size_t l = trip_.size(); l-- > 0;) {
    trip_[l] = tile % tiling_->loops[l].extent;
    tile /= tiling_->loops[l].extent;
  }
  for (size_t w = 0; w < at_.size(); ++w) {
    at_[w] = origin_[w];
    for (size_t l = 0; l < trip_.size(); ++l) at_[w] += trip_[l] * code_->walkers[w].loop_strides[l];
  }
}

void Frame::advance() {
  for (size_t l = trip_.size(); l-- > 0;) {
    const bool wraps = ++trip_[l] == tiling_->loops[l].extent;
    const int64_t trips = wraps ? 1 - trip_[l] : 1;
    for (size_t w = 0; w < at_.size(); ++w) at_[w] += trips * code_->walkers[w].loop_strides[l];
    if (!wraps) return;
    trip_[l] = 0;
  }
}

int64_t Frame::rows() const {
  if (tiling_->cut < 0) return 1;
  const int64_t left = tiling_->cut_extent - trip_[static_cast<size_t>(tiling_->cut)] * tiling_->rows;
  return left < tiling_->rows ? left : tiling_->rows;
}

void Frame::run_tile() {
  const int64_t count = rows();
  const auto n = static_cast<size_t>(count * tiling_->row_size);
  const bool last = trip_.empty() || trip_.back() + 1 == tiling_->loops.back().extent;
  fetching_ = last ? ahead_.size() : 0;
  fetched_ = 0;
  for (const Instruction& i : code_->each) {
    fetch(ahead_lines_);
    run(i, count, i.uniform ? uniform_lanes : n);
  }
}

inline void Frame::run(const Instruction& i, int64_t count, size_t n) {
  const auto w = static_cast<size_t>(i.walker);
  const bool streams = i.streams && streamed_[static_cast<size_t>(i.target)];
  if (i.target >= 0 && !streams) set_reg(i.dst, reinterpret_cast<void*>(at(i.target)));
  if (i.cached) {
    if (last_rows_[w] >= count && last_[w] == at_[w]) return;
    last_rows_[w] = count;
    last_[w] = at_[w];
  }
  switch (i.kind) {
    case Kind::step: {
      const void* sources[max_sources];
      for (int k = 0; k < i.sources; ++k) sources[k] = reg(i.src[static_cast<size_t>(k)]);
      i.fn(reg(i.dst), sources, n, i.uniform_sources);
      break;
    }
    case Kind::point:
      set_reg(i.dst, reinterpret_cast<void*>(at_[w]));
      break;
    case Kind::gather:
      gather(reg(i.dst), at_[w], code_->walkers[w], count);
      break;
    case Kind::store:
      scatter(at_[w], reg(i.src[0]), code_->walkers[w], count);
      break;
    case Kind::constant:
      fill(reg(i.dst), i.bits, static_cast<size_t>(i.item), n);
      break;
    case Kind::splat: {
      uint64_t bits = 0;
      std::memcpy(&bits, reinterpret_cast<const void*>(at_[w]), static_cast<size_t>(i.item));
      fill(reg(i.dst), bits, static_cast<size_t>(i.item), n);
      break;
    }
    case Kind::index:
      if (i.uniform)
        fill(reg(i.dst), static_cast<uint64_t>(at_[w]), 8, n);
      else
        fill_index(static_cast<int64_t*>(reg(i.dst)), at_[w], code_->walkers[w], count);
      break;
  }
  if (streams) stream(reinterpret_cast<void*>(at(i.target)), reg(i.dst), static_cast<int64_t>(n) * i.item);
}

}  // namespace athanor::loops
