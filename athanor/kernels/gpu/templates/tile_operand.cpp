#include "athanor/kernels/gpu/templates/tile_operand.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {
namespace {

constexpr int64_t chunk_bytes = 16;
// How many chunks fill all banks of local memory once: 32 banks of 4 bytes. Chunks further apart share banks.
constexpr int64_t bank_chunks = 8;

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
  if (unit_.reads_local() && (along_k_ ? tile_.k != panel() : tile_.outer % panel() != 0)) return false;
  // All chunks of an item have the same place in the swizzle's pattern.
  if (!turned() && tile_.items % (chunks() * bank_chunks) != 0) return false;
  if (turned() && along_k_ && (tile_.k / turns() % 4 != 0 || tile_.items % (4 * (tile_.outer / chunk_)) != 0))
    return false;
  if (turned() && !along_k_ && tile_.items % (tile_.k / chunk_) != 0) return false;
  const auto reach = [](const TileAxis& axis, bool pointer_moves, int64_t of_tile) {
    return pointer_moves ? of_tile * axis.stride() : axis.reach();
  };
  const int64_t farthest =
      reach(source_.outer, source_.outer.even(), tile_.outer) + reach(source_.k, moves(), tile_.k);
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
void TileOperand::open_share(Code& code) const {
  code.open(share() == 1 ? "" : fmt::format("UNROLL for (int i = 0; i < {}; ++i)", share()));
}

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
         source_.prologue.function(source_.prologue.vectors(chunk_));
}

void TileOperand::declare(Code& code, const std::string& first) const {
  const std::string n = source_.name;
  std::string begin = times64("batch", source_.batch);
  if (source_.outer.even()) begin = plus(begin, times64(first, source_.outer.stride()));
  if (source_.k.even())
    begin = plus(begin, times64("k_begin", source_.k.stride()));
  else if (moves())
    begin = plus(begin, n + "_k_at(k_begin)");
  code.line(fmt::format("GLOBAL const u8 *{0} = (GLOBAL const u8 *){1};", n,
                        plus(n + "_matrices", times("(" + begin + ")", begin == "0" ? 0 : from_size_))));
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
    std::string offset = source_.outer.even() ? times(p == 0 ? first_of : fmt::format("({})", first_of),
                                                      source_.outer.stride())
                                              : fmt::format("{}_outer_at({} + {})", n, first, first_of);
    if (moves()) offset += " + " + times("k", source_.k.stride());
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

TileOperand::Address TileOperand::address(Code& code, int64_t row, int64_t element) const {
  const std::string n = source_.name;
  const int64_t together = apart() == 1 || (from_along_k_ && moves()) ? element : 0;
  const int64_t start = element - together;  // of the vectors that share a place
  std::string from = fmt::format("{}_from[{}]", n, plus(times(nth(), places()), start / vector_));
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
      const Address from = address(code, row, e);
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
  if (needs_indices(edge)) code.line(fmt::format("const int outer = {}, k = {};", outer_of(), k_of()));
  for (int64_t row = 0; row < loads(); ++row) load_chunk(code, row, edge);
  code.close();
}

std::string TileOperand::held_element(int64_t element) const {
  const std::string held = fmt::format("{}_held[{}]", source_.name, nth());
  return widens() ? fmt::format("WIDENED({}, {}, {})", language_name(source_.dtype), held, element)
                  : fmt::format("{}[{}]", held, element);
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

void TileOperand::store(Code& code, const std::string& at, const std::string& first) const {
  const std::string n = source_.name, to = fmt::format("{} + {}_to[{}]", plus("tiles", at), n, nth());
  open_share(code);
  if (computes()) declare_ready(code, first);
  if (computes() && !turned()) {
    pack_ready(code, unit_.input, chunk_);
    code.line(fmt::format("WRITE_REGISTERS(4, {}, ready);", to));
  } else if (!turned()) {
    if (widens()) {
      code.line("u32x4 wide;");
      for (int64_t e = 0; e < chunk_; ++e) code.line(fmt::format("wide[{}] = {};", e, held_element(e)));
    }
    code.line(fmt::format("WRITE_REGISTERS(4, {}, {});", to,
                          widens() ? "wide" : fmt::format("{}_held[{}]", n, nth())));
  } else if (!along_k_) {
    for (int64_t e = 0; e < chunk_; ++e)
      code.line(fmt::format("WRITE_REGISTERS(1, {}, {});", plus(to, e * pitch()),
                            computes() ? fmt::format("BITS_OF_F32(ready{})", e) : held_element(e)));
  } else {
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
        value = fmt::format("{0}_HALVES({1}_held[{2}][{4}], {1}_held[{3}][{4}])", half, n, held_row(0),
                            held_row(1), e / 2);
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
  code.close();
}

void TileOperand::copy(Code& code, const std::string& at, bool edge) const {
  const std::string n = source_.name;
  open_share(code);
  const bool ends = outer_edge() && !from_along_k_ && vector_ < chunk_;
  if (needs_indices(edge)) code.line(fmt::format("const int outer = {}, k = {};", outer_of(), k_of()));
  for (int64_t e = 0; e < chunk_; e += vector_) {
    std::string condition;
    if (edge) condition = fmt::format("{} < k_left", plus("k", from_along_k_ ? e : 0));
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
    code.line(
        fmt::format("{} += {}{};", n, by * from_size_, std::abs(by * from_size_) > INT32_MAX ? "L" : ""));
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
