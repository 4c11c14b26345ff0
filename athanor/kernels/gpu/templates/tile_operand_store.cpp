// A tile's elements on their way from an item's registers to local memory: computed by the prologue, widened
// or turned.
#include <fmt/format.h>

#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/operand_prologue.h"
#include "athanor/kernels/gpu/templates/tile_operand.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

std::string TileOperand::held_element(int64_t element) const {
  const std::string held = fmt::format("{}_held[{}]", source_.name, nth());
  return widens() ? fmt::format("WIDENED({}, {}, {})", language_name(source_.dtype), held, element)
                  : fmt::format("{}[{}]", held, element);
}

std::string TileOperand::stored_register(int64_t row, int64_t r) const {
  if (!widens()) return fmt::format("{}[{}]", held(row, 0), r);
  if (size_ == 4) return held_element(r);
  return fmt::format("WIDENED_PAIR({}, {}, {}, {})", language_name(unit_.input), language_name(source_.dtype),
                     held(row, 0), 2 * r);
}

void TileOperand::declare_ready(Code& code, const std::string& first) const {
  // Rows beyond the matrix were read as copies of its last ones.
  std::string row = fmt::format("{} + {}", first, outer_of());
  if (outer_edge())
    row = fmt::format("MIN({}, {})", row, source_.outer.extent() - (from_along_k_ ? 1 : chunk_));
  code.line(fmt::format("const int row = {}, column = k_next + {};", row, k_of()));
  const std::string_view index = source_.outer.reach() + source_.k.reach() < INT32_MAX ? "int" : "i64";
  code.line(fmt::format("const {0} at = batch * ({0}){1} + row * ({0}){2} + column * ({0}){3};", index,
                        source_.batch, source_.outer.stride(), source_.k.stride()));
  gpu::declare_ready(code, source_.prologue,
                     {.count = chunk_,
                      .at = "at",
                      .row = "row",
                      .column = "column",
                      .at_step = along().stride(),
                      .row_step = from_along_k_ ? 0 : 1,
                      .column_step = from_along_k_ ? 1 : 0,
                      .element = [&](int64_t e) {
                        return fmt::format("element_{}({}, {})", language_name(source_.dtype), held(0, e),
                                           e % (chunk_ / held_vectors()));
                      }});
}

int64_t TileOperand::make_fnuz(Code& code) const {
  open_share(code);
  for (int64_t row = 0; row < loads(); ++row)
    for (int64_t r = 0; r < held_registers(); ++r)
      code.line(fmt::format("F8E4M3_TO_FNUZ({}[{}]);", held(row, 0), r));
  code.close();
  return share() * loads() * held_registers();
}

/// Writes rows of chunks whose elements come from several registers, one of each.
void TileOperand::store_turned(Code& code, const std::string& to) const {
  const std::string& n = source_.name;
  std::string chunk = fmt::format("{} / {}", k_of(), chunk_);
  // The permutations below are those of rows from a multiple of `bank_chunks` on. Chunks of fewer elements
  // may begin between two multiples.
  if (chunk_ < bank_chunks && permutations() > 1)
    chunk += fmt::format(" ^ {} % {}", divided("(" + outer_of() + ")", rows_together()), permutations());
  code.line(fmt::format("const int chunk = {};", chunk));
  for (int64_t e = 0; e < chunk_; ++e) {
    const int64_t permuted = e / rows_together() % permutations();
    const std::string place =
        fmt::format("{} + {} * {}", plus(to, e * pitch() + padding(e)),
                    permuted == 0 ? "chunk" : fmt::format("(chunk ^ {})", permuted), chunk_);
    if (turns() * size_ == chunk_bytes) {
      code.line(fmt::format("u32x4 turned{};", e));
      for (int64_t row = 0; row < turns(); ++row)
        code.line(fmt::format("turned{}[{}] = {}_held[{}][{}];", e, row, n, held_row(row), e));
      code.line(fmt::format("WRITE_REGISTERS(4, {}, turned{});", place, e));
      continue;
    }
    std::string value = fmt::format("{}_held[{}][{}]", n, nth(), e);
    const char* const half = e % 2 == 0 ? "LOW" : "HIGH";
    if (turns() == 2)
      value = fmt::format("{}_HALVES({}, {})", half, stored_register(0, e / 2), stored_register(1, e / 2));
    if (turns() == 4) {
      const char* const pair = e % 4 < 2 ? "LOW" : "HIGH";
      const auto zipped = [&](int64_t row) {
        return fmt::format("{0}_BYTES({1}_held[{2}][{4}], {1}_held[{3}][{4}])", pair, n, held_row(row),
                           held_row(row + 1), e / 4);
      };
      value = fmt::format("{}_HALVES({}, {})", half, zipped(0), zipped(2));
    }
    code.line(fmt::format("WRITE_REGISTERS(1, {}, {});", place, value));
  }
}

void TileOperand::store(Code& code, const std::string& at, const std::string& first) const {
  const std::string n = source_.name, to = fmt::format("{} + {}_to[{}]", plus("tiles", at), n, nth());
  open_share(code);
  declare_tap(code);
  for (int64_t row = 0; source_.border && row < loads(); ++row)
    for (int64_t v = 0; v < held_vectors(); ++v)
      code.line(fmt::format("if (!({})) {} = (u32x{})(0u);", is_inside(row),
                            held(row, v * chunk_ / held_vectors()), held_registers() / held_vectors()));
  if (computes()) declare_ready(code, first);
  if (computes() && !turned()) {
    pack_ready(code, unit_.input, chunk_);
    code.line(fmt::format("WRITE_REGISTERS(4, {}, ready);", to));
  } else if (!turned()) {
    if (widens()) {
      code.line("u32x4 wide;");
      for (int r = 0; r < 4; ++r) code.line(fmt::format("wide[{}] = {};", r, stored_register(0, r)));
    }
    code.line(fmt::format("WRITE_REGISTERS(4, {}, {});", to,
                          widens() ? "wide" : fmt::format("{}_held[{}]", n, nth())));
  } else if (!along_k_) {
    for (int64_t e = 0; e < chunk_; ++e)
      code.line(fmt::format("WRITE_REGISTERS(1, {}, {});", plus(to, e * pitch()),
                            computes() ? fmt::format("BITS_OF_F32(ready{})", e) : held_element(e)));
  } else {
    store_turned(code, to);
  }
  code.close();
}

}  // namespace athanor::gpu
