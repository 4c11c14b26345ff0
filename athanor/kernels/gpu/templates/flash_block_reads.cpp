// From a block in local memory to the registers of a wave.
#include <fmt/format.h>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/flash_block.h"

namespace athanor::gpu {
namespace {

/// Reads 4 or 8 registers. At once, if Intel's compiler would move all of those that are joined.
void read_run(Code& code, int64_t registers, bool at_once, const std::string& part, const std::string& from) {
  if (registers == 4 || at_once)
    return code.line(fmt::format("READ_REGISTERS({}, {}, 0, {});", registers, part, from));
  code.line("u32x4 low, high;");
  code.line(fmt::format("READ_REGISTERS(4, low, 0, {});", from));
  code.line(fmt::format("READ_REGISTERS(4, high, 0, {} + 8);", from));
  code.line(fmt::format("{} = JOINED(low, high);", part));
}

}  // namespace

void FlashBlock::read_own(Code& code, const std::string& part, const std::string& at, const std::string& row,
                          const std::string& f) const {
  const std::string n = name();
  if (permuted())
    return code.line(fmt::format("LOAD_MATRICES({}, {} + ({}) * 64 + {});", part, plus("tiles", at), row,
                                 permuted_place("(lane % 16)", fmt::format("({} * 2 + lane / 16)", f))));
  const std::string from =
      plus("tiles", at) + fmt::format(" + ({}) * {} + {} * {} + {}_{}lane", row, pitch(), f,
                                      unit_.plain_steps(), n, unit_.mma() ? "own_" : "");
  if (unit_.mma()) {
    code.line(fmt::format("LOAD_MATRICES({}, {});", part, from));
  } else {
    read_run(code, unit_.unit->b_registers() == 8 ? 8 : 4, unit_.by_steps(), part, from);
  }
}

void FlashBlock::read_plain(Code& code, const std::string& part, const std::string& at, const std::string& j,
                            const std::string& f) const {
  if (unit_.by_steps()) {
    const std::string from =
        plus(plus("tiles", at), plain_elements()) +
        fmt::format(" + {} * {} + {} * {} + {}_turned_lane", f, 2 * eight_turned(), j, 8 * steps(), name());
    return read_run(code, unit_.unit->a_registers(), true, part, from);
  }
  if (!unit_.mma()) return read_own(code, part, at, times(j, unit_.read()), f);
  code.line(fmt::format("LOAD_MATRICES({}, {} + {} * {} + {} * {} + {}_lane);", part, plus("tiles", at), j,
                        16 * pitch(), f, unit_.plain_steps(), name()));
}

void FlashBlock::read_turned(Code& code, const std::string& part, const std::string& at, const std::string& t,
                             const std::string& f) const {
  const std::string n = name();
  if (unit_.mfma_f32()) {
    // A lane has four rows one after another as its steps: the scores' rows in its C.
    code.line(fmt::format("const int from = {} + {} * {} + {} * {} + {}_turned_lane;", at, t,
                          unit_.turned_steps() * pitch(), f, unit_.read(), n));
    for (int64_t r = 0; r < 4; ++r)
      code.line(fmt::format("READ_REGISTERS(1, {}, {}, tiles + {});", part, r, plus("from", r * pitch())));
    return;
  }
  if (unit_.size() == 4) {
    // Lane l has rows 2 (l % 4) and 2 (l % 4) + 1 as its steps l % 4 and l % 4 + 4: the scores' columns.
    code.line(fmt::format("const int from = {} + {} * {} + {} * 16 + {}_turned_lane;", at, t,
                          unit_.turned_steps() * pitch(), f, n));
    for (int64_t r = 0; r < 4; ++r)
      code.line(fmt::format("READ_REGISTERS(1, {}, {}, tiles + {});", part, r,
                            plus("from", r % 2 * pitch() + r / 2 * 8)));
    return;
  }
  if (unit_.mma()) {
    code.line(fmt::format("LOAD_MATRICES_TURNED({}, {} + {} * {} + {} * 16 + {}_own_lane);", part,
                          plus("tiles", at), t, 16 * pitch(), f, n));
    return;
  }
  if (unit_.by_steps()) {
    const std::string from = plus("tiles", at) + fmt::format(" + {} * {} + {} * {} + {}_lane", t,
                                                             16 / steps() * pitch(), f, 8 * steps(), n);
    return read_run(code, unit_.unit->a_registers(), true, part, from);
  }
  const int64_t m = unit_.unit->m;
  const std::string from = plus(plus("tiles", at), plain_elements()) +
                           fmt::format(" + {} * {} + {} * {} + {}_turned_lane", t, unit_.turned_steps(), f,
                                       m * turned_pitch() + m / 8 * extra(), n);
  if (wide()) return code.line(fmt::format("READ_REGISTERS(2, {}, 0, {});", part, from));
  read_run(code, unit_.doubled() ? 8 : 4, false, part, from);
}

void FlashBlock::read_weights(Code& code, const std::string& part, const std::string& at,
                              const std::string& t, const std::string& f) const {
  if (unit_.by_steps()) {
    const std::string from = plus(plus("tiles", at), plain_elements()) +
                             fmt::format(" + {} * {} + {} * {} + {}_turned_lane", t, unit_.turned_steps(), f,
                                         unit_.own_rows() / 8 * eight_turned(), name());
    return read_run(code, 8, true, part, from);
  }
  if (!unit_.mma()) return read_turned(code, part, at, t, f);
  code.line(fmt::format("LOAD_MATRICES_TURNED({}, {} + {} * {} + {} * 16 + {}_lane);", part,
                        plus("tiles", at), t, 16 * pitch(), f, name()));
}

int64_t FlashBlock::place(int64_t row, int64_t feature) const {
  return turned() ? feature * turned_pitch() + feature / 8 * extra() + row : row * pitch() + feature;
}

std::string FlashBlock::place(const std::string& row, const std::string& feature) const {
  if (!turned()) return fmt::format("({}) * {} + {}", row, pitch(), feature);
  const std::string after_eight = extra() == 0 ? "" : fmt::format(" + ({}) / 8 * {}", feature, extra());
  return fmt::format("({}) * {}{} + {}", feature, turned_pitch(), after_eight, row);
}

}  // namespace athanor::gpu
