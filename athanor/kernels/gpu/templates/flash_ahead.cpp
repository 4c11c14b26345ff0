// The products of attention's kernels, if each step's operand is read from local memory while the one before
// is multiplied: a unit works so long that the wave need not wait for the read.
#include <fmt/format.h>

#include "athanor/kernels/gpu/templates/flash_kernel.h"

namespace athanor::gpu {

/// Calls `multiply` with each step's operand in `part`, which `read` filled a step before. Both see the
/// step's number as `n`.
void FlashKernel::each_read(const std::string& type, int64_t steps, const Body& read, const Body& multiply) {
  code_.open("");
  code_.line(type + " parts[2];");
  const auto fill = [&](const char* begin, const char* n) {
    code_.open(begin);
    code_.line(fmt::format("const int n = {};", n));
    code_.line(type + " part;");
    read();
    code_.line("parts[n % 2] = part;");
    code_.close();
  };
  fill("", "0");
  fence(true);  // reads of two steps would be joined to one
  code_.open(fmt::format("UNROLL for (int step = 0; step < {}; ++step)", steps));
  if (steps > 1) fill(fmt::format("if (step + 1 < {})", steps).c_str(), "step + 1");
  fence(true);
  code_.open("");
  code_.line("const int n = step;");
  code_.line(type + " part = parts[n % 2];");
  multiply();
  code_.close();
  code_.close();
  code_.close();
}

void FlashKernel::product_ahead(const std::string& result, const FlashBlock& own, const std::string& held,
                                const FlashBlock& other, const std::string& at) {
  const int64_t reads = point_.block / u_.read();
  const std::string f = fmt::format("(n / {})", reads), j = fmt::format("n % {}", reads);
  each_read(
      u_.plain_type(), own.features() / u_.plain_steps() * reads,
      [&] { other.read_plain(code_, "part", at, "(" + j + ")", f); },
      [&] {
        each_tile("i", point_.tiles, [&] {
          for (int64_t u = 0; u < u_.plain_units(); ++u)
            code_.line(
                fmt::format("MULTIPLY_ADD({}[i][{}], {}, {});", result, j,
                            FlashUnit::part_of("part", u_.plain_units(), u),
                            FlashUnit::part_of(fmt::format("{}[i][{}]", held, f), u_.plain_units(), u)));
        });
      });
}

void FlashKernel::sum_ahead(const std::string& sums, const std::string& weights, const FlashBlock& other,
                            const std::string& at) {
  const int64_t reads = other.features() / u_.read();
  const std::string step = fmt::format("const int t = n / {0}, f = n % {0};", reads);
  each_read(
      u_.turned_type(), point_.block / u_.turned_steps() * reads,
      [&] {
        code_.line(step);
        other.read_turned(code_, "part", at, "t", "f");
      },
      [&] {
        code_.line(step);
        code_.line(fmt::format("{} p[{}];", u_.weights_type(), point_.tiles));
        each_tile("i", point_.tiles, [&] {
          pack(weights, "t");
          for (int64_t u = 0; u < u_.turned_units(); ++u)
            code_.line(fmt::format("MULTIPLY_ADD({}[i][f], {}, {});", sums,
                                   FlashUnit::part_of("part", u_.turned_units(), u),
                                   FlashUnit::part_of("p[i]", u_.turned_units(), u)));
        });
      });
}

}  // namespace athanor::gpu
