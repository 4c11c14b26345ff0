#include "athanor/kernels/gpu/templates/flash_block.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {
namespace {

int64_t padded_to(int64_t count, int64_t whole) { return ceil_div(count, whole) * whole; }

}  // namespace

std::string FlashUnit::part_of(const std::string& name, int64_t units, int64_t u) {
  if (units == 1) return name;
  if (units == 2) return name + (u == 0 ? ".lo" : ".hi");
  return fmt::format("{}[{}]", name, u);
}

bool FlashUnit::fits() const {
  if (!unit->exchanges_lanes() && !by_steps()) return false;  // whose lanes have whole rows of scores
  if (unit->output != DType::f32) return false;
  if (unit->tf32) return mma() || mfma();
  if (unit->input == DType::f32) return mfma();
  if (unit->input != DType::f16 && unit->input != DType::bf16) return false;
  // A lane of AMD's has four rows of scores, one below the other, and so at most four steps along k.
  const bool as_scores = mfma() && unit->m == 32 && unit->a.elements <= 4;
  return mma() || by_steps() || unit->form == MatrixUnit::Form::wmma || as_scores;
}

FlashBlock::FlashBlock(const AttentionProblem::Matrix& matrix, int64_t features, Size size,
                       const FlashUnit& unit, const std::string& name)
    : matrix_(matrix),
      real_features_(features),
      features_(padded_to(features, std::max(unit.read(), unit.plain_steps()))),
      size_(size),
      unit_(unit),
      name_(name.empty() ? matrix.name : name) {}

bool FlashBlock::fits() const {
  const int64_t reach = (size_.rows * matrix_.row + features_ * matrix_.feature) * unit_.size();
  return matrix_.row >= 0 && matrix_.feature >= 0 && reach < INT32_MAX &&
         (loads() == 1 || size_.rows / 2 % pairs_together() == 0);
}

/// Declares the row and the chunk of features with which an item's i-th piece of work begins.
void FlashBlock::declare_chunk(Code& code) const {
  code.line(
      fmt::format("const int work = {};", share() == 1 ? "item" : fmt::format("item + i * {}", size_.items)));
  if (wide() && loads() == 2)
    // Eight neighbours fill four pairs of rows of two chunks: so they use all banks once in both forms.
    return code.line(
        fmt::format("const int row = (work % 4 + work / 8 % 4 * 4) * 2 + work / {} * 32, chunk = work / 32 % "
                    "{} * 2 + work / 4 % 2;",
                    16 * chunks(), chunks() / 2));
  if (loads() == 2)
    code.line(fmt::format("const int row = work % {0} * 2 + work / {1} * {2}, chunk = work / {0} % {3};",
                          pairs_together(), pairs_together() * chunks(), 2 * pairs_together(), chunks()));
  else
    code.line(fmt::format("const int row = work / {0}, chunk = work % {0};", chunks()));
}

void FlashBlock::declare_memory(Code& code, const std::string& first) const {
  code.line(fmt::format("GLOBAL const u8 *{}_memory = (GLOBAL const u8 *)({} + ({}) + {} * (i64){});", name(),
                        matrix_.name, matrix_.start, first, matrix_.row));
}

void FlashBlock::declare(Code& code, const std::string& first) const {
  const std::string n = name();
  declare_memory(code, first);
  code.line(fmt::format("u32 {}_from[{}];  // bytes from the block's begin in memory", n, share()));
  if (plain()) code.line(fmt::format("int {}_to[{}];  // elements in local memory", n, share()));
  if (turned()) code.line(fmt::format("int {}_turned_to[{}];", n, share()));
  code.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", share()));
  declare_chunk(code);
  code.line(fmt::format("{}_from[i] = (u32)({} + {}) * {};", n, times("row", matrix_.row),
                        times("chunk", unit_.chunk() * matrix_.feature), unit_.size()));
  if (permuted())
    code.line(fmt::format("{}_to[i] = {};", n, permuted_place("row", "chunk")));
  else if (plain())
    code.line(fmt::format("{}_to[i] = {} * {} + chunk * {};", n, divided("row", steps()), pitch(),
                          unit_.chunk() * steps()));
  if (turned())
    code.line(fmt::format("{}_turned_to[i] = chunk * {} + {};", n, eight_turned(), times("row", steps())));
  code.close();
  declare_lanes(code);
}

void FlashBlock::declare_lanes(Code& code) const {
  const std::string n = name();
  if (permuted()) return;
  if (unit_.mma()) {
    code.line(
        fmt::format("const int {}_own_lane = lane % 16 * {} + lane / 16 * {};", n, pitch(), unit_.chunk()));
    code.line(fmt::format("const int {}_lane = (lane % 8 + lane / 16 * 8) * {} + lane / 8 % 2 * {};", n,
                          pitch(), unit_.chunk()));
    if (unit_.size() == 4)
      code.line(fmt::format("const int {}_turned_lane = lane % 4 * {} + lane / 4;", n, 2 * pitch()));
    return;
  }
  if (unit_.by_steps()) {
    const std::string after_eight = extra() == 0 ? "" : fmt::format(" + lane / 8 * {}", extra());
    if (plain()) code.line(fmt::format("const int {}_lane = lane * {};", n, pitch()));
    if (turned())
      code.line(fmt::format("const int {}_turned_lane = lane * {}{};", n, turned_pitch(), after_eight));
    return;
  }
  const int64_t m = unit_.unit->m;
  const std::string group = unit_.doubled() ? "" : fmt::format(" + lane / {} * {}", m, unit_.chunk());
  if (plain()) code.line(fmt::format("const int {0}_lane = lane % {1} * {2}{3};", n, m, pitch(), group));
  if (unit_.one_form() && size_.turned)
    code.line(fmt::format("const int {0}_turned_lane = lane / {1} * {2} + lane % {1};", n, m, 4 * pitch()));
  if (!turned()) return;
  const std::string after_eight = extra() == 0 ? "" : fmt::format(" + lane % {} / 8 * {}", m, extra());
  const std::string turned_group = unit_.doubled() ? "" : fmt::format(" + lane / {} * {}", m, wide() ? 4 : 8);
  code.line(fmt::format("const int {}_turned_lane = lane % {} * {}{}{};", n, m, turned_pitch(), after_eight,
                        turned_group));
}

void FlashBlock::declare_held(Code& code) const {
  code.line(fmt::format("u32x4 {}_held[{}];", name(), share() * loads()));
}

/// `places`: the row and chunk are used inside.
void FlashBlock::open_share(Code& code, bool places) const {
  code.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", share()));
  const bool all = work() % size_.items == 0;
  if (places || !all) declare_chunk(code);
  if (!all) code.open(fmt::format("if (work < {})", work()));
}

void FlashBlock::close_share(Code& code) const {
  if (work() % size_.items != 0) code.close();
  code.close();
}

/// The condition for an element of the chunk to lie inside the matrix; "" if it always does.
std::string FlashBlock::inside(int64_t row, int64_t element, const std::string& left) const {
  std::string text;
  if (!left.empty()) text = fmt::format("{} < {}", plus("row", row), left);
  if (real_features_ % unit_.chunk() != 0 || real_features_ < features_)
    text += fmt::format("{}chunk * {} + {} < {}", text.empty() ? "" : " && ", unit_.chunk(), element,
                        real_features_);
  return text;
}

void FlashBlock::load_chunk(Code& code, const std::string& held, const std::string& from, int64_t row,
                            const std::string& left) const {
  const std::string n = name();
  const auto start = [&](int64_t e) {
    return plus(n + "_memory", (row * matrix_.row + e * matrix_.feature) * unit_.size());
  };
  const int64_t of_register = 4 / unit_.size();
  if (matrix_.vector >= of_register) {
    for (int64_t e = 0; e < unit_.chunk(); e += matrix_.vector) {
      const std::string read = fmt::format("READ_GLOBAL({}, {}, {}, {}, {});", matrix_.vector / of_register,
                                           held, e / of_register, start(e), from);
      const std::string condition = inside(row, e, left);
      if (!condition.empty() && e == 0) code.line(fmt::format("{} = (u32x4)(0u);", held));
      code.line(condition.empty() ? read : fmt::format("if ({}) {}", condition, read));
    }
    return;
  }
  for (int64_t r = 0; r < 4; ++r) {
    std::string value;
    for (int64_t e = 2 * r; e < 2 * r + 2; ++e) {
      std::string element = fmt::format("*(GLOBAL const f16_bits *)({} + {})", start(e), from);
      if (const std::string condition = inside(row, e, left); !condition.empty())
        element = fmt::format("({} ? {} : 0)", condition, element);
      value += fmt::format("{}(u32){}{}", value.empty() ? "" : " | ", element, e % 2 == 0 ? "" : " << 16");
    }
    code.line(fmt::format("{}[{}] = {};", held, r, value));
  }
}

void FlashBlock::load(Code& code, const std::string& left) const {
  open_share(code, !inside(0, 0, left).empty());
  for (int64_t row = 0; row < loads(); ++row)
    load_chunk(code, fmt::format("{}_held[{}]", name(), plus(times("i", loads()), row)), name() + "_from[i]",
               row, left);
  close_share(code);
}

void FlashBlock::load_own(Code& code, const std::string& part, const std::string& row, const std::string& f,
                          const std::string& left) const {
  const int64_t rows = unit_.own_rows();
  code.open("");
  code.line(fmt::format("const int row = {} + lane % {}, chunk = {} * {} + lane / {};", row, rows, f,
                        unit_.plain_steps() / unit_.chunk(), rows));
  code.line(fmt::format("u32 from = (u32)({} + {}) * {};", times("row", matrix_.row),
                        times("chunk", unit_.chunk() * matrix_.feature), unit_.size()));
  load_chunk(code, part, "from", 0, left);
  code.close();
}

/// Of two chunks: two rows of a feature lie together in the plain form, two features of a row in the turned
/// one.
void FlashBlock::store_pairs(Code& code, const std::string& at) const {
  const std::string n = name();
  const auto held = [&](int row, int64_t r) { return fmt::format("{}_held[2 * i + {}][{}]", n, row, r); };
  for (int64_t half = 0; half < 2 && plain(); ++half) {
    code.open("");
    code.line("u32x4 pairs;");
    for (int64_t e = 0; e < 4; ++e)
      code.line(fmt::format("pairs[{}] = {}_HALVES({}, {});", e, e % 2 == 0 ? "LOW" : "HIGH",
                            held(0, 2 * half + e / 2), held(1, 2 * half + e / 2)));
    code.line(fmt::format("WRITE_REGISTERS(4, {}, pairs);",
                          plus(plus("tiles", at) + " + " + n + "_to[i]", 8 * half)));
    code.close();
  }
  for (int64_t r = 0; r < 4 && turned(); ++r) {
    code.open("");
    code.line(fmt::format("const u32x2 rows = (u32x2)({}, {});", held(0, r), held(1, r)));
    code.line(fmt::format(
        "WRITE_REGISTERS(2, {}, rows);",
        plus(plus("tiles", at) + " + " + n + "_turned_to[i]", plain_elements() + r * turned_pitch())));
    code.close();
  }
}

void FlashBlock::store(Code& code, const std::string& at) const {
  const std::string n = name();
  open_share(code, false);
  if (steps() == 2) {
    store_pairs(code, at);
    return close_share(code);
  }
  for (int64_t row = 0; row < loads() && plain(); ++row)
    code.line(fmt::format("WRITE_REGISTERS(4, {}, {}_held[{}]);",
                          plus(plus("tiles", at) + " + " + n + "_to[i]", row * pitch()), n,
                          plus(times("i", loads()), row)));
  for (int64_t e = 0; e < 8 && turned(); ++e)
    code.line(fmt::format(
        "WRITE_REGISTERS(1, {0}, {1}_HALVES({2}_held[2 * i][{3}], {2}_held[2 * i + 1][{3}]));",
        plus(plus("tiles", at) + " + " + n + "_turned_to[i]", plain_elements() + e * turned_pitch()),
        e % 2 == 0 ? "LOW" : "HIGH", n, e / 2));
  close_share(code);
}

void FlashBlock::copy(Code& code, const std::string& at, const std::string& left) const {
  const std::string n = name();
  open_share(code, !inside(0, 0, left).empty());
  for (int64_t e = 0; e < unit_.chunk(); e += matrix_.vector) {
    const std::string condition = inside(0, e, left);
    const std::string to = plus(plus("tiles", at) + " + " + n + "_to[i]", e);
    const std::string offset = plus(n + "_from[i]", e * matrix_.feature * unit_.size());
    // A copy that stores zeros needs a valid address too.
    code.line(
        condition.empty()
            ? fmt::format("ASYNC_COPY({}, {}, {}_memory + {});", matrix_.vector * unit_.size(), to, n, offset)
            : fmt::format("ASYNC_COPY_OR_ZERO({}, {}, {}_memory + ({} ? {} : 0), {});",
                          matrix_.vector * unit_.size(), to, n, condition, offset, condition));
  }
  close_share(code);
}

void FlashBlock::advance(Code& code) const {
  const int64_t bytes = size_.rows * matrix_.row * unit_.size();
  code.line(fmt::format("{}_memory += {}{};", name(), bytes, bytes > INT32_MAX ? "L" : ""));
}

}  // namespace athanor::gpu
