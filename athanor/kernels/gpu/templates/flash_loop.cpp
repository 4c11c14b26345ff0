// The loop of attention by matrix units over blocks of the other rows.
#include <fmt/format.h>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/flash_kernel.h"

namespace athanor::gpu {

/// Loads the queries' numbers of a block, one by each item. Those beyond the block are never read.
void FlashKernel::load_numbers(const std::string& begin) {
  code_.open("");
  code_.line(
      fmt::format("const i64 row = batch * {} + MIN({} + item, {});", p_.queries, begin, p_.queries - 1));
  code_.line(fmt::format("held_lse = LOAD({}, lse, {});", language_name(p_.lse.dtype), p_.lse.index));
  code_.line(fmt::format("held_delta = LOAD({}, delta, {});", language_name(p_.delta.dtype), p_.delta.index));
  code_.close();
}

/// Only here is the log-sum-exp multiplied: right behind its load, the wave would wait for it.
void FlashKernel::store_numbers(const std::string& at) {
  const std::string lse = plus(at, "item");
  code_.line(fmt::format("numbers[{}] = held_lse{}, numbers[{}] = held_delta;", lse, times_f32(of_lse()),
                         plus(lse, point_.items())));
}

/// Fetches the block that begins at other row `next`: a whole block or, at the end, the remaining rows and
/// zeros.
void FlashKernel::fetch(const std::string& next, const std::string& at) {
  const auto one = [&](const std::string& left) {
    each_stream([&](const FlashBlock& block, int64_t from) {
      if (point_.async)
        block.copy(code_, plus(at, from), left);
      else
        block.load(code_, left);
    });
  };
  if (p_.other() % point_.block == 0) {
    one("");
  } else {
    code_.open(fmt::format("if ({} + {} <= {})", next, point_.block, p_.other()));
    one("");
    code_.close();
    code_.open("else");
    code_.line(fmt::format("const int left = {} - {};", p_.other(), next));
    one("left");
    code_.close();
  }
  each_stream([&](const FlashBlock& block, int64_t) { block.advance(code_); });
  if (by_keys()) load_numbers(next);
}

/// Causal: a query sees keys up to its own position, counted from the end.
std::string FlashKernel::first_seeing(const std::string& first) const {
  const int64_t shift = p_.keys - p_.queries, block = point_.block;
  if (!p_.causal) return "0";
  const std::string seeing = shift > 0 ? fmt::format("MAX(0, {} - {})", first, shift) : plus(first, -shift);
  return times(divided(shift < 0 ? "(" + seeing + ")" : seeing, block), block);
}

void FlashKernel::loop() {
  const int64_t block = point_.block;
  std::string end = std::to_string(p_.other());
  if (p_.causal && !by_keys())
    end = fmt::format("MIN({}, first + {})", p_.other(), point_.rows() + p_.keys - p_.queries);
  // The loop's end is hidden: the compiler would dissolve a loop of one block, and mix what its barriers keep
  // apart.
  code_.line(fmt::format("const int other_begin = {};", by_keys() ? first_seeing("first") : "0"));
  code_.line(fmt::format("int other_end = {};", end));
  code_.line("HIDDEN(other_end);");
  each_stream([&](const FlashBlock& one, int64_t) { one.declare(code_, "other_begin"); });
  if (!point_.async) each_stream([&](const FlashBlock& one, int64_t) { one.declare_held(code_); });

  const std::string base = std::to_string(streams_begin());
  const auto store = [&] {
    each_stream(
        [&](const FlashBlock& one, int64_t at) { one.store(code_, std::to_string(streams_begin() + at)); });
    if (by_keys()) store_numbers("0");
  };
  code_.open("if (other_begin < other_end)");
  fetch("other_begin", base);
  if (!point_.async) store();
  if (point_.async && by_keys()) store_numbers("0");
  code_.close();
  if (point_.async) {
    code_.line("ASYNC_COMMIT();");
    code_.line("int stage = 0;");
  } else {
    code_.line("LOCAL_BARRIER();");
  }
  // There is no branch between a block's arithmetic and the loop's end: compilers would move the last
  // products there, and keep all their operands in registers until then.
  code_.line("_Pragma(\"unroll 1\")");
  code_.open(fmt::format("for (int begin = other_begin; begin < other_end; begin += {})", block));
  code_.line(fmt::format("const int next = begin + {};", block));
  if (point_.async) {
    code_.line("ASYNC_WAIT(0);");
    if (by_four()) code_.line("LOCAL_MATRICES_WRITTEN();");
    code_.line("LOCAL_BARRIER();");
    code_.line(fmt::format("const int at = {} + stage * {};", streams_begin(), stage_elements()));
    if (by_four()) start_block("at");
    code_.open("if (next < other_end)");
    fetch("next", fmt::format("{} + (1 - stage) * {}", streams_begin(), stage_elements()));
    code_.close();
    code_.line("ASYNC_COMMIT();");
    compute("at", fmt::format("stage * {}", 2 * point_.items()));
    if (by_keys()) store_numbers(fmt::format("(1 - stage) * {}", 2 * point_.items()));
    code_.line("stage = 1 - stage;");
  } else {
    code_.open("if (next < other_end)");
    fetch("next", "");
    code_.close();
    code_.line("SCHEDULE_FENCE();");
    compute(base, "0");
    code_.line("SCHEDULE_FENCE();");
    code_.line("LOCAL_BARRIER();");
    store();  // after the last block, values that are never read
    code_.line("LOCAL_BARRIER();");
  }
  code_.close();
}

void FlashKernel::compute(const std::string& at, const std::string& numbers) {
  if (by_four()) return compute_by_four(at, numbers);
  const std::string at_2 = plus(at, other_1_.elements());
  zeros("scores", point_.tiles, score_tiles());
  product("scores", own_1_, "own_1", 0, other_1_, at);
  limit();
  if (softmax())
    weigh_by_softmax();
  else
    weigh_by_lse(numbers);
  if (sums_by_second()) sum_others("sums_2", "scores", *other_2_, at_2);
  if (!p_.has_second()) return;
  zeros("products", point_.tiles, score_tiles());
  product("products", *own_2_, "own_2", own_1_.elements(), *other_2_, at_2);
  score_gradients(numbers);
  if (of_all()) {
    put_weights();
    load_added();
  }
  sum_others("sums_1", "products", other_1_, at);
  if (of_all()) sum_queries();
}

}  // namespace athanor::gpu
