// A tile's elements on their way out of global memory: into an item's registers, or by asynchronous copies to
// local memory.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/kernels/gpu/templates/tile_operand.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

TileOperand::Address TileOperand::address(Code& code, int64_t row, int64_t element) const {
  const std::string n = source_.name;
  const int64_t together = apart() == 1 || (from_along_k_ && moves()) ? element : 0;
  const int64_t start = element - together;                    // of the vectors that share a place
  const int64_t vector = places() == 1 ? 0 : start / vector_;  // else steps along k are added below
  std::string from = fmt::format("{}_from[{}]", n, plus(times(nth(), places()), vector));
  if (source_.border && moves())
    return {n, plus(fmt::format("{} + {}_moved", from, n), row * source_.k.stride() * from_size_)};
  if (moves())
    return {plus(n, (row * source_.k.stride() + together * along().stride()) * from_size_), std::move(from)};
  const std::string at = fmt::format("{}_at{}_{}", n, row, start);
  if (together == 0) {
    const std::string step = plus("k_next + k", row + (from_along_k_ ? start : 0));
    code.line(
        fmt::format("u32 {} = {} + {};", at, from, times(fmt::format("{}_k_at({})", n, step), from_size_)));
  }
  return {plus(n, together * along().stride() * from_size_), at};
}

bool TileOperand::needs_indices(bool edge) const {
  return edge || !moves() || (outer_edge() && !from_along_k_ && vector_ < chunk_);
}

std::string TileOperand::is_inside(int64_t row) const {
  const std::string n = source_.name;
  if (!source_.border->along_k) return fmt::format("({0}_taps[{1}] & {0}_tap) != 0", n, nth());
  return fmt::format("{0}_is_inside({1}, {0}_first_row[{2}], {0}_first_column[{2}])", n,
                     plus("k_next + " + k_of(), row), nth());
}

void TileOperand::declare_tap(Code& code) const {
  if (source_.border && !source_.border->along_k)
    code.line(fmt::format("const u32 {}_tap = {};", source_.name, source_.border->bit("k_next")));
}

void TileOperand::declare_held(Code& code) const {
  code.line(fmt::format("u32x{} {}_held[{}];", held_registers() / held_vectors(), source_.name,
                        share() * loads() * held_vectors()));
}

std::string TileOperand::held(int64_t row, int64_t element) const {
  const int64_t vector = row * held_vectors() + element * held_vectors() / chunk_;
  return fmt::format("{}_held[{}]", source_.name, plus(times(nth(), loads() * held_vectors()), vector));
}

void TileOperand::load_chunk(Code& code, int64_t row, bool edge) const {
  const std::string n = source_.name, outer = "outer", k = plus("k", row);
  // The condition for a vector that begins at element `e` to lie inside the matrix; "" if it always does.
  const auto inside = [&](int64_t e) {
    std::string text;
    const auto need = [&](const std::string& condition) { text += (text.empty() ? "" : " && ") + condition; };
    if (edge) need(fmt::format("{} < k_left", plus(k, from_along_k_ ? e : 0)));
    if (outer_edge() && !from_along_k_ && vector_ < chunk_)
      need(fmt::format("{} < {}_left", plus(outer, e), n));
    return text;
  };
  if (reads_registers()) {
    const int64_t registers = vector_ * from_size_ / 4;
    for (int64_t e = 0; e < chunk_; e += vector_) {
      Address from = address(code, row, e);
      if (source_.border) {  // outside the image, something is read that exists: store() makes zeros of it
        code.line(fmt::format("u32 {}_place{} = {} ? {} : 0;", n, row, is_inside(row), from.offset));
        from.offset = fmt::format("{}_place{}", n, row);
      }
      const int64_t of_vector = held_registers() / held_vectors();
      const std::string read = fmt::format("READ_GLOBAL({}, {}, {}, {}, {});", registers, held(row, e),
                                           e * from_size_ / 4 % of_vector, from.base, from.offset);
      const std::string condition = inside(e);
      if (condition.empty()) {
        code.line(read);
        continue;
      }
      if (e * from_size_ / 4 % of_vector == 0)
        code.line(fmt::format("{} = (u32x{})(0u);", held(row, e), of_vector));
      if (!edge || !cuts_vectors()) {
        code.line(fmt::format("if ({}) {}", condition, read));
        continue;
      }
      code.open(fmt::format("if ({})", condition));
      code.line(read);
      const int64_t in_register = 4 / from_size_;
      for (int64_t r = 0; r < registers; ++r) {
        const int64_t first = e + r * in_register;
        if (in_register == 1 && r == 0) continue;  // the condition was for this one
        code.line(fmt::format("{0}[{1}] = FIRST_ELEMENTS({0}[{1}], {2}, k_left - ({3}));", held(row, first),
                              first * from_size_ / 4 % of_vector, in_register, plus(k, first)));
      }
      code.close();
    }
    return;
  }
  const int64_t in_register = 4 / from_size_;
  for (int64_t r = 0; r < held_registers(); ++r) {
    std::string value;
    for (int64_t e = r * in_register; e < (r + 1) * in_register; ++e) {
      const Address from = address(code, row, e);
      std::string element = fmt::format("*(GLOBAL const {} *)({} + {})", from_size_ == 2 ? "f16_bits" : "u8",
                                        from.base, from.offset);
      if (const std::string condition = inside(e); !condition.empty())
        element = fmt::format("({} ? {} : 0)", condition, element);
      value += fmt::format("{}(u32){}", value.empty() ? "" : " | ", element);
      if (e % in_register != 0) value += fmt::format(" << {}", e % in_register * 8 * from_size_);
    }
    code.line(fmt::format("{}[{}] = {};", held(row, 0), r, value));
  }
}

void TileOperand::load(Code& code, bool edge) const {
  open_share(code);
  declare_tap(code);
  if (needs_indices(edge)) code.line(fmt::format("const int outer = {}, k = {};", outer_of(), k_of()));
  for (int64_t row = 0; row < loads(); ++row) load_chunk(code, row, edge);
  code.close();
}

void TileOperand::copy(Code& code, const std::string& at, bool edge) const {
  const std::string n = source_.name;
  open_share(code);
  declare_tap(code);
  const bool ends = outer_edge() && !from_along_k_ && vector_ < chunk_;
  if (needs_indices(edge)) code.line(fmt::format("const int outer = {}, k = {};", outer_of(), k_of()));
  for (int64_t e = 0; e < chunk_; e += vector_) {
    std::string condition;
    if (edge) condition = fmt::format("{} < k_left", plus("k", from_along_k_ ? e : 0));
    if (source_.border) condition += (edge ? " && " : "") + is_inside(0);
    if (ends) condition += fmt::format("{}{} < {}_left", edge ? " && " : "", plus("outer", e), n);
    const std::string to = plus(fmt::format("{} + {}_to[{}]", plus("tiles", at), n, nth()), e);
    const Address place_of = address(code, 0, e);
    // A copy that stores zeros needs a valid address too.
    const std::string from =
        condition.empty() ? fmt::format("{} + {}", place_of.base, place_of.offset)
                          : fmt::format("{} + ({} ? {} : 0)", place_of.base, condition, place_of.offset);
    if (edge && cuts_vectors()) {
      const int64_t size = from_size_, bytes = vector_ * size_;
      code.line(fmt::format("ASYNC_COPY_FIRST({0}, {1}, {2}, MAX(0, MIN({0}, (k_left - ({3})) * {4})));",
                            bytes, to, from, plus("k", e), size));
      continue;
    }
    code.line(condition.empty()
                  ? fmt::format("ASYNC_COPY({}, {}, {});", vector_ * size_, to, from)
                  : fmt::format("ASYNC_COPY_OR_ZERO({}, {}, {}, {});", vector_ * size_, to, from, condition));
  }
  code.close();
}

void TileOperand::advance(Code& code) const {
  if (!moves()) return;
  const std::string n = source_.name;
  const auto move = [&](int64_t by) {
    code.line(fmt::format("{} += {}{};", source_.border ? n + "_moved" : n, by * from_size_,
                          std::abs(by * from_size_) > INT32_MAX ? "L" : ""));
  };
  move(tile_.k * source_.k.stride());
  const auto& digits = source_.k.digits();
  // Like a counter: a digit that reaches its extent starts again, and the digit before it moves on.
  for (size_t d = digits.size(); d-- > 1;) {
    const std::string digit = fmt::format("{}_digit{}", n, d);
    code.line(fmt::format("{} += {};", digit, d + 1 == digits.size() ? tile_.k : 1));
    code.open(fmt::format("if ({} == {})", digit, digits[d].extent));
    code.line(digit + " = 0;");
    move(digits[d - 1].stride - digits[d].extent * digits[d].stride);
  }
  for (size_t d = digits.size(); d-- > 1;) code.close();
}

}  // namespace athanor::gpu
