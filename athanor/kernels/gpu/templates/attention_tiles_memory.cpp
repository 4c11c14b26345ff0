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
                     attention_pitch(point_.block), other);
}

std::string AttentionTiles::largest_at(const std::string& item) const {
  return fmt::format("largest_of_items[({}) * {} + {}]", own_at(), attention_pitch(point_.side), item);
}

/// Vectors behind the last are read as the last, and not stored.
std::string AttentionTiles::feature(int64_t features) const {
  const int64_t vector = point_.vector(features), last = ceil_div(features, vector) - 1;
  const std::string index =
      point_.vectors(features) == 1 ? std::string("item_x") : fmt::format("item_x + c * {}", point_.side);
  const bool fits = point_.vectors(features) * point_.side == last + 1;
  return times(fits ? "(" + index + ")" : fmt::format("MIN({}, {})", index, last), vector);
}

void AttentionTiles::declare_local() {
  const auto declare = [&](const std::string& name, int64_t elements) {
    code_.line(fmt::format("LOCAL __attribute__((aligned(16))) {} {}[{}];", number(), name, elements));
  };
  const int64_t of_weights = only_lse() ? 0 : point_.rows * attention_pitch(point_.block),
                of_other = point_.block * attention_pitch(p_.d);
  declare("own_" + own_1().name, point_.rows * attention_pitch(p_.d));
  declare("other_" + other_1().name, softmax() ? std::max(of_other, of_weights) : of_other);
  if (p_.has_second()) declare("own_" + own_2().name, point_.rows * attention_pitch(p_.e));
  if (!only_lse()) declare("other_" + other_2().name, point_.block * attention_pitch(p_.e));
  declare_number_arrays();
  if (softmax())
    declare("largest_of_items", point_.rows * attention_pitch(point_.side));
  else
    declare("weights", of_weights);
}

/// Copies rows to local memory, four features at a time. Features behind the last are 0.
void AttentionTiles::fetch(const std::string& to, const Matrix& matrix, int64_t rows, int64_t features,
                           const std::string& row) {
  const int64_t of_row = ceil_div(features, 4), all = rows * of_row;
  // Four loads of an item are on their way at once; LLVM does not unroll such a loop by itself, and would
  // wait for each.
  code_.line("_Pragma(\"unroll 4\")");
  code_.open(fmt::format("for (int n = 0; n < {}; ++n)", ceil_div(all, point_.items)));
  code_.line(fmt::format("const int i = n * {0} + item, row = i / {1}, feature = i % {1} * 4;", point_.items,
                         of_row));
  if (all % point_.items != 0) code_.open(fmt::format("if (i < {})", all));
  fetch_vector(fmt::format("{}{}[row * {} + feature + e]", to, matrix.name, attention_pitch(features)),
               matrix, features, row);
  if (all % point_.items != 0) code_.close();
  code_.close();
}

void AttentionTiles::fetch_vector(const std::string& to, const Matrix& matrix, int64_t features,
                                  const std::string& row) {
  const auto size = static_cast<int64_t>(size_of(p_.dtype));
  const bool near = matrix.row >= 0 && std::max(p_.queries, p_.keys) * matrix.row < (int64_t{1} << 30);
  if (size <= 4 && near && !computes(matrix) && matrix.feature == 1 && matrix.vector >= 4 &&
      features % 4 == 0) {
    code_.line(fmt::format("u32x{} held;", size));
    code_.line(fmt::format("u32 from = (u32)({} + feature) * {};", times(row, matrix.row), size));
    code_.line(fmt::format("READ_GLOBAL({}, held, 0, (GLOBAL const u8 *)({} + {}), from);", size, matrix.name,
                           matrix.start));
    const std::string bits =
        size == 4 ? std::string("held[e]") : fmt::format("WIDENED({}, held, e)", language_name(p_.dtype));
    return unroll("e", 4, fmt::format("{} = F32_OF_BITS({});", to, bits));
  }
  const std::string x = element(matrix, row, "(feature + e)");
  unroll("e", 4,
         fmt::format("{} = {};", to,
                     features % 4 == 0 ? x : fmt::format("feature + e < {} ? {} : 0", features, x)));
}

void AttentionTiles::load_own() {
  code_.line("// Rows past the end read the last row and store nothing.");
  const std::string row = own_row("first + row");
  fetch("own_", own_1(), point_.rows, p_.d, row);
  if (p_.has_second()) fetch("own_", own_2(), point_.rows, p_.e, row);
  if (softmax() || p_.by_keys()) return;
  code_.line(fmt::format("{0} own_lse[{1}], own_delta[{1}];", number(), own_each()));
  each_row([&] {
    code_.line(fmt::format("const i64 row = batch * {} + {};", p_.queries, own_row("first + " + own_at())));
    code_.line(fmt::format("own_lse[r] = {}{};", query_number(p_.lse, "lse"), times_real(of_exponent())));
    code_.line(fmt::format("own_delta[r] = {};", query_number(p_.delta, "delta")));
  });
}

void AttentionTiles::fetch_block() {
  const std::string row = other_row("begin + row");
  fetch("other_", other_1(), point_.block, p_.d, row);
  if (!only_lse()) fetch("other_", other_2(), point_.block, p_.e, row);
  load_other_numbers(of_exponent());
}

/// x[c]: the item's features of a row in local memory.
void AttentionTiles::read_features(const std::string& matrix, const std::string& row, int64_t features) {
  const int64_t vector = point_.vector(features);
  code_.line(fmt::format("{} x[{}];", number(), each(features)));
  code_.open(fmt::format("UNROLL for (int c = 0; c < {}; ++c)", point_.vectors(features)));
  unroll("f", vector,
         fmt::format("x[{} + f] = {}[({}) * {} + {} + f];", times("c", vector), matrix, row,
                     attention_pitch(features), feature(features)));
  code_.close();
}

}  // namespace athanor::gpu
