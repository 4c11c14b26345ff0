#include "athanor/kernels/gpu/templates/tile_operand.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {
namespace {

bool is_mma(const MatrixUnit& unit) { return unit.form == MatrixUnit::Form::mma; }
bool is_fma(const MatrixUnit& unit) { return unit.form == MatrixUnit::Form::fma; }

}  // namespace

TileOperand::TileOperand(Source source, Tile tile, const MatrixUnit& unit)
    : source_(std::move(source)),
      tile_(tile),
      unit_(unit),
      from_size_(static_cast<int64_t>(size_of(source_.dtype))),
      size_(static_cast<int64_t>(size_of(unit.input))),
      chunk_(chunk_bytes / size_) {
  from_along_k_ = source_.outer.stride() != 1 || source_.k.stride() == 1;
  // FMA takes neighbours along rows and columns; LOAD_MATRICES_TURNED turns elements of two bytes, and so do
  // units that read local memory.
  const bool unit_turns = (is_mma(unit) && size_ == 2) || unit.turns_local();
  along_k_ = !is_fma(unit) && (from_along_k_ || !unit_turns);
  const bool begins_anywhere = from_along_k_ ? source_.any_k : !source_.outer_end.empty();
  if (along().stride() != 1 || begins_anywhere) return;
  const TileAxis& across = from_along_k_ ? source_.outer : source_.k;
  vector_ = std::min(chunk_, chunk_bytes / from_size_);
  const auto fits = [&](int64_t v) {
    return along().has_whole(v) && along().strides_divide_by(v, true) && across.strides_divide_by(v, false) &&
           source_.batch % v == 0 && source_.alignment % (v * from_size_) == 0;
  };
  while (vector_ > 1 && !fits(vector_)) vector_ /= 2;
}

bool TileOperand::fits() const {
  if (tile_.k % fragment_k() != 0 || tile_.k % chunk_ != 0 || tile_.outer % chunk_ != 0) return false;
  if (work() % tile_.items != 0) return false;
  // Zeros beyond the matrix would not stay zeros, and what is turned in registers of several elements is not
  // computed.
  if (computes() && (source_.k.extent() % tile_.k != 0 || !source_.outer.even() || !source_.k.even() ||
                     !reads_registers() || (turned() && along_k_) || size_ == 1 ||
                     (outer_edge() && !from_along_k_ && vector_ < chunk_)))
    return false;
  // A chunk has channels of one tap. If they are along k, so has a tile.
  if (const auto& border = source_.border) {
    if (border->along_k == from_along_k_ || vector_ * from_size_ != held_registers() * 4 || computes())
      return false;
    const bool by_tiles = moves() && border->channels % tile_.k == 0 && loads() == 1 &&
                          border->count() <= TileBorder::most_taps;
    if (border->along_k ? border->channels % chunk_ != 0 : !by_tiles) return false;
  }
  if (unit_.reads_local() && widens()) return false;
  if (unit_.reads_local() && (along_k_ ? tile_.k != panel() : tile_.outer % panel() != 0)) return false;
  // All chunks of an item have the same place in the swizzle's pattern.
  if (!turned() && tile_.items % (chunks() * bank_chunks) != 0) return false;
  if (turned() && along_k_ && (tile_.k / turns() % 4 != 0 || tile_.items % (4 * (tile_.outer / chunk_)) != 0))
    return false;
  if (turned() && !along_k_ && tile_.items % (tile_.k / chunk_) != 0) return false;
  const auto reach = [](const TileAxis& axis, bool pointer_moves, int64_t of_tile) {
    return pointer_moves ? of_tile * axis.stride() : axis.reach();
  };
  const int64_t farthest = reach(source_.outer, begins_at_tile(), tile_.outer) +
                           reach(source_.k, moves() && !source_.border, tile_.k);
  return source_.outer.forward() && source_.k.forward() && farthest * from_size_ < INT32_MAX;
}

int64_t TileOperand::elements() const { return rows() * pitch() + padding(rows()); }

int64_t TileOperand::work() const {
  return turned() && along_k_ ? tile_.outer / chunk_ * (tile_.k / turns()) : tile_.outer * tile_.k / chunk_;
}

int64_t TileOperand::units() const {
  if (is_fma(unit_) || unit_.reads_local()) return 1;
  if (is_mma(unit_)) return 2 * chunk_ / unit_.k;
  return std::max<int64_t>(1, chunk_ / unit_.a.elements);
}

int64_t TileOperand::permutations() const { return is_fma(unit_) ? 1 : std::min(bank_chunks, chunks()); }

std::string TileOperand::description() const {
  std::string text = fmt::format("{} by {} bytes", source_.name, vector_ * from_size_);
  if (widens()) text += fmt::format(" of {}", to_string(source_.dtype));
  if (turned()) text += ", turned";
  if (computes()) text += ", computed";
  return text;
}

std::string TileOperand::base(const std::string& row) const {
  std::string text = times(row, pitch());
  if (after_eight() != 0) text += fmt::format(" + {} / 8 * {}", row, after_eight());
  if (after_sixteen() != 0) text += fmt::format(" + {} / 16 * {}", row, after_sixteen());
  return text;
}

std::string TileOperand::position(const std::string& row, const std::string& chunk) const {
  if (unit_.reads_local() && !along_k_)  // panel by panel
    return fmt::format("{0} * {1} + {2} / 8 * {3} + ({2} % 8 ^ {0} % 8) * {4}", row, panel(), chunk,
                       rows() * panel(), chunk_);
  const std::string permuted =
      permutations() == 1
          ? "(" + chunk + ")"
          : fmt::format("({} ^ {} % {})", chunk, divided(row, rows_together()), permutations());
  return fmt::format("{} + {} * {}", base(row), permuted, chunk_);
}

/// Opens a loop over an item's share, or a block if that is one chunk; nth() is its index.
void TileOperand::open_share(Code& code) const { open_unrolled(code, "i", share()); }

std::string TileOperand::nth() const { return share() == 1 ? "0" : "i"; }
std::string TileOperand::held_row(int64_t row) const { return plus(times(nth(), turns()), row); }

std::string TileOperand::item() const {
  return share() == 1 ? "item" : fmt::format("(item + i * {})", tile_.items);
}

std::string TileOperand::outer_of() const {
  if (turned() && along_k_) return fmt::format("{} / 4 % {} * {}", item(), tile_.outer / chunk_, chunk_);
  return from_along_k_ ? fmt::format("{} / {}", item(), tile_.k / chunk_)
                       : fmt::format("{} % {} * {}", item(), chunks(), chunk_);
}

std::string TileOperand::k_of() const {
  if (turned() && along_k_) {
    const int64_t outers = tile_.outer / chunk_;
    return times(fmt::format("({0} % 4 + {0} / {1} * 4)", item(), 4 * outers), turns());
  }
  return from_along_k_ ? fmt::format("{} % {} * {}", item(), tile_.k / chunk_, chunk_)
                       : fmt::format("{} / {}", item(), chunks());
}

std::string TileOperand::functions() const {
  return source_.outer.function(source_.name + "_outer_at") + source_.k.function(source_.name + "_k_at") +
         (source_.border ? source_.border->function(source_.name) : "") +
         source_.prologue.function(source_.prologue.vectors(chunk_));
}

void TileOperand::declare_border(Code& code, const std::string& outer) const {
  const TileBorder& border = *source_.border;
  const std::string n = source_.name;
  if (!border.along_k) return code.line(fmt::format("{0}_taps[{1}] = {0}_taps_of({2});", n, nth(), outer));
  const auto first = [&](const char* along, const std::string& tap, int64_t Pair::*of) {
    code.line(fmt::format("{}_first_{}[{}] = {};", n, along, nth(),
                          plus(times(tap, border.tap.*of), border.first.*of)));
  };
  code.line(fmt::format("const int tap = {};", divided("(" + outer + ")", border.channels)));
  first("row", divided("tap", border.taps.width), &Pair::height);
  first("column", remainder("tap", border.taps.width), &Pair::width);
}

void TileOperand::declare(Code& code, const std::string& first) const {
  const std::string n = source_.name;
  std::string begin = times64("batch", source_.batch);
  if (begins_at_tile()) begin = plus(begin, times64(first, source_.outer.stride()));
  std::string begin_k;
  if (source_.k.even())
    begin_k = times64("k_begin", source_.k.stride());
  else if (moves())
    begin_k = n + "_k_at(k_begin)";
  if (!source_.border && !begin_k.empty()) begin = plus(begin, begin_k);
  code.line(fmt::format("GLOBAL const u8 *{0} = (GLOBAL const u8 *){1};", n,
                        plus(n + "_matrices", times("(" + begin + ")", begin == "0" ? 0 : from_size_))));
  if (source_.border && moves())
    code.line(fmt::format("int {}_moved = (int)({});  // bytes along k", n, times(begin_k, from_size_)));
  if (source_.border)
    code.line(
        source_.border->along_k
            ? fmt::format("int {0}_first_row[{1}], {0}_first_column[{1}];  // that the first pixel reads", n,
                          share())
            : fmt::format("u32 {}_taps[{}];  // that are inside the image", n, share()));
  if (!source_.k.even() && moves()) {
    int64_t below = 1;
    for (size_t d = source_.k.digits().size(); d-- > 1;) {
      const int64_t extent = source_.k.digits()[d].extent;
      code.line(fmt::format("int {}_digit{} = {} % {};", n, d, divided("k_begin", below), extent));
      below *= extent;
    }
  }
  if (outer_edge())  // with the padding that is read
    code.line(
        fmt::format("const int {}_left = {} - {};", n,
                    !source_.outer_end.empty()
                        ? source_.outer_end
                        : std::to_string(from_along_k_ ? source_.outer.extent()
                                                       : ceil_div(source_.outer.extent(), vector_) * vector_),
                    first));
  code.line(fmt::format("u32 {}_from[{}];  // bytes from there in memory", n, share() * places()));
  code.line(fmt::format("int {0}_to[{1}];  // elements from the tile's begin in local memory", n, share()));
  open_share(code);
  code.line(fmt::format("const int outer = {}, k = {};", outer_of(), k_of()));
  std::string outer = "outer";
  // Rows beyond the matrix are read as copies of its last ones, and their results are not stored.
  if (outer_edge() && from_along_k_) outer = fmt::format("MIN(outer, {}_left - 1)", n);
  if (outer_edge() && !from_along_k_ && vector_ == chunk_)
    outer = fmt::format("MIN(outer, {}_left - {})", n, chunk_);
  for (int64_t p = 0; p < places(); ++p) {
    const std::string first_of = plus(outer, p * vector_);
    std::string offset =
        begins_at_tile()
            ? times(p == 0 ? first_of : fmt::format("({})", first_of), source_.outer.stride())
            : source_.outer.place(n + "_outer_at", operand(fmt::format("{} + {}", first, first_of)));
    if (moves()) offset += " + " + times("k", source_.k.stride());
    if (source_.border) {
      offset = plus(offset, source_.border->start);
      declare_border(code, fmt::format("{} + {}", first, first_of));
    }
    code.line(fmt::format("{}_from[{}] = (u32){};", n, plus(times(nth(), places()), p),
                          times("(" + offset + ")", from_size_)));
  }
  std::string to;
  if (turned())
    to = along_k_ ? fmt::format("{} + k % {}", base("outer"), chunk_) : base("k") + " + outer";
  else
    to = along_k_ ? position("outer", fmt::format("k / {}", chunk_))
                  : position("k", fmt::format("outer / {}", chunk_));
  code.line(fmt::format("{}_to[{}] = {};", n, nth(), to));
  code.close();
}

}  // namespace athanor::gpu
