// Attention by groups whose items share tiles: what they compute.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numbers>
#include <vector>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/attention_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

double AttentionTiles::of_exponent() const {
  return p_.dtype == DType::f64 || !p_.mask.name.empty() ? 1 : std::numbers::log2e;
}

std::string AttentionTiles::power(const std::string& exponent) const {
  if (p_.dtype == DType::f64) return call("exp", exponent);
  return fmt::format("EXP2({})", of_exponent() == 1
                                     ? fmt::format("({}){}", exponent, times_real(std::numbers::log2e))
                                     : exponent);
}

std::string AttentionTiles::own_at() const { return times("item_y", own_each()) + " + r"; }

std::string AttentionTiles::other_at() const { return fmt::format("item_x + j * {}", point_.side); }

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

void AttentionTiles::declare_sums() {
  if (!only_lse()) zeros("sums", own_each(), each(features()));
  if (of_keys_and_values()) zeros("sums_2", own_each(), each(p_.e));
  if (!softmax()) return;
  code_.line(fmt::format("{0} total[{1}], largest[{1}];", number(), own_each()));
  unroll("r", own_each(), fmt::format("total[r] = 0, largest[r] = {};", lowest));
}

/// Of the item's own rows with its rows of the block.
void AttentionTiles::product(const char* result, const Matrix& own, const Matrix& other, int64_t features) {
  const int64_t pitch = point_.pitch(features);
  code_.line(fmt::format("// {} = {} {}^T", result, own.name, other.name));
  code_.line(fmt::format("{} {}[{}][{}];", number(), result, own_each(), block_each()));
  each_score(fmt::format("{}[r][j] = 0;", result));
  // LLVM would unroll short loops as a whole, and f64 needs too many registers.
  code_.line("_Pragma(\"unroll 2\")");
  code_.open(fmt::format("for (int c = 0; c < {}; c += 4)", ceil_div(point_.registers(features), 4) * 4));
  code_.line(fmt::format("{} own_part[{}][4], other_part[{}][4];", held(), own_each(), block_each()));
  each_row([&] {
    unroll("e", 4, fmt::format("own_part[r][e] = own_{}[({}) * {} + c + e];", own.name, own_at(), pitch));
  });
  code_.open(fmt::format("UNROLL for (int j = 0; j < {}; ++j)", block_each()));
  unroll("e", 4,
         fmt::format("other_part[j][e] = other_{}[({}) * {} + c + e];", other.name, other_at(), pitch));
  code_.close();
  code_.open("UNROLL for (int e = 0; e < 4; ++e)");
  each_score(add_product(fmt::format("{}[r][j]", result), "own_part[r][e]", "other_part[j][e]"));
  code_.close();
  code_.close();
}

/// Which blocks have scores that do not count, as a condition; "" if none has.
std::string AttentionTiles::needs_mask() const {
  std::vector<std::string> reasons;
  if (p_.other() % point_.block != 0)
    reasons.push_back(fmt::format("begin + {} > {}", point_.block, p_.other()));
  // Keys past the end must not add to the queries' gradient.
  if (of_all() && p_.own() % point_.rows != 0)
    reasons.push_back(fmt::format("first + {} > {}", point_.rows, p_.own()));
  const int64_t own = p_.by_keys() ? point_.rows - 1 : 0, other = p_.by_keys() ? 0 : point_.block - 1;
  if (p_.causal) reasons.push_back(compared(plus("first", own), ">", plus("begin", other)));
  return fmt::format("{}", fmt::join(reasons, " || "));
}

/// Applies scale and mask. Scores are exponents afterwards.
void AttentionTiles::mask_scores() {
  each_score(fmt::format("scores[r][j] = {};",
                         masked("scores[r][j]" + times_real(p_.scale * of_exponent()),
                                own_row("first + " + own_at()), other_row("begin + " + other_at()))));
  const std::string needed = needs_mask();
  if (needed.empty()) return;
  std::string seen = fmt::format("other < {}", p_.other());
  if (of_all()) seen += fmt::format(" && own < {}", p_.own());
  if (p_.causal) seen += " && " + compared("own", "<=", "other");
  code_.open(fmt::format("if ({})", needed));
  each_row([&] {
    code_.open(fmt::format("UNROLL for (int j = 0; j < {}; ++j)", block_each()));
    code_.line(fmt::format("const int own = first + {}, other = begin + {};", own_at(), other_at()));
    code_.line(fmt::format("scores[r][j] = {} ? scores[r][j] : {};", seen, lowest));
    code_.close();
  });
  code_.close();
}

std::string AttentionTiles::add_product(const std::string& sum, const std::string& a,
                                        const std::string& b) const {
  if (pairs()) return fmt::format("MULTIPLY_ADD({}, {}, {});", sum, a, b);
  return fmt::format("{} += {} * {};", sum, a, b);
}

void AttentionTiles::put_weights() {
  if (pairs())
    each_row([&] {
      unroll("j", block_each() / 2,
             weight_at(own_at(), other_at()) + " = PACKED(f16, scores[r][2 * j], scores[r][2 * j + 1]);");
    });
  else
    each_score(weight_at(own_at(), other_at()) + " = scores[r][j];");
  code_.line("BARRIER();");
}

void AttentionTiles::weigh_by_softmax() {
  code_.line("// The largest score of each row so far. The sums so far are relative to the previous one.");
  each_row([&] {
    code_.line(fmt::format("{} high = scores[r][0];", number()));
    code_.line(
        fmt::format("UNROLL for (int j = 1; j < {}; ++j) high = MAX(high, scores[r][j]);", block_each()));
    code_.line(largest_at("item_x") + " = high;");
  });
  code_.line("BARRIER();");
  each_row([&] {
    code_.line(fmt::format("{} now = largest[r];", number()));
    unroll("i", point_.side, fmt::format("now = MAX(now, {});", largest_at("i")));
    code_.line(
        fmt::format("const {} base = now == {} ? 0 : now;  // if nothing is seen yet", number(), lowest));
    code_.line(fmt::format("const {} shrink = {};", number(), power("largest[r] - base")));
    code_.line("largest[r] = now;");
    code_.line("total[r] *= shrink;");
    if (!only_lse()) unroll("c", each(p_.e), "sums[r][c] *= shrink;");
    code_.open(fmt::format("UNROLL for (int j = 0; j < {}; ++j)", block_each()));
    code_.line(fmt::format("scores[r][j] = {};", power("scores[r][j] - base")));
    code_.line("total[r] += scores[r][j];");
    code_.close();
  });
}

void AttentionTiles::weigh_by_lse() {
  code_.line("// Scores become weights.");
  const std::string lse = p_.by_keys() ? "other_lse[j]" : "own_lse[r]";
  each_score(fmt::format("scores[r][j] = {};", power("scores[r][j] - " + lse)));
}

void AttentionTiles::score_gradients() {
  product("products", own_2(), other_2(), p_.e);
  code_.line("// Weights become gradients of the scores.");
  const std::string delta = p_.by_keys() ? "other_delta[j]" : "own_delta[r]";
  each_score(fmt::format("scores[r][j] *= {} * (products[r][j] - {});", real(p_.scale), delta));
}

/// sums += weights by the block's rows.
void AttentionTiles::sum(const char* sums, const Matrix& other, int64_t features) {
  if (pairs()) return sum_pairs(sums, other, features);
  code_.open(fmt::format("for (int j = 0; j < {}; j += 4)", point_.block));
  code_.line(fmt::format("{} weight[{}][4];", number(), own_each()));
  each_row([&] { unroll("e", 4, fmt::format("weight[r][e] = {};", weight_at(own_at(), "j + e"))); });
  code_.open("UNROLL for (int e = 0; e < 4; ++e)");
  read_features("x", "other_" + other.name, "j + e", features);
  each_row([&] { unroll("c", each(features), fmt::format("{}[r][c] += weight[r][e] * x[c];", sums)); });
  code_.close();
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
  if (only_lse()) return;
  put_weights();
  if (of_all()) load_added();
  const Matrix& summed = sums_first() ? other_1() : other_2();
  code_.line(fmt::format("// sums += weights {}", summed.name));
  sum("sums", summed, features());
  if (of_all()) sum_queries();
}

/// The items of a row have each added their own weights.
void AttentionTiles::sum_totals() {
  code_.line("BARRIER();");
  each_row([&] { code_.line(largest_at("item_x") + " = total[r];"); });
  code_.line("BARRIER();");
  each_row([&] {
    code_.line("total[r] = 0;");
    unroll("i", point_.side, fmt::format("total[r] += {};", largest_at("i")));
  });
}

void AttentionTiles::store(const AttentionProblem::Result& out, const char* sums, int64_t features) {
  const int64_t vector = point_.vector(features);
  code_.line(fmt::format("const i64 {}_at = {} + row * (i64){};", out.name, out.start, out.row));
  code_.open(fmt::format("UNROLL for (int c = 0; c < {}; ++c)", each(features)));
  code_.line(fmt::format("const int feature = {} + {};",
                         times(fmt::format("(item_x + {} * {})", divided("c", vector), point_.side), vector),
                         vector == 1 ? "0" : fmt::format("c % {}", vector)));
  code_.line(fmt::format("if (feature < {}) {}", features,
                         out.store(fmt::format("{}[r][c]{}", sums, softmax() ? " / total[r]" : ""),
                                   out.name + "_at + feature", "row", "feature")));
  code_.close();
}

void AttentionTiles::store_results() {
  if (softmax()) sum_totals();
  each_row([&] {
    code_.line(fmt::format("const int row = first + {};", own_at()));
    code_.open(fmt::format("if (row < {})", p_.own()));
    if (!only_lse()) store(p_.out, "sums", features());
    if (only_lse() || p_.with_lse) {
      code_.open("if (item_x == 0)");
      store_lse("row", "largest[r]" + times_real(1 / of_exponent()), "total[r]");
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
          .source = functions() + code_.text(),
          .groups = {p_.batches * (of_all() ? parts_ : ceil_div(p_.own(), point_.rows)), 1, 1},
          .group_size = {point_.items, 1, 1},
          .local_bytes = AttentionFootprint(p_).bytes(point_),
          .arguments = p_.arguments,
          .compile_options = pairs() ? compile_options_for(*point_.dot) : ""};
}

}  // namespace athanor::gpu
