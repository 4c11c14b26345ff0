// Attention by groups whose items share tiles.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/attention_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

int64_t AttentionTiles::each(int64_t features) const { return ceil_div(features, point_.side); }

std::string AttentionTiles::own_at() const { return times("item_y", own_each()) + " + r"; }

std::string AttentionTiles::other_at() const { return times("item_x", block_each()) + " + j"; }

std::string AttentionTiles::weight_at(const std::string& own, const std::string& other) const {
  return fmt::format("weights[({}) * {} + {}]", own, block_pitch(), other);
}

std::string AttentionTiles::feature(int64_t features) const {
  return fmt::format("MIN(item_x + c * {}, {})", point_.side, features - 1);
}

void AttentionTiles::unroll(const char* index, int64_t count, const std::string& statement) {
  code_.line(fmt::format("UNROLL for (int {0} = 0; {0} < {1}; ++{0}) {2}", index, count, statement));
}

void AttentionTiles::each_row(const std::function<void()>& body) {
  code_.open(fmt::format("UNROLL for (int r = 0; r < {}; ++r)", own_each()));
  body();
  code_.close();
}

/// For each score of the item: of own row r and row j of the block.
void AttentionTiles::each_score(const std::string& statement) {
  each_row([&] { unroll("j", block_each(), statement); });
}

void AttentionTiles::zeros(const std::string& name, int64_t rows, int64_t columns) {
  code_.line(fmt::format("{} {}[{}][{}];", number(), name, rows, columns));
  code_.open(fmt::format("UNROLL for (int r = 0; r < {}; ++r)", rows));
  unroll("c", columns, name + "[r][c] = 0;");
  code_.close();
}

void AttentionTiles::open_kernel() {
  const int64_t chunks = ceil_div(p_.own(), point_.rows);
  const char *const own = p_.by_keys() ? "keys" : "queries", *const other = p_.by_keys() ? "queries" : "keys";
  begin("attention_tiles",
        fmt::format(
            "A group has {} {} and takes the {} in blocks of {}; an item has {} x {} scores of a block.",
            point_.rows, own, other, point_.block, own_each(), block_each()));
  code_.line(fmt::format("const i64 batch = GROUP_ID(0) / {};", of_all() ? parts_ : chunks));
  if (of_all())
    code_.line(fmt::format("const int part = (int)(GROUP_ID(0) % {});", parts_));
  else
    code_.line(fmt::format("const int first = {};", times(chunk(chunks), point_.rows)));
  code_.line(
      fmt::format("const int item = LOCAL_ID(0), item_y = item / {0}, item_x = item % {0};", point_.side));
  declare_local();
  if (!of_all()) return;
  code_.open(fmt::format("for (int chunk = part; chunk < {}; chunk += {})", chunks, parts_));
  code_.line(fmt::format("const int first = {};", times("chunk", point_.rows)));
  code_.line("BARRIER();  // the last chunk's rows were read");
}

void AttentionTiles::declare_local() {
  const auto declare = [&](const char* name, int64_t elements) {
    code_.line(fmt::format("LOCAL {} {}[{}];", number(), name, elements));
  };
  const auto rows = [&](const char* whose, const Matrix& matrix, int64_t features, int64_t pitch) {
    code_.line(fmt::format("LOCAL {} {}_{}[{} * {}];", number(), whose, matrix.name, features, pitch));
  };
  rows("own", own_1(), p_.d, own_pitch());
  rows("other", other_1(), p_.d, block_pitch());
  if (p_.has_second()) rows("own", own_2(), p_.e, own_pitch());
  if (!only_lse()) rows("other", other_2(), p_.e, block_pitch());
  declare_number_arrays();
  if (softmax()) {
    declare("largest", point_.rows);
    declare("shrinks", point_.rows);
  }
  code_.line(fmt::format("LOCAL {} weights[{} * {}];", number(), point_.rows, block_pitch()));
}

/// Copies rows to local memory, with features first.
void AttentionTiles::fetch(const std::string& to, int64_t pitch, const Matrix& matrix, int64_t rows,
                           int64_t features, const std::string& row) {
  const int64_t all = rows * features;
  // Four elements of an item are on their way at once; LLVM does not unroll such a loop by itself, and would
  // wait for each.
  code_.line("_Pragma(\"unroll 4\")");
  code_.open(fmt::format("for (int n = 0; n < {}; ++n)", ceil_div(all, point_.items)));
  code_.line(
      fmt::format("const int i = n * {0} + item, row = i / {1}, feature = i % {1};", point_.items, features));
  code_.line(fmt::format("{}{}{}[feature * {} + row] = {};",
                         all % point_.items == 0 ? "" : fmt::format("if (i < {}) ", all), to, matrix.name,
                         pitch, element(matrix, row, "feature")));
  code_.close();
}

void AttentionTiles::load_own() {
  code_.line("// Rows past the end read the last row and store nothing.");
  const std::string row = own_row("first + row");
  fetch("own_", own_pitch(), own_1(), point_.rows, p_.d, row);
  if (p_.has_second()) fetch("own_", own_pitch(), own_2(), point_.rows, p_.e, row);
  if (softmax())
    code_.line(fmt::format("for (int i = item; i < {}; i += {}) largest[i] = {};", point_.rows, point_.items,
                           lowest));
  if (softmax() || p_.by_keys()) return;
  code_.line(fmt::format("{0} own_lse[{1}], own_delta[{1}];", number(), own_each()));
  each_row([&] {
    code_.line(fmt::format("const i64 row = batch * {} + {};", p_.queries, own_row("first + " + own_at())));
    code_.line(fmt::format("own_lse[r] = {};", query_number(p_.lse, "lse")));
    code_.line(fmt::format("own_delta[r] = {};", query_number(p_.delta, "delta")));
  });
}

void AttentionTiles::declare_sums() {
  if (!only_lse()) zeros("sums", own_each(), each(features()));
  if (of_keys_and_values()) zeros("sums_2", own_each(), each(p_.e));
  if (!softmax()) return;
  code_.line(fmt::format("{} total[{}];", number(), own_each()));
  unroll("r", own_each(), "total[r] = 0;");
}

void AttentionTiles::fetch_block() {
  const std::string row = other_row("begin + row");
  fetch("other_", block_pitch(), other_1(), point_.block, p_.d, row);
  if (!only_lse()) fetch("other_", block_pitch(), other_2(), point_.block, p_.e, row);
  load_other_numbers();
}

/// Of the item's own rows with its rows of the block.
void AttentionTiles::product(const char* result, const Matrix& own, const Matrix& other, int64_t features) {
  code_.line(fmt::format("// {} = {} {}^T", result, own.name, other.name));
  code_.line(fmt::format("{} {}[{}][{}];", number(), result, own_each(), block_each()));
  each_score(fmt::format("{}[r][j] = 0;", result));
  // LLVM would unroll short loops as a whole, and f64 needs too many registers.
  code_.line("_Pragma(\"unroll 8\")");
  code_.open(fmt::format("for (int c = 0; c < {}; ++c)", features));
  each_score(fmt::format("{}[r][j] += own_{}[c * {} + {}] * other_{}[c * {} + {}];", result, own.name,
                         own_pitch(), own_at(), other.name, block_pitch(), other_at()));
  code_.close();
}

void AttentionTiles::mask_scores() {
  std::string seen = fmt::format("other < {}", p_.other());
  // Keys past the end must not add to the queries' gradient.
  if (of_all()) seen += fmt::format(" && first + {} < {}", own_at(), p_.own());
  if (p_.causal) seen += " && " + compared("own", "<=", "other");
  each_row([&] {
    if (masks()) code_.line(fmt::format("const int own = {};", own_row("first + " + own_at())));
    code_.open(fmt::format("UNROLL for (int j = 0; j < {}; ++j)", block_each()));
    code_.line(fmt::format("const int other = begin + {};", other_at()));
    code_.line(fmt::format("const {} score = {};", number(),
                           masked("scores[r][j] * " + scale(), "own", other_row("other"))));
    code_.line(fmt::format("scores[r][j] = {} ? score : {};", seen, lowest));
    code_.close();
  });
}

void AttentionTiles::put_weights() {
  each_score(weight_at(own_at(), other_at()) + " = scores[r][j];");
  code_.line("BARRIER();");
}

void AttentionTiles::weigh_by_softmax() {
  put_weights();
  code_.line("// The largest score of each row so far. The sums so far are relative to the previous one.");
  code_.open(fmt::format("for (int row = item; row < {}; row += {})", point_.rows, point_.items));
  code_.line(fmt::format("{} now = largest[row];", number()));
  code_.line(fmt::format("for (int j = 0; j < {}; ++j) now = MAX_FLOAT(weights[row * {} + j], now);",
                         point_.block, block_pitch()));
  code_.line(fmt::format("shrinks[row] = now == {} ? 1 : {};", lowest, call("exp", "largest[row] - now")));
  code_.line("largest[row] = now;");
  code_.close();
  code_.line("BARRIER();");
  each_row([&] {
    code_.line(
        fmt::format("const {} now = largest[{}], shrink = shrinks[{}];", number(), own_at(), own_at()));
    code_.line("total[r] *= shrink;");
    if (!only_lse()) unroll("c", each(p_.e), "sums[r][c] *= shrink;");
    unroll("j", block_each(),
           fmt::format("scores[r][j] = now == {} ? 0 : {};  // nothing seen yet", lowest,
                       call("exp", "scores[r][j] - now")));
  });
}

void AttentionTiles::weigh_by_lse() {
  code_.line("// Scores become weights.");
  const std::string lse = p_.by_keys() ? fmt::format("other_lse[{}]", other_at()) : "own_lse[r]";
  each_score(fmt::format("scores[r][j] = {};", call("exp", "scores[r][j] - " + lse)));
}

void AttentionTiles::score_gradients() {
  product("products", own_2(), other_2(), p_.e);
  code_.line("// Weights become gradients of the scores.");
  const std::string delta = p_.by_keys() ? fmt::format("other_delta[{}]", other_at()) : "own_delta[r]";
  each_score(fmt::format("scores[r][j] *= {} * (products[r][j] - {});", scale(), delta));
}

/// sums += weights by the block's rows. For softmax also adds the weights; without a result, only these.
void AttentionTiles::sum(const char* sums, const Matrix& other, int64_t features) {
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", point_.block));
  code_.line(fmt::format("{} weight[{}];", number(), own_each()));
  each_row([&] {
    code_.line(fmt::format("weight[r] = {};", weight_at(own_at(), "j")));
    if (softmax()) code_.line("total[r] += weight[r];");
  });
  if (!only_lse()) {
    code_.open(fmt::format("UNROLL for (int c = 0; c < {}; ++c)", each(features)));
    code_.line(fmt::format("const {} x = other_{}[{} * {} + j];", number(), other.name, feature(features),
                           block_pitch()));
    unroll("r", own_each(), fmt::format("{}[r][c] += weight[r] * x;", sums));
    code_.close();
  }
  code_.close();
}

void AttentionTiles::compute() {
  product("scores", own_1(), other_1(), p_.d);
  mask_scores();
  if (softmax())
    weigh_by_softmax();
  else
    weigh_by_lse();
  if (of_keys_and_values()) {
    put_weights();
    code_.line(fmt::format("// sums_2 += weights {}", other_2().name));
    code_.line("_Pragma(\"unroll 1\")");  // otherwise LLVM uses more registers than AMD's GPUs have
    sum("sums_2", other_2(), p_.e);
    code_.line("BARRIER();  // the weights are written anew below");
  }
  if (p_.has_second()) score_gradients();
  put_weights();
  if (of_all()) load_added();
  const Matrix& summed = sums_first() ? other_1() : other_2();
  if (!only_lse()) code_.line(fmt::format("// sums += weights {}", summed.name));
  sum("sums", summed, features());
  if (of_all()) sum_queries();
}

void AttentionTiles::store(const Matrix& out, const char* sums, int64_t features) {
  code_.line(fmt::format("const i64 {}_at = {} + row * (i64){};", out.name, out.start, out.row));
  code_.open(fmt::format("UNROLL for (int c = 0; c < {}; ++c)", each(features)));
  code_.line(fmt::format(
      "if (item_x + c * {0} < {1}) STORE({2}, {3}, {3}_at + item_x + c * {0}, {4}[r][c]{5});", point_.side,
      features, language_name(p_.dtype), out.name, sums, softmax() ? " / total[r]" : ""));
  code_.close();
}

void AttentionTiles::store_results() {
  each_row([&] {
    code_.line(fmt::format("const int row = first + {};", own_at()));
    code_.open(fmt::format("if (row < {})", p_.own()));
    if (!only_lse()) store(p_.out, "sums", features());
    if (only_lse() || p_.with_lse) {
      code_.open("if (item_x == 0)");
      store_lse("row", fmt::format("largest[{}]", own_at()), "total[r]");
      code_.close();
    }
    if (of_keys_and_values()) store(p_.out_2, "sums_2", p_.e);
    code_.close();
  });
}

GpuLaunch AttentionTiles::launch() {
  open_kernel();
  load_own();
  declare_sums();
  code_.line(
      "// Otherwise LLVM computes every address of the loop in advance, which takes more registers than "
      "AMD's "
      "GPUs have.");
  code_.line("const int fixed_y = item_y, fixed_x = item_x;");
  code_.open(loop_over_blocks("first", point_.rows));
  code_.line("int item_y = fixed_y, item_x = fixed_x;");
  code_.line("HIDDEN_LANE(item_y);");
  code_.line("HIDDEN_LANE(item_x);");
  code_.line("BARRIER();");
  fetch_block();
  code_.line("BARRIER();");
  compute();
  code_.close();
  store_results();
  if (of_all()) code_.close();
  code_.close();
  return {.name = "attention_tiles",
          .source = code_.text(),
          .groups = {p_.batches * (of_all() ? parts_ : ceil_div(p_.own(), point_.rows)), 1, 1},
          .group_size = {point_.items, 1, 1},
          .local_bytes = AttentionFootprint(p_).bytes(point_),
          .arguments = p_.arguments};
}

}  // namespace athanor::gpu
