// What attention's kernels without matrix units have in common: operands, masks, and which rows see others.
#include "athanor/kernels/gpu/templates/attention_kernel.h"

#include <fmt/format.h>

#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

std::string AttentionKernel::call(const char* function, const std::string& x) const {
  return fmt::format("{}_{}({})", function, number(), x);
}

std::string AttentionKernel::real(double value) const {
  return literal(value, p_.dtype == DType::f64 ? DType::f64 : DType::f32);
}

std::string AttentionKernel::times_real(double value) const { return value == 1 ? "" : " * " + real(value); }

/// "LOAD(f32, q, batch % 8 * (i64)12800 + row * (i64)64 + feature)"
std::string AttentionKernel::element(const Matrix& matrix, const std::string& row,
                                     const std::string& feature) const {
  // The start is not a variable of its own: LLVM would then add the terms of each element in another order,
  // and take more instructions.
  std::string at = matrix.start;
  for (const auto& [index, stride] : {std::pair{row, matrix.row}, std::pair{feature, matrix.feature}})
    if (stride != 0) at += " + " + (stride == 1 ? index : fmt::format("{} * (i64){}", index, stride));
  if (!computes(matrix)) return fmt::format("LOAD({}, {}, {})", language_name(p_.dtype), matrix.name, at);
  return p_.computed->elements.call(
      fmt::format("LOAD({}, {}, {})", language_name(p_.computed->dtype), matrix.name, at), at, row, feature);
}

std::string AttentionKernel::functions() const {
  return (point_.pairs() ? multiply_add_text(*point_.dot) : std::string()) +
         (p_.computed ? p_.computed->elements.function() : std::string()) + p_.out.epilogue.function();
}

std::string AttentionKernel::own_row(const std::string& row) const {
  return fmt::format("MIN({}, {})", row, p_.own() - 1);
}

std::string AttentionKernel::other_row(const std::string& row) const {
  return fmt::format("MIN({}, {})", row, p_.other() - 1);
}

std::string AttentionKernel::masked(const std::string& score, const std::string& own,
                                    const std::string& other) const {
  if (p_.mask.name.empty()) return score;
  return fmt::format("{} + {}", score,
                     p_.by_keys() ? element(p_.mask, other, own) : element(p_.mask, own, other));
}

std::string AttentionKernel::compared(const std::string& own, const char* comparison,
                                      const std::string& other) const {
  const std::string &query = p_.by_keys() ? other : own, &key = p_.by_keys() ? own : other;
  return fmt::format("{} {} {}", key, comparison, plus(query, p_.keys - p_.queries));
}

/// Which own rows a group has, of `chunks`. Causal: the groups with most work begin first.
std::string AttentionKernel::chunk(int64_t chunks) const {
  const std::string in_order = fmt::format("(int)(GROUP_ID(0) % {})", chunks);
  return p_.causal && !p_.by_keys() ? fmt::format("({} - {})", chunks - 1, in_order) : in_order;
}

/// Where the first block of other rows begins that see own rows from `first` on, or that these see.
std::string AttentionKernel::first_block(const std::string& first) const {
  if (!p_.causal || !p_.by_keys()) return "0";
  return fmt::format("MAX(0, {}) / {} * {}", plus(first, p_.queries - p_.keys), point_.block, point_.block);
}

/// The loop over the blocks of which `count` own rows from `first` on see any, or are seen.
std::string AttentionKernel::loop_over_blocks(const std::string& first, int64_t count) const {
  const std::string end = p_.causal && !p_.by_keys() ? fmt::format("MIN({}, {})", p_.other(),
                                                                   plus(first, count + p_.keys - p_.queries))
                                                     : std::to_string(p_.other());
  return fmt::format("for (int begin = {}; begin < {}; begin += {})", first_block(first), end, point_.block);
}

/// A number of query `row`, which counts through all batches.
std::string AttentionKernel::query_number(const AttentionProblem::Numbers& numbers, const char* name) const {
  return fmt::format("LOAD({}, {}, {})", language_name(numbers.dtype), name, numbers.index);
}

void AttentionKernel::begin(const char* name, const std::string& comment) {
  code_.line("// " + comment);
  code_.open(fmt::format("KERNEL void {}({})", name, p_.parameters));
  code_.line(p_.binds);
}

/// Numbers of a block's queries, in local memory.
void AttentionKernel::declare_number_arrays() {
  if (!p_.by_keys()) return;
  code_.line(fmt::format("LOCAL {} other_lse[{}];", number(), point_.block));
  if (p_.has_second()) code_.line(fmt::format("LOCAL {} other_delta[{}];", number(), point_.block));
}

void AttentionKernel::load_other_numbers() {
  if (!p_.by_keys()) return;
  code_.open(fmt::format("for (int i = item; i < {}; i += {})", point_.block, point_.items));
  code_.line(fmt::format("const i64 row = batch * {} + {};", p_.queries, other_row("begin + i")));
  code_.line(fmt::format("other_lse[i] = {};", query_number(p_.lse, "lse")));
  if (p_.has_second()) code_.line(fmt::format("other_delta[i] = {};", query_number(p_.delta, "delta")));
  code_.close();
}

/// Queries' numbers lie one after another.
void AttentionKernel::store_lse(const std::string& row, const std::string& largest,
                                const std::string& total) {
  code_.line(fmt::format("STORE({}, {}, batch * {} + {}, {} + {});", language_name(p_.lse.dtype),
                         only_lse() ? "out" : "out_2", p_.own(), row, largest, call("log", total)));
}

}  // namespace athanor::gpu
