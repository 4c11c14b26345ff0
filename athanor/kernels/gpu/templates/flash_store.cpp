// The end of attention's kernels: results go to memory.
#include <fmt/format.h>

#include <algorithm>
#include <numbers>
#include <utility>

#include "athanor/kernels/gpu/result_vectors.h"
#include "athanor/kernels/gpu/templates/flash_kernel.h"
#include "athanor/kernels/gpu/templates/lane_exchange.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

/// Each lane has summed some of a row's weights: now it gets the sum of all.
void FlashKernel::finish_rows() {
  each_tile("i", point_.tiles, [&] {
    for (int s = 0; s < slots(); ++s)
      for (size_t bit = 0; (1 << bit) < u_.unit->wave; ++bit)
        if (u_.unit->c.lane[bit].*u_.other() != 0)
          code_.line(fmt::format(
              "total[i][{0}] += F32_OF_BITS(SHUFFLE_XOR(BITS_OF_F32(total[i][{0}]), {1}));", s, 1 << bit));
  });
}

void FlashKernel::store_lse(const char* out) {
  // The largest score is still without the scale, unless it is an exponent of 2 or has a mask.
  const double of_largest = !scaled_first() ? p_.scale : masked() ? 1 : std::numbers::ln2;
  each_tile("i", point_.tiles, [&] {
    for (int s = 0; s < slots(); ++s) {
      code_.open(fmt::format("if (other_lane == 0 && {} < {})", own_row("i", s), p_.own()));
      code_.line(fmt::format("STORE(f32, {}, batch * {} + {}, largest[i][{}]{} + log_f32(total[i][{}]));",
                             out, p_.own(), own_row("i", s), s, times_f32(of_largest), s));
      code_.close();
    }
  });
}

/// The factor of results before they go to memory, as an expression. Declares what it uses.
std::string FlashKernel::result_scale(const std::string& sums, int slot) {
  if (!softmax()) return sums == "sums_1" ? fmt::format(" * {:.9e}f", p_.scale) : "";
  code_.line(fmt::format("const f32 share = 1.0f / total[i][{}];", slot));
  return " * share";
}

/// Names the buffers that a result is stored to, where a row begins.
static std::string row_name(size_t number) { return number == 0 ? "row" : fmt::format("row_{}", number); }

/// Declares where own row `own` of a result begins.
void FlashKernel::declare_row(const Result& out, const std::string& own) {
  std::string at = fmt::format("({}) + ({}) * (i64){}", out.start, own, out.row);
  if (!out.epilogue.empty()) {
    code_.line(fmt::format("const int own_at = {};", own));
    code_.line(fmt::format("const i64 row_at = {};", std::exchange(at, "row_at")));
  }
  for (size_t k = 0; k < out.stored.size(); ++k)
    code_.line(fmt::format("GLOBAL {} *const {} = {} + {};", out.stored[k].buffer.type, row_name(k),
                           out.stored[k].buffer.name, at));
}

/// What elements from `feature` on become, as expressions: of each result that is stored.
std::vector<FlashKernel::Texts> FlashKernel::finish(const Result& out, const std::string& feature,
                                                    const Texts& values) {
  if (out.epilogue.empty()) return {values};
  const bool further = out.epilogue.has_further_results();
  declare_vectors(code_, vectors_, "run");
  read_vectors(code_, out.epilogue, vectors_, "run", "row_at + " + feature, "own_at", feature);
  std::vector<Texts> results(out.stored.size());
  for (int64_t r = 0; r < std::ssize(values); ++r) {
    code_.line(fmt::format("const {} done{} = {};", further ? "Finished" : "f32", r,
                           out.epilogue.call(values[static_cast<size_t>(r)], plus("row_at + " + feature, r),
                                             "own_at", plus(feature, r), elements_of(vectors_, "run", r))));
    for (size_t k = 0; k < results.size(); ++k)
      results[k].push_back(further ? fmt::format("done{}.result{}", r, k) : fmt::format("done{}", r));
  }
  return results;
}

/// Stores neighbouring elements of one of the results.
void FlashKernel::store_run(const Result& out, size_t number, const std::string& feature,
                            const Texts& values) {
  const Result::Stored& to = out.stored[number];
  const std::string type(language_name(to.dtype)),
      row = row_name(number), together = number == 0 ? "together" : fmt::format("together_{}", number);
  const int64_t run = std::ssize(values);
  if (run == 1) return code_.line(fmt::format("STORE({}, {}, {}, {});", type, row, feature, values[0]));
  const int64_t registers = run * static_cast<int64_t>(size_of(to.dtype)) / 4;
  code_.line(fmt::format("{} {};", registers == 1 ? "u32" : fmt::format("u32x{}", registers), together));
  for (int64_t r = 0; r < registers; ++r) {
    const auto first = static_cast<size_t>(r * run / registers);
    code_.line(fmt::format("{}{} = {};", together, registers == 1 ? "" : fmt::format("[{}]", r),
                           size_of(to.dtype) == 4
                               ? fmt::format("BITS_OF_F32({})", values[first])
                               : fmt::format("PACKED({}, {}, {})", type, values[first], values[first + 1])));
  }
  code_.line(fmt::format("WRITE_GLOBAL({}, {} + {}, {});", registers, row, feature, together));
}

/// Stores runs of 8 or 4 features: lanes exchange pairs of elements of several of the unit's tiles, after
/// they have finished them. Elements of 4 bytes are stored in pairs.
void FlashKernel::store_exchanged(const Result& out, const std::string& sums, int64_t features,
                                  int64_t pairs) {
  const bool finishes = !out.epilogue.empty();
  const std::string wide = lane_part(behind_exchange(u_.unit->c, pairs), u_.other());
  std::vector<size_t> exchanged;
  for (size_t k = 0; k < out.stored.size(); ++k)
    if (size_of(out.stored[k].dtype) == 2) exchanged.push_back(k);
  const auto together = [](size_t k) { return k == 0 ? "together" : fmt::format("together_{}", k); };
  if (finishes) vectors_ = out.epilogue.vectors(2);
  each_tile("i", point_.tiles, [&] {
    for (int s = 0; s < slots(); ++s) {
      const std::string own = own_row("i", s), inside = fmt::format("if ({} < {})", own, p_.own());
      code_.open("");
      const std::string scale = result_scale(sums, s);
      declare_row(out, own);
      for (int64_t f = 0; f < features / u_.tile(); f += pairs) {
        code_.open("");
        for (const size_t k : exchanged)
          code_.line(fmt::format("u32x{0} {1}{2};", pairs, together(k),
                                 finishes ? fmt::format(" = (u32x{})(0)", pairs) : ""));
        if (finishes) code_.open(inside);
        for (int64_t p = 0; p < pairs; ++p) {
          const auto value = [&](int e) {
            return fmt::format("{}[i][{}][{}]{}", sums, f + p, 2 * s + e, scale);
          };
          if (finishes) {
            code_.open("");
            code_.line(fmt::format("const int feature = {};",
                                   plus("other_lane", (f + p) * u_.tile() + other_of(2 * s))));
          }
          const std::vector<Texts> results = finish(out, "feature", {value(0), value(1)});
          for (size_t k = 0; k < results.size(); ++k) {
            if (size_of(out.stored[k].dtype) == 4) {
              store_run(out, k, "feature", results[k]);
              continue;
            }
            code_.line(fmt::format("{}[{}] = PACKED({}, {}, {});", together(k), p,
                                   language_name(out.stored[k].dtype), results[k][0], results[k][1]));
          }
          if (finishes) code_.close();
        }
        if (finishes) code_.close();
        for (const size_t k : exchanged) exchange_pairs(code_, together(k), pairs, 1);
        for (const size_t k : exchanged)
          code_.line(fmt::format("{} WRITE_EXCHANGED({}, {} + {}, {});", inside, pairs, row_name(k),
                                 plus(wide, f * u_.tile()), together(k)));
        code_.close();
      }
      code_.close();
    }
  });
}

/// Stores [own row][feature]; a row's features lie together.
void FlashKernel::store(const Result& out, const std::string& sums, int64_t features, int64_t padded) {
  int64_t vector = 16, smallest = 4;  // of all that is stored
  bool pairs_of_f32 = true;
  for (const Result::Stored& to : out.stored) {
    const auto size = static_cast<int64_t>(size_of(to.dtype));
    vector = std::min(vector, to.vector);
    smallest = std::min(smallest, size);
    pairs_of_f32 &= size == 2 || to.vector % 2 == 0;
  }
  const auto begin_together = [&](int64_t run) {
    return std::ranges::all_of(
        out.stored, [&](const Result::Stored& to) { return size_of(to.dtype) == 4 || to.vector % run == 0; });
  };
  bool done = false;
  for (const int64_t pairs : {4, 2})
    if (!done && u_.mma() && smallest == 2 && pairs_of_f32 && features % (8 * pairs) == 0 &&
        begin_together(2 * pairs)) {
      store_exchanged(out, sums, features, pairs);
      done = true;
    }
  if (!done) store_runs(out, sums, features, padded, vector);
  functions_ += out.epilogue.function(vectors_);
}

/// The same without exchanges, in runs of a lane's neighbouring features.
void FlashKernel::store_runs(const Result& out, const std::string& sums, int64_t features, int64_t padded,
                             int64_t vector) {
  // How many features a lane has one after another.
  int64_t run = 1;
  while (run < 8 && run < elements() && slot_of(static_cast<int>(run)) == 0 &&
         other_of(static_cast<int>(run)) == run && features % (2 * run) == 0 && vector % (2 * run) == 0)
    run *= 2;
  if (!out.epilogue.empty()) vectors_ = run > 1 ? out.epilogue.vectors(run) : decltype(vectors_){};
  each_tile("i", point_.tiles, [&] {
    for (int s = 0; s < slots(); ++s) {
      const std::string own = own_row("i", s);
      code_.open(fmt::format("if ({} < {})", own, p_.own()));
      declare_row(out, own);
      const std::string scale = result_scale(sums, s);
      each_tile("f", padded / u_.tile(), [&] {
        for (int e = 0; e < elements(); e += static_cast<int>(run)) {
          if (slot_of(e) != s) continue;
          code_.open("");
          code_.line(fmt::format("const int feature = {};",
                                 plus(fmt::format("other_lane + f * {}", u_.tile()), other_of(e))));
          if (features < padded) code_.open(fmt::format("if (feature < {})", features));
          Texts values;
          for (int64_t r = 0; r < run; ++r)
            values.push_back(fmt::format("{}[i][f][{}]{}", sums, e + r, scale));
          const std::vector<Texts> results = finish(out, "feature", values);
          for (size_t k = 0; k < results.size(); ++k) store_run(out, k, "feature", results[k]);
          if (features < padded) code_.close();
          code_.close();
        }
      });
      code_.close();
    }
  });
}

}  // namespace athanor::gpu
