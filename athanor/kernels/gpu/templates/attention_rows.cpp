// Attention by items that have whole rows.
#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/attention_kernel.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

void AttentionRows::barrier() {
  if (point_.items > 1) code_.line("BARRIER();");
}

/// The other rows of a block: other_k[feature][row] to sum along features, rows_k[row][feature] to sum along
/// rows.
void AttentionRows::declare_local() {
  const auto by_feature = [&](const Matrix& matrix, int64_t features) {
    code_.line(fmt::format("LOCAL {} other_{}[{} * {}];  // [feature][row]", number(), matrix.name, features,
                           point_.block));
  };
  const auto by_row = [&](const Matrix& matrix, int64_t features) {
    code_.line(fmt::format("LOCAL {} rows_{}[{} * {}];  // [row][feature]", number(), matrix.name,
                           point_.block, features));
  };
  by_feature(other_1(), p_.d);
  if (p_.has_second()) by_feature(other_2(), p_.e);
  if (!only_lse() && (!sums_first() || of_keys_and_values())) by_row(other_2(), p_.e);
  if (sums_first()) by_row(other_1(), p_.d);
  declare_number_arrays();
}

void AttentionRows::load_own(const Matrix& matrix, int64_t features) {
  code_.line(fmt::format("{} own_{}[{} * {}];", number(), matrix.name, point_.rows, features));
  code_.open(fmt::format("for (int r = 0; r < {}; ++r)", point_.rows));
  code_.line(fmt::format("const int row = {};", own_row("first + r")));
  code_.line(fmt::format("for (int c = 0; c < {0}; ++c) own_{1}[r * {0} + c] = {2};", features, matrix.name,
                         element(matrix, "row", "c")));
  code_.close();
}

void AttentionRows::declare_sums() {
  const auto zeros = [&](const char* name, int64_t features) {
    code_.line(fmt::format("{} {}[{} * {}];", number(), name, point_.rows, features));
    code_.line(fmt::format("for (int i = 0; i < {}; ++i) {}[i] = 0;", point_.rows * features, name));
  };
  if (!only_lse()) zeros("sums", features());
  if (of_keys_and_values()) zeros("sums_2", p_.e);
  if (!softmax()) return;
  code_.line(fmt::format("{0} largest[{1}], total[{1}];", number(), point_.rows));
  code_.open(fmt::format("for (int r = 0; r < {}; ++r)", point_.rows));
  code_.line(fmt::format("largest[r] = {};", lowest));
  code_.line("total[r] = 0;");
  code_.close();
}

void AttentionRows::fetch(const Matrix& matrix, int64_t features, bool by_feature, bool by_row) {
  code_.open(fmt::format("for (int i = item; i < {}; i += {})", features * point_.block, point_.items));
  code_.line(fmt::format("const int row = {};", other_row(fmt::format("begin + i / {}", features))));
  code_.line(
      fmt::format("const {} x = {};", number(), element(matrix, "row", fmt::format("i % {}", features))));
  if (by_feature)
    code_.line(fmt::format("other_{0}[i % {1} * {2} + i / {1}] = x;", matrix.name, features, point_.block));
  if (by_row) code_.line(fmt::format("rows_{}[i] = x;", matrix.name));
  code_.close();
}

/// Of own row r with the block's rows.
void AttentionRows::product(const char* result, const Matrix& own, const Matrix& other, int64_t features) {
  code_.line(fmt::format("// {} = {} {}^T", result, own.name, other.name));
  code_.line(fmt::format("{} {}[{}];", number(), result, point_.block));
  code_.line(fmt::format("for (int j = 0; j < {}; ++j) {}[j] = 0;", point_.block, result));
  code_.open(fmt::format("for (int c = 0; c < {}; ++c)", features));
  code_.line(fmt::format("const {} x = own_{}[r * {} + c];", number(), own.name, features));
  code_.line(fmt::format("for (int j = 0; j < {0}; ++j) {1}[j] += x * other_{2}[c * {0} + j];", point_.block,
                         result, other.name));
  code_.close();
}

void AttentionRows::scores() {
  if (masks() || (p_.is_grad() && !p_.by_keys()))
    code_.line(fmt::format("const int own = {};", own_row("first + r")));
  product("scores", own_1(), other_1(), p_.d);
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", point_.block));
  code_.line(fmt::format("scores[j] = {};",
                         masked("scores[j]" + times_real(p_.scale), "own", other_row("begin + j"))));
  std::string hidden = fmt::format("begin + j >= {}", p_.other());
  if (p_.causal) hidden += " || " + compared("own", ">", "begin + j");
  code_.line(fmt::format("if ({}) scores[j] = {};", hidden, lowest));
  code_.close();
}

void AttentionRows::weigh_by_softmax() {
  const int64_t block = point_.block;
  code_.line(fmt::format("{} block_largest = scores[0];", number()));
  code_.line(fmt::format("for (int j = 1; j < {}; ++j) block_largest = MAX_FLOAT(scores[j], block_largest);",
                         block));
  code_.line("// The sums so far are relative to the old largest score.");
  code_.line(fmt::format("const {} now = MAX_FLOAT(block_largest, largest[r]);", number()));
  code_.line(fmt::format("if (now == {}) continue;  // nothing seen yet", lowest));
  code_.line(fmt::format("const {} shrink = {};", number(), call("exp", "largest[r] - now")));
  code_.line("largest[r] = now;");
  code_.line(fmt::format("{} block_total = 0;", number()));
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", block));
  code_.line(fmt::format("scores[j] = {};", call("exp", "scores[j] - now")));
  code_.line("block_total += scores[j];");
  code_.close();
  code_.line("total[r] = total[r] * shrink + block_total;");
  if (!only_lse())
    code_.line(fmt::format("for (int c = 0; c < {0}; ++c) sums[r * {0} + c] *= shrink;", p_.e));
}

void AttentionRows::weigh_by_lse() {
  if (!p_.by_keys()) {
    code_.line(fmt::format("const i64 row = batch * {} + own;", p_.queries));
    code_.line(fmt::format("const {} own_lse = {};", number(), query_number(p_.lse, "lse")));
    code_.line(fmt::format("const {} own_delta = {};", number(), query_number(p_.delta, "delta")));
  }
  code_.line("// Scores become weights.");
  code_.line(fmt::format("for (int j = 0; j < {}; ++j) scores[j] = {};", point_.block,
                         call("exp", p_.by_keys() ? "scores[j] - other_lse[j]" : "scores[j] - own_lse")));
}

void AttentionRows::score_gradients() {
  product("products", own_2(), other_2(), p_.e);
  code_.line("// Weights become gradients of the scores.");
  code_.line(fmt::format("for (int j = 0; j < {}; ++j) scores[j] *= {} * (products[j] - {});", point_.block,
                         real(p_.scale), p_.by_keys() ? "other_delta[j]" : "own_delta"));
}

/// sums += scores by the block's rows.
void AttentionRows::sum(const char* sums, const Matrix& other, int64_t features) {
  code_.line(fmt::format("// {} += scores {}", sums, other.name));
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", point_.block));
  code_.line(fmt::format("const {} x = scores[j];", number()));
  code_.line(fmt::format("for (int c = 0; c < {0}; ++c) {1}[r * {0} + c] += x * rows_{2}[j * {0} + c];",
                         features, sums, other.name));
  code_.close();
}

void AttentionRows::store() {
  code_.open(fmt::format("for (int r = 0; r < {} && first + r < {}; ++r)", point_.rows, p_.own()));
  const auto features_of = [&](const AttentionProblem::Result& out, const char* sums, int64_t features,
                               const char* factor) {
    const std::string at = out.name + "_at";
    code_.line(fmt::format("const i64 {} = {} + (first + r) * (i64){};", at, out.start, out.row));
    code_.line(fmt::format(
        "for (int c = 0; c < {}; ++c) {}", features,
        out.store(fmt::format("{}[r * {} + c]{}", sums, features, factor), at + " + c", "first + r", "c")));
  };
  if (p_.kind == AttentionKind::forward) code_.line(fmt::format("const {} share = 1 / total[r];", number()));
  if (!only_lse()) features_of(p_.out, "sums", features(), softmax() ? " * share" : "");
  if (only_lse() || p_.with_lse) store_lse("first + r", "largest[r]", "total[r]");
  if (of_keys_and_values()) features_of(p_.out_2, "sums_2", p_.e, "");
  code_.close();
}

GpuLaunch AttentionRows::launch() {
  const int64_t chunks = ceil_div(p_.own(), group_rows());
  begin("attention_rows",
        fmt::format("An item has {} {}, and takes the {} in blocks of {}.", point_.rows,
                    p_.by_keys() ? "keys" : "queries", p_.by_keys() ? "queries" : "keys", point_.block));
  code_.line(fmt::format("const i64 batch = GROUP_ID(0) / {};", chunks));
  code_.line("const int item = LOCAL_ID(0);");
  code_.line(fmt::format("const int group_first = {};", times(chunk(chunks), group_rows())));
  code_.line(fmt::format("const int first = group_first + {};", times("item", point_.rows)));
  declare_local();
  code_.line("// Rows past the end read the last row and store nothing.");
  load_own(own_1(), p_.d);
  if (p_.has_second()) load_own(own_2(), p_.e);
  declare_sums();

  code_.open(loop_over_blocks("group_first", group_rows()));
  barrier();
  fetch(other_1(), p_.d, true, sums_first());
  if (!only_lse()) fetch(other_2(), p_.e, p_.has_second(), !sums_first() || of_keys_and_values());
  load_other_numbers();
  barrier();
  code_.open(fmt::format("for (int r = 0; r < {}; ++r)", point_.rows));
  scores();
  if (softmax())
    weigh_by_softmax();
  else
    weigh_by_lse();
  if (of_keys_and_values()) sum("sums_2", other_2(), p_.e);
  if (p_.has_second()) score_gradients();
  if (!only_lse()) sum("sums", sums_first() ? other_1() : other_2(), features());
  code_.close();
  code_.close();

  store();
  code_.close();
  return {.name = "attention_rows",
          .source = functions() + code_.text(),
          .groups = {p_.batches * chunks, 1, 1},
          .group_size = {point_.items, 1, 1},
          .local_bytes = AttentionFootprint(p_).bytes(point_),
          .arguments = p_.arguments};
}

}  // namespace athanor::gpu
