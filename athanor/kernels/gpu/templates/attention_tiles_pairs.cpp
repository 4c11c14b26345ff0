// Attention by tiles where a lane sums two products of f16 at once. Local memory holds pairs: of neighbouring
// features and, of weights, of neighbouring rows that an item has of a block, which lie `side` rows apart.
// Sums along rows take pairs of rows, which are made from two rows' pairs of features.
#include <fmt/format.h>

#include "athanor/kernels/gpu/templates/attention_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

std::string AttentionTiles::row_of_pair(const std::string& pair) const {
  return fmt::format("({0}) / {1} * {2} + ({0}) % {1}", pair, point_.side, 2 * point_.side);
}

/// Adds the products of `count` pairs `weight`, of row r, with two rows of a matrix: to `sums` of an item's
/// features 2 c and 2 c + 1.
void AttentionTiles::add_pairs(const std::string& matrix, const std::array<std::string, 2>& rows,
                               int64_t features, int64_t count, const std::array<std::string, 2>& sums,
                               const std::string& weight) {
  read_features("x", matrix, rows[0], features);
  read_features("next", matrix, rows[1], features);
  code_.open(fmt::format("UNROLL for (int c = 0; c < {}; ++c)", each(features) / 2));
  code_.line("const u32 even = LOW_HALVES(x[c], next[c]), odd = HIGH_HALVES(x[c], next[c]);");
  unroll("r", count,
         "{ " + add_product(sums[0], weight, "even") + " " + add_product(sums[1], weight, "odd") + " }");
  code_.close();
}

/// sums += weights by the block's rows.
void AttentionTiles::sum_pairs(const char* sums, const Matrix& other, int64_t features) {
  code_.open(fmt::format("for (int j = 0; j < {}; j += 4)", point_.block / 2));
  code_.line(fmt::format("u32 weight[{}][4];", own_each()));
  each_row([&] { unroll("e", 4, fmt::format("weight[r][e] = {};", weight_at(own_at(), "j + e"))); });
  code_.open("UNROLL for (int e = 0; e < 4; ++e)");
  code_.line(fmt::format("const int row = {} + e;", row_of_pair("j")));
  add_pairs("other_" + other.name, {"row", plus("row", point_.side)}, features, own_each(),
            {fmt::format("{}[r][2 * c]", sums), fmt::format("{}[r][2 * c + 1]", sums)}, "weight[r][e]");
  code_.close();
  code_.close();
}

void AttentionTiles::sum_queries_by_pairs() {
  const int64_t each_pair = point_.query_each() / 2;
  code_.open(fmt::format("for (int i = 0; i < {}; i += 2)", point_.rows));
  code_.line(fmt::format("u32 weight[{}];", point_.query_each()));
  code_.open(fmt::format("UNROLL for (int j = 0; j < {}; ++j)", each_pair));
  const std::string pair = times("item_y", each_pair) + " + j";
  code_.line(fmt::format("const u32 here = {}, below = {};", weight_at("i", pair), weight_at("i + 1", pair)));
  code_.line("weight[2 * j] = LOW_HALVES(here, below), weight[2 * j + 1] = HIGH_HALVES(here, below);");
  code_.close();
  add_pairs("own_" + own_1().name, {"i", "i + 1"}, p_.d, point_.query_each(),
            {"added[r][2 * c]", "added[r][2 * c + 1]"}, "weight[r]");
  code_.close();
  store_added();
}

}  // namespace athanor::gpu
