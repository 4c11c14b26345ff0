// The gradient by q in the kernel of all three (attention_gradients.cpp). Each part of a head's keys has a
// copy of it, to which its group adds; a second kernel adds the copies.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/attention_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

/// Where a row of a block comes among those of its items: rows of a pair follow each other.
std::string AttentionTiles::place_in_block(const std::string& row) const {
  if (!pairs()) return row;
  const int64_t side = point_.side;
  return fmt::format("({0}) / {1} * {1} + ({0}) % {2} * 2 + ({0}) % {1} / {2}", row, 2 * side, side);
}

/// An item's number of its part's copy: for each block of queries it has some rows of some features. They lie
/// so that neighbouring items have neighbouring numbers.
std::string AttentionTiles::copy(const std::string& j, const std::string& c, const std::string& item) const {
  const std::string block = fmt::format("(batch * {} + part) * {} + begin / {}", parts_,
                                        ceil_div(p_.queries, point_.block), point_.block);
  return fmt::format("copies[(({}) * {} + {}) * {} + ({}) * {} + {}]", block, point_.query_each(), j,
                     each(p_.d) * point_.items, c, point_.items, item);
}

void AttentionTiles::each_query_feature(const std::string& statement) {
  code_.open(fmt::format("UNROLL for (int j = 0; j < {}; ++j)", point_.query_each()));
  unroll("c", each(p_.d), statement);
  code_.close();
}

/// What the part's former chunks added to the gradient of the block's queries. An item always has the same
/// elements of it. It arrives while the item sums its keys' gradients.
void AttentionTiles::load_added() {
  code_.line("// What the part's former chunks added to the gradient of the block's queries.");
  code_.line(fmt::format("{} added[{}][{}];", number(), point_.query_each(), each(p_.d)));
  each_query_feature("added[j][c] = 0;");
  code_.open("if (chunk != part)");
  each_query_feature(fmt::format("added[j][c] = {};", copy("j", "c", "item")));
  code_.close();
}

void AttentionTiles::sum_queries() {
  code_.line(fmt::format("// added += weights^T {}", own_1().name));
  if (pairs()) return sum_queries_by_pairs();
  code_.open(fmt::format("for (int i = 0; i < {}; ++i)", point_.rows));
  code_.line(fmt::format("{} weight[{}];", number(), point_.query_each()));
  unroll("j", point_.query_each(),
         fmt::format("weight[j] = {};", weight_at("i", times("item_y", point_.query_each()) + " + j")));
  read_features("x", "own_" + own_1().name, "i", p_.d);
  each_query_feature("added[j][c] += weight[j] * x[c];");
  code_.close();
  store_added();
}

void AttentionTiles::store_added() {
  each_query_feature(fmt::format("{} = added[j][c];", copy("j", "c", "item")));
}

GpuLaunch AttentionTiles::sum_launch() {
  constexpr int64_t most_items = 256;
  const int64_t items = std::min(most_items, point_.items), all = p_.batches * p_.queries * p_.d;
  code_.line(fmt::format("// Adds the {} parts' copies of the gradient by queries, in their order.", parts_));
  const auto result = open_sum(code_, "attention_sum", number(), p_.out);
  code_.line("const i64 element = GLOBAL_ID(0);");
  code_.line(fmt::format("if (element >= {}) return;", all));
  code_.line(fmt::format("const i64 batch = element / {};", p_.queries * p_.d));
  code_.line(fmt::format("const int row = (int)(element / {0} % {1}), feature = (int)(element % {0});", p_.d,
                         p_.queries));
  code_.line(fmt::format("const int begin = row / {0} * {0};", point_.block));
  const int64_t vector = point_.vector(p_.d);
  code_.line(fmt::format("const int place = {};", place_in_block(fmt::format("row % {}", point_.block))));
  code_.line(fmt::format("const int item = place / {} * {} + {} % {};", point_.query_each(), point_.side,
                         divided("feature", vector), point_.side));
  code_.line(fmt::format("{} sum = 0;", number()));
  code_.open(fmt::format("UNROLL for (int part = 0; part < {}; ++part)", parts_));
  code_.line("// No query of the block sees a key of the others; they have written nothing here.");
  code_.line(fmt::format(
      "if (begin >= {}) sum += {};", first_block(times("part", point_.rows)),
      copy(fmt::format("place % {}", point_.query_each()),
           fmt::format("feature / {0} * {1} + feature % {1}", vector * point_.side, vector), "item")));
  code_.close();
  code_.line(p_.out.store("sum", fmt::format("{} + row * (i64){} + feature", p_.out.start, p_.out.row), "row",
                          "feature"));
  code_.close();
  return {.name = "attention_sum",
          .source = p_.out.epilogue.function() + code_.text(),
          .groups = {ceil_div(all, items), 1, 1},
          .group_size = {items, 1, 1},
          .arguments = result};
}

}  // namespace athanor::gpu
