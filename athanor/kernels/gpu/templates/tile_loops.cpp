// The loop along k of a matrix product by matrix units: through registers, or by asynchronous copies.
#include <fmt/format.h>

#include <string>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/tile_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

void TileKernel::load(bool edge) {
  a_.load(code_, edge);
  b_.load(code_, edge);
}

void TileKernel::copy(const std::string& at, bool edge) {
  a_.copy(code_, at, edge);
  b_.copy(code_, plus(at, a_.elements()), edge);
}

/// Fetches the tile that begins at k_next: whole, or, at the end of K, with zeros behind it.
void TileKernel::fetch(const std::string& at) {
  const auto one = [&](bool edge) {
    if (edge) code_.line("const int k_left = k_end - k_next;");
    if (point_.async)
      copy(at, edge);
    else
      load(edge);
  };
  const bool known = !has_groups(TileProblem::Groups::Along::k);
  if (known && (p_.k % point_.k == 0 || p_.k < point_.k)) {
    one(p_.k < point_.k);
  } else {
    code_.open(fmt::format("if (k_next + {} <= k_end)", point_.k));
    one(false);
    code_.close();
    code_.open("else");
    one(true);
    code_.close();
  }
  if (one_step()) return;
  a_.advance(code_);
  b_.advance(code_);
}

void TileKernel::declare_parts(int sets_of_a, int sets_of_b) {
  a_.declare_parts(code_, sets_of_a, wave_m() / fragment_m());
  b_.declare_parts(code_, sets_of_b, wave_n() / fragment_n());
}

/// Reads the fragments of one step into registers: set `set` of them.
void TileKernel::read(int64_t set, const std::string& step, const std::string& at) {
  a_.read_fragments(code_, set, {0, wave_m() / fragment_m()}, step, at);
  b_.read_fragments(code_, set, {0, wave_n() / fragment_n()}, step, plus(at, a_.elements()));
}

/// Multiplies a set of fragments of A by a set of B, for some columns of units.
void TileKernel::multiply(int64_t set, int64_t set_of_b, TileOperand::Range columns) {
  const int64_t units = a_.units();
  const auto multiply_unit = [&](const std::string& i, const std::string& j) {
    const std::string sums = fmt::format("sums[{}][{}]", i, j);
    const std::string of_a = fmt::format("a_part[{}][{}]", set, i),
                      of_b = fmt::format("b_part[{}]", set_of_b);
    if (unit_.form == MatrixUnit::Form::fma) {
      code_.open("UNROLL for (int e = 0; e < 16; ++e)");
      code_.line(fmt::format("{0}[e] = FMA(F32_OF_BITS({1}[e / 4]), F32_OF_BITS({2}[{3}][e % 4]), {0}[e]);",
                             sums, of_a, of_b, j));
      code_.close();
    }
    if (unit_.form == MatrixUnit::Form::dot) {
      code_.open("UNROLL for (int p = 0; p < 4; ++p)");
      code_.open("UNROLL for (int e = 0; e < 16; ++e)");
      code_.line(fmt::format("MULTIPLY_ADD({}[e], {}[e / 4][p], {}[{}][e % 4][p]);", sums, of_a, of_b, j));
      code_.close();
      code_.close();
    }
    for (int64_t u = 0; u < units && !unit_.of_lanes(); ++u) {
      std::string arguments;
      if (unit_.takes_registers()) {
        for (int r = 0; r < unit_.a_registers(); ++r)
          arguments += fmt::format(", {}[{}]", of_a, u * unit_.a_registers() + r);
        // Two columns of mma's units share a fragment of B.
        const bool shared = unit_.form == MatrixUnit::Form::mma;
        const std::string fragment = shared ? divided(j, 2) : j,
                          half = shared ? times(remainder(j, 2), 2) : "0";
        for (int r = 0; r < unit_.b_registers(); ++r)
          arguments += fmt::format(", {}[{}][{}]", of_b, fragment, plus(half, u * unit_.b_registers() + r));
      } else {
        const char* const halves[] = {".lo", ".hi"};
        const std::string part = units == 1 ? "" : units == 2 ? halves[u] : fmt::format("[{}]", u);
        arguments = fmt::format(", {}{}, {}[{}]{}", of_a, part, of_b, j, part);
      }
      code_.line(fmt::format("MULTIPLY_ADD({}{});", sums, arguments));
    }
  };
  unrolled(code_, "i", wave_m() / unit_.m, [&](const std::string& i) {
    unrolled(code_, "j", columns.first, columns.end, [&](const std::string& j) { multiply_unit(i, j); });
  });
}

int64_t TileKernel::fragment_registers() const {
  return a_.part_registers(wave_m() / fragment_m()) + b_.part_registers(wave_n() / fragment_n());
}

/// Whether registers are left for a second set of fragments.
bool TileKernel::reads_ahead() const {
  const int64_t sums = wave_m() * wave_n() / unit_.wave;
  return point_.k / a_.fragment_k() % 2 == 0 && sums + 2 * fragment_registers() <= 160;
}

/// Turns the fetched tile into what the unit takes. In the loop that is done between the multiplications
/// behind the last fence, which are those of two steps or of all: waves that take turns to multiply and to
/// convert come to do both at the same times. Predicted for gfx942 is 99 % of the peak, instead of 73.
void TileKernel::convert(bool while_multiplying) {
  if (!unit_.fnuz) return;
  int64_t registers = a_.make_fnuz(code_);
  registers += b_.make_fnuz(code_);
  if (!while_multiplying) return;
  constexpr int64_t of_register = 6;  // instructions
  const int64_t steps = reads_ahead() ? 2 : point_.k / a_.fragment_k(),
                units = wave_m() / unit_.m * (wave_n() / unit_.n) * a_.units() * steps;
  code_.line(fmt::format("UNROLL for (int u = 0; u < {}; ++u) SCHEDULE_TURN({});", units,
                         ceil_div(of_register * registers, units)));
}

/// Reads and multiplies a whole tile. If enough registers are left, a step is read while the one before is
/// multiplied.
void TileKernel::read_and_multiply(const std::string& at, bool is_last) {
  const int64_t steps = point_.k / a_.fragment_k();
  const int64_t sums = wave_m() * wave_n() / unit_.wave;
  const int64_t of_a = a_.part_registers(wave_m() / fragment_m());
  const bool two_sets = reads_ahead();
  if (!two_sets && unit_.form == MatrixUnit::Form::dot && wave_n() > unit_.n &&
      sums + of_a + fragment_registers() <= 160)
    return read_and_multiply_by_columns(at);
  if (!two_sets) {
    open_unrolled(code_, "f", steps);
    declare_parts(1, 1);
    read(0, steps == 1 ? "0" : "f", at);
    multiply(0, 0, all_columns());
    // Without this, the compiler would read all steps of the last tile in advance, and spill.
    if (is_last && unit_.form == MatrixUnit::Form::wmma) code_.line("SCHEDULE_FENCE();");
    code_.close();
    return;
  }
  declare_parts(2, 2);
  read(0, "0", at);
  for (int64_t f = 0; f < steps; ++f) {
    if (f + 1 < steps) read((f + 1) % 2, std::to_string(f + 1), at);
    if (f + 1 < steps) code_.line("SCHEDULE_FENCE();");
    multiply(f % 2, f % 2, all_columns());
  }
}

/// The same if registers are left for a second set of A only: while a column of units is multiplied, the next
/// column's part of B is read and, with a step's last column, the next step's part of A. A SIMD of gfx906 has
/// one such wave, and nothing else to hide its reads (docs/predicted-speed.md).
void TileKernel::read_and_multiply_by_columns(const std::string& at) {
  const int64_t steps = point_.k / a_.fragment_k(), columns = wave_n() / unit_.n;
  const std::string at_b = plus(at, a_.elements());
  const auto read_a = [&](int64_t f) {
    a_.read_fragments(code_, f % 2, {0, wave_m() / fragment_m()}, std::to_string(f), at);
  };
  const auto read_b = [&](int64_t f, int64_t j) {
    b_.read_fragments(code_, 0, {j, j + 1}, std::to_string(f), at_b);
  };
  declare_parts(2, 1);
  read_a(0);
  read_b(0, 0);
  for (int64_t f = 0; f < steps; ++f)
    for (int64_t j = 0; j < columns; ++j) {
      const bool is_last = j + 1 == columns;
      if (!is_last) read_b(f, j + 1);
      if (is_last && f + 1 < steps) {
        read_a(f + 1);
        read_b(f + 1, 0);
      }
      code_.line("SCHEDULE_FENCE();");
      multiply(f % 2, 0, {j, j + 1});
      if (!is_last || f + 1 < steps) code_.line("SCHEDULE_FENCE();");
    }
}

// While a step is multiplied, the next one is read: after a tile's last step, the first of the next tile.
void TileKernel::loop_of_copies() {
  const int64_t stage = a_.elements() + b_.elements(), all = stage * point_.stages;
  const int64_t steps = point_.k / a_.fragment_k();
  code_.line("int k_next = k_begin;");
  for (int64_t s = 0; s + 1 < point_.stages; ++s) {
    code_.open("if (k_next < k_end)");
    fetch(std::to_string(s * stage));
    code_.close();
    code_.line("ASYNC_COMMIT();");
    code_.line(fmt::format("k_next += {};", point_.k));
  }
  const auto await_tile = [&] {
    code_.line(fmt::format("ASYNC_WAIT({});", point_.stages - 2));
    code_.line("LOCAL_BARRIER();");
  };
  code_.line(fmt::format("int read_at = 0, write_at = {};", (point_.stages - 1) * stage));
  declare_parts(2, 2);
  await_tile();
  read(0, "0", "read_at");
  code_.open(fmt::format("for (int k = k_begin; k < k_end; k += {})", point_.k));
  for (int64_t f = 0; f < steps; ++f) {
    if (f + 1 < steps) read((f + 1) % 2, std::to_string(f + 1), "read_at");
    if (f == 0) {
      code_.open("if (k_next < k_end)");
      fetch("write_at");
      code_.close();
      code_.line("ASYNC_COMMIT();");
      code_.line(fmt::format("k_next += {};", point_.k));
    }
    if (f + 1 == steps) {
      for (const char* at : {"read_at", "write_at"})
        code_.line(fmt::format("{0} = {0} == {1} ? 0 : {0} + {2};", at, all - stage, stage));
      await_tile();
      read(0, "0", "read_at");  // of the next tile, or, after the last, values that are never used
    }
    multiply(f % 2, f % 2, all_columns());
  }
  code_.close();
}

void TileKernel::loop_of_registers() {
  const int64_t stage = a_.elements() + b_.elements();
  a_.declare_held(code_);
  b_.declare_held(code_);
  const auto store = [&](const std::string& at) {
    a_.store(code_, at, "m0");
    b_.store(code_, plus(at, a_.elements()), "n0");
  };
  code_.line(one_step() ? "const int k_next = k_begin;" : "int k_next = k_begin, read_at = 0;");
  fetch("");
  convert(false);
  store("0");
  code_.line("LOCAL_BARRIER();");
  if (one_step()) return read_and_multiply("0", true);
  // There are fences and no branches: compilers would move multiplications after the wait for the fetched
  // tile, or fetch it only then. Unrolled by Clang, seven steps of a 7 x 7 convolution spilled 110 registers.
  code_.open(
      fmt::format("_Pragma(\"unroll 1\") for (k_next += {0}; k_next < k_end; k_next += {0})", point_.k));
  fetch("");
  code_.line("SCHEDULE_FENCE();");
  read_and_multiply("read_at", false);
  convert(true);
  code_.line("SCHEDULE_FENCE();");
  if (point_.stages == 1) code_.line("LOCAL_BARRIER();");
  const std::string other = point_.stages == 1 ? "0" : fmt::format("({} - read_at)", stage);
  store(other);
  code_.line("LOCAL_BARRIER();");
  if (point_.stages > 1) code_.line(fmt::format("read_at = {};", other));
  code_.close();
  read_and_multiply("read_at", true);
}

}  // namespace athanor::gpu
