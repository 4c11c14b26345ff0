// The texts of lstm, gru and their gradients.
#include "athanor/kernels/gpu/templates/recurrent_kernel.h"

#include <fmt/format.h>

#include <initializer_list>

#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/index_code.h"

namespace athanor::gpu {
namespace {

void write_lines(Code& code, std::initializer_list<const char*> lines) {
  for (const char* line : lines) code.line(line);
}

class RecurrenceKernel {
 public:
  RecurrenceKernel(const Recurrence& r, const RecurrencePoint& point,
                   const std::vector<RecurrenceInput>& inputs)
      : r_(r), point_(point), inputs_(inputs) {}

  std::string text() {
    r_.gradient ? write_gradient() : write_forward();
    return std::string(template_text("recurrent")) + "\n" + code_.text();
  }

 private:
  /// "gates_0", ...
  void write_strides() {
    for (const RecurrenceInput& input : inputs_)
      for (size_t axis = 0; axis < input.strides.size(); ++axis)
        code_.line(fmt::format("const i64 {}_{} = {};", input.name, axis, input.strides[axis]));
  }

  std::string read() const { return "const " + stored(r_.dtype); }

  /// For each of the group's examples. A loop with vectors is compiled once, not once for each example.
  void open_rows() {
    code_.open(fmt::format("{} for (int row = 0; row < ROWS; ++row)",
                           point_.width == 1 ? "UNROLL" : "_Pragma(\"unroll 1\")"));
  }

  /// sums[row][sum][lane]: the weights times `factors` [ROWS, STEPS], in local memory, for the block's
  /// features.
  void write_product(const std::string& factors) {
    const bool vectors = point_.width > 1;
    const std::string type = vectors ? fmt::format("f32x{}", point_.width) : "REAL",
                      at = "(step * SUMS + s) * BLOCK";
    code_.line("const int first = block * BLOCK + LOCAL_ID(0) * WIDTH;");
    code_.line("REAL sums[ROWS][SUMS][WIDTH];");
    code_.line(
        "GLOBAL const REAL *const weights = packed + (i64)block * STEPS * SUMS * BLOCK + LOCAL_ID(0) * "
        "WIDTH;");
    code_.line(type + " sum[ROWS][SUMS];");
    code_.line("UNROLL for (int row = 0; row < ROWS; ++row)");
    code_.line(fmt::format("  UNROLL for (int s = 0; s < SUMS; ++s) sum[row][s] = ({})(0);", type));
    code_.line("_Pragma(\"unroll 4\") for (int step = 0; step < STEPS; ++step)");
    code_.open("  UNROLL for (int s = 0; s < SUMS; ++s)");
    code_.line(vectors ? fmt::format("const {} weight = VLOAD({}, weights, {});", type, point_.width, at)
                       : fmt::format("const REAL weight = weights[{}];", at));
    const std::string factor = factors + "[row * STEPS + step]";
    code_.line("UNROLL for (int row = 0; row < ROWS; ++row)");
    code_.line(vectors
                   ? fmt::format("  sum[row][s] = VFMA({}, weight, {}, sum[row][s]);", point_.width, factor)
                   : fmt::format("  sum[row][s] = weight * {} + sum[row][s];", factor));
    code_.close();
    code_.line("UNROLL for (int row = 0; row < ROWS; ++row)");
    code_.line(
        vectors
            ? fmt::format("  UNROLL for (int s = 0; s < SUMS; ++s) VSTORE({}, sums[row][s], 0, sum[row][s]);",
                          point_.width)
            : "  UNROLL for (int s = 0; s < SUMS; ++s) sums[row][s][0] = sum[row][s];");
  }

  void write_forward() {
    std::vector<Parameter> parameters{{"gates", read()}};
    if (!r_.lstm) parameters.push_back({"bias", read()});
    parameters.push_back({"first_state", read()});
    if (r_.lstm) parameters.push_back({"first_cell", read()});
    parameters.push_back({"y", stored(r_.dtype)});
    parameters.push_back({"packed", "const REAL"});
    open_kernel(code_, "recurrent", parameters, false);
    write_strides();
    code_.line("LOCAL REAL states[2][ROWS * H];");
    if (r_.lstm) code_.line("LOCAL REAL cells[ROWS * H];");
    code_.line("const int first_row = GROUP_ID(0) * ROWS;");
    code_.open("for (int row = 0; row < ROWS; ++row)");
    code_.line("const int n = MIN(first_row + row, BATCH - 1);");
    code_.open("EACH_FEATURE(j)");
    code_.line("states[0][row * H + j] = FIRST(first_state, n, j);");
    if (r_.lstm) code_.line("cells[row * H + j] = FIRST(first_cell, n, j);");
    code_.close();
    code_.close();
    code_.line("BARRIER();");
    code_.open("for (int t = 0; t < TIMES; ++t)");
    code_.open("for (int block = 0; block < BLOCKS; ++block)");
    write_product("states[t % 2]");
    open_rows();
    code_.line("const int n = first_row + row;");
    code_.open("if (n < BATCH)");
    code_.open("PARALLEL for (int lane = 0; lane < WIDTH; ++lane)");
    code_.line("const int j = first + lane;");
    code_.open("if (j < H)");
    r_.lstm ? step_lstm() : step_gru();
    code_.line("states[1 - t % 2][row * H + j] = LOAD(DTYPE, y, to);  // rounded, as the gradient reads it");
    for (int open = 0; open < 5; ++open) code_.close();
    code_.line("BARRIER();");
    code_.close();
    code_.close();
  }

  void step_lstm() {
    write_lines(code_,
                {"const i64 to = ((i64)n * TIMES + t) * 2 * H + j;",
                 "const REAL in = squashed(sums[row][0][lane] + GATE_OF(gates, 0, n, t, j)),",
                 "           forget = squashed(sums[row][1][lane] + GATE_OF(gates, 1, n, t, j)),",
                 "           next = TANH(sums[row][2][lane] + GATE_OF(gates, 2, n, t, j)),",
                 "           out = squashed(sums[row][3][lane] + GATE_OF(gates, 3, n, t, j));",
                 "const REAL cell = forget * cells[row * H + j] + in * next;", "cells[row * H + j] = cell;",
                 "STORE(DTYPE, y, to, out * TANH(cell));", "STORE(DTYPE, y, to + H, cell);"});
  }

  void step_gru() {
    write_lines(
        code_,
        {"const i64 to = ((i64)n * TIMES + t) * H + j;",
         "const REAL reset = squashed(GATE_OF(gates, 0, n, t, j) + sums[row][0][lane] + BIAS_OF(0, j)),",
         "           update = squashed(GATE_OF(gates, 1, n, t, j) + sums[row][1][lane] + BIAS_OF(1, j)),",
         "           mine = sums[row][2][lane] + BIAS_OF(2, j),",
         "           next = TANH(GATE_OF(gates, 2, n, t, j) + reset * mine);",
         "STORE(DTYPE, y, to, next + update * (states[t % 2][row * H + j] - next));"});
  }

  /// `gates`: for lstm with the states' part; for gru as given, and `own` has the states' part.
  void write_gradient() {
    std::vector<Parameter> parameters{{"gates", read()}};
    if (!r_.lstm) parameters.push_back({"own", read()});
    for (const char* name : {"first_state", "y", "dy"}) parameters.push_back({name, read()});
    parameters.push_back({"dx", stored(r_.dtype)});
    parameters.push_back({"packed", "const REAL"});
    open_kernel(code_, "recurrent_grad", parameters, false);
    write_strides();
    code_.line("LOCAL REAL later[ROWS * H];  // by the states after this time");
    code_.line("LOCAL REAL gate_gradients[ROWS * GATES * H];  // of this time");
    if (r_.lstm) code_.line("LOCAL REAL later_cells[ROWS * H];");
    code_.line("const int first_row = GROUP_ID(0) * ROWS;");
    code_.line("for (int row = 0; row < ROWS; ++row)");
    code_.open("  EACH_FEATURE(j)");
    code_.line("later[row * H + j] = 0;");
    if (r_.lstm) code_.line("later_cells[row * H + j] = 0;");
    code_.close();
    code_.line("BARRIER();");
    code_.open("for (int t = TIMES - 1; t >= 0; --t)");
    code_.open("for (int row = 0; row < ROWS; ++row)");
    code_.line("const int n = MIN(first_row + row, BATCH - 1);");
    code_.open("EACH_FEATURE(j)");
    code_.line("REAL values[5];");
    r_.lstm ? lstm_values() : gru_values();
    code_.line("UNROLL for (int which = 0; which < GATES; ++which)");
    code_.line(fmt::format("  gate_gradients[(row * GATES + which) * H + j] = values[{}];",
                           plus("which", r_.lstm ? 0 : 1)));
    code_.line("const i64 to = ((i64)n * TIMES + t) * 5 * H + j;");
    code_.line("if (first_row + row < BATCH)");
    code_.line(
        "  UNROLL for (int which = 0; which < 5; ++which) STORE(DTYPE, dx, to + which * H, values[which]);");
    code_.close();
    code_.close();
    code_.line("BARRIER();");
    code_.open("for (int block = 0; t > 0 && block < BLOCKS; ++block)");
    write_product("gate_gradients");
    open_rows();
    code_.line("for (int lane = 0; lane < WIDTH && first + lane < H; ++lane)");
    code_.line(fmt::format("  later[row * H + first + lane] {} sums[row][0][lane];", r_.lstm ? "=" : "+="));
    code_.close();
    code_.close();
    code_.line("BARRIER();");
    code_.close();
    code_.close();
  }

  void lstm_values() {
    write_lines(
        code_,
        {"const REAL in = squashed(GATE_OF(gates, 0, n, t, j)), forget = squashed(GATE_OF(gates, 1, n, t, "
         "j)),",
         "           next = TANH(GATE_OF(gates, 2, n, t, j)), out = squashed(GATE_OF(gates, 3, n, t, j)),",
         "           cell = TANH(GATE_OF(y, 1, n, t, j)),",
         "           before = t == 0 ? FIRST(first_state, n, j) : GATE_OF(y, 1, n, t - 1, j);",
         "const REAL hidden = GATE_OF(dy, 0, n, t, j) + later[row * H + j];",
         "const REAL from_hidden = hidden * out * (1 - cell * cell);",
         "const REAL state = GATE_OF(dy, 1, n, t, j) + later_cells[row * H + j] + from_hidden;",
         "values[0] = state * next * in * (1 - in);", "values[1] = state * before * forget * (1 - forget);",
         "values[2] = state * in * (1 - next * next);", "values[3] = hidden * cell * out * (1 - out);",
         "values[4] = state * forget;", "later_cells[row * H + j] = values[4];"});
  }

  void gru_values() {
    write_lines(
        code_,
        {"const REAL mine = GATE_OF(own, 2, n, t, j),",
         "           reset = squashed(GATE_OF(gates, 0, n, t, j) + GATE_OF(own, 0, n, t, j)),",
         "           update = squashed(GATE_OF(gates, 1, n, t, j) + GATE_OF(own, 1, n, t, j)),",
         "           next = TANH(GATE_OF(gates, 2, n, t, j) + reset * mine),",
         "           before = t == 0 ? FIRST(first_state, n, j) : GATE_OF(y, 0, n, t - 1, j);",
         "const REAL state = GATE_OF(dy, 0, n, t, j) + later[row * H + j],",
         "           to_next = state * (1 - update) * (1 - next * next);", "values[0] = to_next;",
         "values[1] = to_next * mine * reset * (1 - reset);",
         "values[2] = state * (before - next) * update * (1 - update);", "values[3] = to_next * reset;",
         "values[4] = state * update;", "later[row * H + j] = values[4];"});
  }

  Code code_;
  const Recurrence& r_;
  const RecurrencePoint& point_;
  const std::vector<RecurrenceInput>& inputs_;
};

}  // namespace

std::string recurrence_pack_kernel(const Recurrence& recurrence) {
  Code code;
  open_kernel(code, "recurrent_pack", {{"weight", "const " + stored(recurrence.dtype)}, {"packed", "REAL"}},
              false);
  write_lines(code, {"const i64 at = GLOBAL_ID(0);", "if (at >= COUNT) return;",
                     "const int step = (int)(at / BLOCK % (STEPS * SUMS));",
                     "const int feature = (int)(at / BLOCK / (STEPS * SUMS)) * BLOCK + (int)(at % BLOCK);"});
  const char* place = recurrence.gradient
                          ? "(i64)step * WEIGHT_0 + (i64)feature * WEIGHT_1"
                          : "(i64)(step % SUMS * H + feature) * WEIGHT_0 + (i64)(step / SUMS) * WEIGHT_1";
  code.line(fmt::format("packed[at] = feature < H ? LOAD(DTYPE, weight, {}) : 0;", place));
  code.close();
  return code.text();
}

std::string recurrence_kernel(const Recurrence& recurrence, const RecurrencePoint& point,
                              const std::vector<RecurrenceInput>& inputs) {
  return RecurrenceKernel(recurrence, point, inputs).text();
}

}  // namespace athanor::gpu
