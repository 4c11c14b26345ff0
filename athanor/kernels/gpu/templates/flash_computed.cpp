// Own rows of attention by matrix units that a prologue computes, on their way to local memory.
#include <fmt/format.h>

#include "athanor/kernels/gpu/templates/flash_block.h"

namespace athanor::gpu {

bool FlashBlock::computes(const OperandPrologue& prologue) const {
  return matrix_.feature == 1 && real_features_ % unit_.chunk() == 0 &&
         matrix_.vector * static_cast<int64_t>(size_of(prologue.dtype)) == 16;
}

std::string FlashBlock::compute(Code& code, const OperandPrologue& prologue, const std::string& first,
                                int64_t end) const {
  const int64_t in_one = 16 / static_cast<int64_t>(size_of(prologue.dtype));
  const std::string_view type = language_name(prologue.dtype);
  open_share(code, true);
  for (int64_t r = 0; r < loads(); ++r) {
    const std::string held = fmt::format("{}_held[{}]", name(), plus(times("i", loads()), r));
    // Rows beyond the last, and features, are zero.
    code.line(fmt::format("{} = (u32x4)(0u);", held));
    code.line(fmt::format("const int own_{0} = {1} + {2}, feature_{0} = chunk * {3};", r, first,
                          plus("row", r), unit_.chunk()));
    code.open(fmt::format("if (own_{0} < {1} && feature_{0} < {2})", r, end, real_features_));
    code.line(fmt::format("const i64 at = ({}) + own_{} * (i64){} + feature_{};", matrix_.start, r,
                          matrix_.row, r));
    for (int64_t part = 0; part * in_one < unit_.chunk(); ++part) {
      code.line(fmt::format("u32x4 read{};", part));
      code.line(
          fmt::format("READ_ALIGNED(4, read{}, {} + {});", part, matrix_.name, plus("at", part * in_one)));
    }
    declare_ready(code, prologue.elements,
                  {.count = unit_.chunk(),
                   .at = "at",
                   .row = fmt::format("own_{}", r),
                   .column = fmt::format("feature_{}", r),
                   .column_step = 1,
                   .element = [&](int64_t e) {
                     return fmt::format("ELEMENT({}, read{}, {})", type, e / in_one, e % in_one);
                   }});
    pack_ready(code, unit_.unit->input, unit_.chunk());
    code.line(held + " = ready;");
    code.close();
  }
  close_share(code);
  return prologue.elements.function(prologue.elements.vectors(unit_.chunk()));
}

}  // namespace athanor::gpu
