// The kernel whose groups divide the steps of all tiles evenly, and the launch that adds the parts of shared
// tiles.
#include "athanor/kernels/gpu/templates/tile_stream.h"

#include <fmt/format.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/tile_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

TileStream TileKernel::stream() const {
  return {tiles_m() * tiles_n() * p_.batch, ceil_div(p_.k, point_.k), point_.streams};
}

/// Requires, among others, an epilogue with one result: the second launch computes no more.
bool TileKernel::can_stream() const {
  const TileStream all = stream();
  // AMD's compiler keeps in registers what both ways to store need, and spills if there are more sums.
  const bool wmma = unit_.form == MatrixUnit::Form::wmma, dot = unit_.form == MatrixUnit::Form::dot;
  const int64_t most_sums = wmma ? 64 : 32;
  if ((wmma || dot) && wave_m() * wave_n() / unit_.wave > most_sums) return false;
  return point_.splits == 1 && !unit_.reads_local() && !p_.epilogue.has_further_results() && all.shares() &&
         all.tiles * all.steps < INT32_MAX;
}

/// Opens a loop over the tiles of which the group has steps.
void TileKernel::begin_stream() {
  const TileStream all = stream();
  const std::string share =
      fmt::format("GROUP_ID(0) * {0}, end = MIN(begin + {0}, {1})", all.share, all.divided * all.steps);
  code_.line(fmt::format("// {} groups have {} steps each of {} tiles' {}; {} groups a tile each.",
                         all.groups, all.share, all.divided, all.divided * all.steps,
                         all.tiles - all.divided));
  if (all.divided == all.tiles) {
    code_.line(fmt::format("const int begin = {};", share));
  } else {
    code_.line(fmt::format("const int divides = GROUP_ID(0) < {};", all.groups));
    code_.line(fmt::format("const int begin = divides ? GROUP_ID(0) * {} : (GROUP_ID(0) + {}) * {};",
                           all.share, all.divided - all.groups, all.steps));
    code_.line(fmt::format("const int end = divides ? MIN(begin + {}, {}) : begin + {};", all.share,
                           all.divided * all.steps, all.steps));
  }
  code_.open("for (int at = begin; at < end;)");
  code_.line("if (at > begin) LOCAL_BARRIER();  // waves may still read the tile before");
  code_.line(fmt::format("const int whole = at / {0}, stop = MIN(end, (whole + 1) * {0});", all.steps));
  code_.line(fmt::format("const int tile = whole % {0}, batch = whole / {0};", tiles_m() * tiles_n()));
  code_.line(fmt::format("const int k_begin = at % {} * {};", all.steps, point_.k));
  code_.line(fmt::format("const int k_end = MIN((stop - whole * {}) * {}, {});", all.steps, point_.k, p_.k));
}

void TileKernel::store_stream() {
  const TileStream all = stream();
  code_.open(fmt::format("if (stop - at == {})", all.steps));
  store_result(false);
  code_.close();
  code_.open("else");
  // A part's elements lie in the same order as those of its tile of C.
  const bool rows_together = p_.c.row.stride() == 1 && p_.c.column.stride() != 1;
  const auto c = std::pair{row_, column_};
  row_ = {point_.m, rows_together ? 1 : point_.n};
  column_ = {point_.n, rows_together ? point_.m : 1};
  code_.line(fmt::format("const int part = GROUP_ID(0) * 2 + (whole > begin / {});", all.steps));
  code_.line(
      fmt::format("GLOBAL {} *const c = parts + part * (i64){};", sum_type(unit_), point_.m * point_.n));
  store_result(true);
  std::tie(row_, column_) = c;
  code_.close();
  code_.line("at = stop;");
  code_.close();
}

GpuLaunch TileKernel::finish_stream(GpuLaunch::Argument parts, const GpuTraits& traits) const {
  const TileStream all = stream();
  const bool rows_inside = p_.c.row.stride() == 1 && p_.c.column.stride() != 1;
  return add_parts(
      "sum_of_stream", {all.divided, rows_inside ? point_.n : point_.m, rows_inside ? point_.m : point_.n},
      parts, traits,
      [&](Code& code) {
        code.line("const int whole = (int)dim0;");
        code.line(fmt::format("const int first = whole * {0} / {1}, last = (whole * {0} + {2}) / {1};",
                              all.steps, all.share, all.steps - 1));
        code.line("if (first == last) return;  // one group had all of it");
        code.line(fmt::format("const int tile = whole % {0};", tiles_m() * tiles_n()));
        code.line(fmt::format("const i64 batch = whole / {};", tiles_m() * tiles_n()));
        find_tile(code);
        code.line(fmt::format("const i64 row = m0 + dim{}, column = n0 + dim{};", rows_inside ? 2 : 1,
                              rows_inside ? 1 : 2));
        code.line(fmt::format("if (row >= {} || column >= {}) return;", p_.m, p_.n));
      },
      [&](Code& code) {
        code.open("for (int group = first; group <= last; ++group)");
        code.line(
            fmt::format("const int part = group * 2 + (whole > group * {} / {});", all.share, all.steps));
        code.line(fmt::format("sum += parts[part * (i64){0} + flat % {0}];", point_.m * point_.n));
        code.close();
      });
}

}  // namespace athanor::gpu
