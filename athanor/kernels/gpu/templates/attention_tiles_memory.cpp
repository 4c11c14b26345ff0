// What attention by tiles has in local memory, and how rows get there.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/attention_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

/// With softmax, the keys are not needed any more.
std::string AttentionTiles::weight_at(const std::string& own, const std::string& other) const {
  return fmt::format("{}[({}) * {} + {}]", softmax() ? "other_" + other_1().name : "weights", own,
                     point_.pitch(point_.block), other);
}

std::string AttentionTiles::largest_at(const std::string& item) const {
  return fmt::format("largest_of_items[({}) * {} + {}]", own_at(), attention_pitch(point_.side), item);
}

/// Vectors behind the last are read as the last, and not stored.
std::string AttentionTiles::feature(int64_t features, int64_t apart) const {
  const int64_t vector = point_.vector(features), last = ceil_div(features, vector) - 1;
  const std::string index =
      point_.vectors(features) == 1 ? std::string("item_x") : fmt::format("item_x + c * {}", point_.side);
  const bool fits = point_.vectors(features) * point_.side == last + 1;
  return times(fits ? "(" + index + ")" : fmt::format("MIN({}, {})", index, last), apart);
}

void AttentionTiles::declare_local() {
  const auto declare_of = [&](const char* type, const std::string& name, int64_t elements) {
    code_.line(fmt::format("LOCAL __attribute__((aligned(16))) {} {}[{}];", type, name, elements));
  };
  const auto declare = [&](const std::string& name, int64_t elements) { declare_of(held(), name, elements); };
  const int64_t of_weights = only_lse() ? 0 : point_.rows * point_.pitch(point_.block),
                of_other = point_.block * point_.pitch(p_.d);
  declare("own_" + own_1().name, point_.rows * point_.pitch(p_.d));
  declare("other_" + other_1().name, softmax() ? std::max(of_other, of_weights) : of_other);
  if (p_.has_second()) declare("own_" + own_2().name, point_.rows * point_.pitch(p_.e));
  if (!only_lse()) declare("other_" + other_2().name, point_.block * point_.pitch(p_.e));
  if (softmax())
    declare_of(number(), "largest_of_items", point_.rows * attention_pitch(point_.side));
  else
    declare("weights", of_weights);
}

/// Copies rows to local memory, four numbers or pairs at a time. Features behind the last are 0.
void AttentionTiles::fetch(const std::string& to, const Matrix& matrix, int64_t rows, int64_t features,
                           const std::string& row) {
  const int64_t at_once = pairs() ? 8 : 4, of_row = ceil_div(features, at_once), all = rows * of_row;
  // Four loads of an item are on their way at once; LLVM does not unroll such a loop by itself, and would
  // wait for each.
  code_.line("_Pragma(\"unroll 4\")");
  code_.open(fmt::format("for (int n = 0; n < {}; ++n)", ceil_div(all, point_.items)));
  code_.line(fmt::format("const int i = n * {0} + item, row = i / {1}, feature = i % {1} * {2};",
                         point_.items, of_row, at_once));
  if (all % point_.items != 0) code_.open(fmt::format("if (i < {})", all));
  fetch_vector(fmt::format("{}{}[row * {} + {} + e]", to, matrix.name, point_.pitch(features),
                           pairs() ? "feature / 2" : "feature"),
               matrix, features, row);
  if (all % point_.items != 0) code_.close();
  code_.close();
}

void AttentionTiles::fetch_vector(const std::string& to, const Matrix& matrix, int64_t features,
                                  const std::string& row) {
  const auto size = static_cast<int64_t>(size_of(p_.dtype));
  const bool near = matrix.row >= 0 && std::max(p_.queries, p_.keys) * matrix.row < (int64_t{1} << 30);
  const int64_t at_once = pairs() ? 8 : 4, registers = at_once * size / 4;
  if (size <= 4 && near && !computes(matrix) && matrix.feature == 1 && matrix.vector >= at_once &&
      features % at_once == 0) {
    code_.line(fmt::format("u32x{} held;", registers));
    code_.line(fmt::format("u32 from = (u32)({} + feature) * {};", times(row, matrix.row), size));
    code_.line(fmt::format("READ_GLOBAL({}, held, 0, (GLOBAL const u8 *)({} + {}), from);", registers,
                           matrix.name, matrix.start));
    if (pairs()) return unroll("e", registers, to + " = held[e];");
    const std::string bits =
        size == 4 ? std::string("held[e]") : fmt::format("WIDENED({}, held, e)", language_name(p_.dtype));
    return unroll("e", 4, fmt::format("{} = F32_OF_BITS({});", to, bits));
  }
  const auto number_at = [&](const std::string& at) {
    const std::string x = element(matrix, row, fmt::format("({})", at));
    return features % at_once == 0 ? x : fmt::format("{} < {} ? {} : 0", at, features, x);
  };
  unroll("e", 4,
         fmt::format("{} = {};", to,
                     pairs() ? fmt::format("PACKED(f16, {}, {})", number_at("feature + 2 * e"),
                                           number_at("feature + 2 * e + 1"))
                             : number_at("feature + e")));
}

void AttentionTiles::load_own() {
  code_.line("// Rows past the end read the last row and store nothing.");
  const std::string row = own_row("first + row");
  fetch("own_", own_1(), point_.rows, p_.d, row);
  if (p_.has_second()) fetch("own_", own_2(), point_.rows, p_.e, row);
  if (softmax() || p_.by_keys()) return;
  read_numbers("own", "r", own_each(), own_row("first + " + own_at()));
}

/// The numbers of the item's queries, which are its own or other rows. Few items share a number, so local
/// memory would gain nothing.
void AttentionTiles::read_numbers(const char* whose, const char* index, int64_t count,
                                  const std::string& row) {
  const bool second = p_.has_second();
  code_.line(fmt::format("{0} {1}_lse[{2}]{3};", number(), whose, count,
                         second ? fmt::format(", {}_delta[{}]", whose, count) : ""));
  code_.open(fmt::format("UNROLL for (int {0} = 0; {0} < {1}; ++{0})", index, count));
  code_.line(fmt::format("const i64 row = batch * {} + {};", p_.queries, row));
  code_.line(fmt::format("{}_lse[{}] = {}{};", whose, index, query_number(p_.lse, "lse"),
                         times_real(of_exponent())));
  if (second) code_.line(fmt::format("{}_delta[{}] = {};", whose, index, query_number(p_.delta, "delta")));
  code_.close();
}

void AttentionTiles::fetch_block() {
  const std::string row = other_row("begin + row");
  fetch("other_", other_1(), point_.block, p_.d, row);
  if (!only_lse()) fetch("other_", other_2(), point_.block, p_.e, row);
  if (p_.by_keys()) read_numbers("other", "j", block_each(), other_row("begin + " + other_at()));
}

/// An array `to` of the item's features, or pairs of them, of a row in local memory.
void AttentionTiles::read_features(const char* to, const std::string& matrix, const std::string& row,
                                   int64_t features) {
  const int64_t vector = point_.registers(point_.vector(features));
  code_.line(fmt::format("{} {}[{}];", held(), to, point_.registers(each(features))));
  code_.open(fmt::format("UNROLL for (int c = 0; c < {}; ++c)", point_.vectors(features)));
  unroll("f", vector,
         fmt::format("{}[{} + f] = {}[({}) * {} + {} + f];", to, times("c", vector), matrix, row,
                     point_.pitch(features), feature(features, vector)));
  code_.close();
}

}  // namespace athanor::gpu
