// From tiles in local memory to the registers of matrix units.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/kernels/gpu/templates/tile_operand.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {
namespace {

// How many groups of lanes hold different steps along k.
int64_t lane_groups(const LaneLayout& layout) {
  int64_t groups = 1;
  for (const LaneLayout::Cell& step : layout.lane)
    if (step.column != 0) groups *= 2;
  return groups;
}

}  // namespace

int64_t TileOperand::pieces() const {
  if (unit_.form == MatrixUnit::Form::mma || unit_.form == MatrixUnit::Form::fma) return 1;
  return std::max<int64_t>(1, (source_.name == "b" ? unit_.b : unit_.a).elements / chunk_);
}

int64_t TileOperand::fragment_outer() const {
  return unit_.form == MatrixUnit::Form::mma ? 16 : source_.name == "b" ? unit_.n : unit_.m;
}

void TileOperand::declare_fragments(Code& code, const std::string& first) const {
  if (by_steps()) return declare_steps(code, first);
  const bool is_b = source_.name == "b";
  std::string row, chunk;
  if (unit_.form == MatrixUnit::Form::mma) {
    // In the order of an instruction's registers: for A first the rows, for B first the steps along k.
    const std::string near = "lane % 16", far = "lane / 16";
    const std::string apart = "lane % 8 + lane / 16 * 8", middle = "lane / 8 % 2";
    if (along_k_) {
      row = fmt::format("{} + {}", first, is_b ? apart : near);
      chunk = is_b ? middle : far;
    } else {
      row = is_b ? near : apart;
      chunk = fmt::format("({}) / {} + {}", first, chunk_, is_b ? far : middle);
    }
  } else if (unit_.form == MatrixUnit::Form::dot) {
    row = fmt::format("{} + {}", first, is_b ? "lane % 8" : "lane / 8");
    chunk = "0";
  } else if (unit_.form == MatrixUnit::Form::quads) {
    row = fmt::format("{} + {}", first, lane_part(is_b ? unit_.b : unit_.a, &LaneLayout::Cell::row));
    chunk = "0";
  } else if (unit_.form == MatrixUnit::Form::fma) {
    row = "0";
    chunk = fmt::format("({}) / {} + {}", first, chunk_, is_b ? "lane % 8" : "lane / 8");
  } else {
    const int64_t groups = lane_groups(is_b ? unit_.b : unit_.a);
    row = fmt::format("{} + lane % {}", first, fragment_outer());
    chunk = groups == 1 ? "0" : fmt::format("lane / {} % {} * {}", fragment_outer(), groups, pieces());
  }
  const std::string n = source_.name;
  code.line(fmt::format("const int {0}_row = {1}, {0}_chunk = {2};", n, row, chunk));
  code.line(fmt::format("const int {}_at = {};", n, base(n + "_row")));
  if (permutations() > 1)
    code.line(fmt::format("const int {0}_swizzle = {1} % {2};", n, divided(n + "_row", rows_together()),
                          permutations()));
}

std::string TileOperand::local_matrix(const std::string& at, const std::string& first) const {
  // Eight rows are 1024 bytes. Along k, a tile has only one panel.
  const int64_t row = panel() * size_;
  return fmt::format("LOCAL_MATRIX({} + ({}) * {}, {}, {})", plus("tiles", at), first,
                     along_k_ ? panel() : tile_.k, along_k_ ? chunk_ * size_ : tile_.k * row, 8 * row);
}

void TileOperand::declare_parts(Code& code, int sets, int64_t count) const {
  if (unit_.form == MatrixUnit::Form::dot) {
    code.line(fmt::format("u32x4 {}_part[{}][{}][{}];", source_.name, sets, count, pieces()));
    return;
  }
  code.line(fmt::format("{} {}_part[{}][{}];",
                        by_steps() && step_bytes() == 2 ? "u16x8" : fmt::format("u32x{}", 4 * pieces()),
                        source_.name, sets, count));
}

void TileOperand::read_fragments(Code& code, int64_t set, Range some, const std::string& step,
                                 const std::string& at) const {
  if (by_steps()) return read_steps(code, set, some, step, at);
  const std::string n = source_.name, parts = fmt::format("{}_part[{}]", n, set);
  const std::string start = plus("tiles", at) + " + " + n + "_at";
  const auto permuted = [&](const std::string& chunk) {
    return permutations() > 1 ? fmt::format("(({}) ^ {}_swizzle)", chunk, n) : "(" + chunk + ")";
  };
  const int64_t fragment = fragment_outer() * pitch() + padding(fragment_outer());
  const auto place = [&](const std::string& i, int64_t piece) {
    if (along_k_)
      return fmt::format("{} + {} * {}", plus(start, times(i, fragment)),
                         permuted(plus(plus(times(step, fragment_k() / chunk_), n + "_chunk"), piece)),
                         chunk_);
    return fmt::format("{} + {} * {}", plus(start, times(step, fragment_k() * pitch())),
                       permuted(plus(n + "_chunk", times(i, fragment_outer() / chunk_))), chunk_);
  };
  const bool single = some.end - some.first == 1;
  const auto body = [&](const std::string& i) {
    const std::string part = fmt::format("{}[{}]", parts, i);
    if (unit_.form == MatrixUnit::Form::dot) {
      // The lane's rows or columns. Those that lie a multiple of eight after the first share its permutation.
      const int64_t apart = fragment_outer() / pieces();
      for (int64_t r = 0; r < pieces(); ++r) {
        const int64_t outer = r * apart, other = outer / rows_together() % permutations();
        std::string chunk = plus(times(step, fragment_k() / chunk_), n + "_chunk");
        if (other != 0) chunk = fmt::format("({}) ^ {}", chunk, other);
        code.line(fmt::format("READ_REGISTERS(4, {}[{}], 0, {} + {} * {});", part, r,
                              plus(plus(start, outer * pitch() + padding(outer)), times(i, fragment)),
                              permuted(chunk), chunk_));
      }
    } else if (unit_.form == MatrixUnit::Form::mma) {
      code.line(
          fmt::format("{}({}, {});", along_k_ ? "LOAD_MATRICES" : "LOAD_MATRICES_TURNED", part, place(i, 0)));
    } else if (pieces() == 1) {
      code.line(fmt::format("READ_REGISTERS(4, {}, 0, {});", part, place(i, 0)));
    } else {
      if (single) code.open("");
      code.line("u32x4 low, high;");
      code.line(fmt::format("READ_REGISTERS(4, low, 0, {});", place(i, 0)));
      code.line(fmt::format("READ_REGISTERS(4, high, 0, {});", place(i, 1)));
      code.line(fmt::format("{} = JOINED(low, high);", part));
      if (single) code.close();
    }
  };
  unrolled(code, "i", some.first, some.end, body);
}

}  // namespace athanor::gpu
