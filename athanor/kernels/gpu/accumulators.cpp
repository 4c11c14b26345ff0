// How the accumulators of a reduction are declared and joined.
#include "athanor/kernels/gpu/accumulators.h"

#include <fmt/format.h>

#include <functional>

#include "athanor/kernels/gpu/index_code.h"

namespace athanor::gpu {

DType Accumulators::value_type(const LoopReduction& r) const {
  return is_argmax(r) ? register_types_[static_cast<size_t>(r.source)] : r.type;
}

std::string Accumulators::value_name(const LoopReduction& r) const {
  return std::string(language_name(value_type(r)));
}

int64_t Accumulators::shared_bytes() const {
  size_t bytes = 0;
  for (const LoopReduction& r : reductions_)
    bytes += size_of(value_type(r)) + (is_argmax(r) ? sizeof(int64_t) : 0);
  return static_cast<int64_t>(bytes);
}

std::string Accumulators::neutral(const LoopReduction& r) const {
  return reduction_identity(is_argmax(r) ? LoopReduction{Prim::reduce_max, r.source, value_type(r)} : r);
}

void Accumulators::declare_accumulators(Code& code, int64_t lanes) const {
  for (size_t i = 0; i < reductions(); ++i) {
    const std::string array = lanes == 1 ? "" : fmt::format("[{}]", lanes);
    code.line(fmt::format("{} acc{}{};", value_name(reduction(i)), i, array));
    if (is_argmax(reduction(i))) code.line(fmt::format("i64 at{}{};", i, array));
  }
  unrolled(code, "v", lanes, [&](const std::string& v) {
    const std::string lane = lanes == 1 ? "" : fmt::format("[{}]", v);
    for (size_t i = 0; i < reductions(); ++i) {
      code.line(fmt::format("acc{}{} = {};", i, lane, neutral(reduction(i))));
      // Behind all elements, so that the lowest value is taken from here, too.
      if (is_argmax(reduction(i)))
        code.line(fmt::format("at{}{} = {};", i, lane, literal(INT64_MAX, DType::i64)));
    }
  });
}

void Accumulators::declare_shared(Code& code, int64_t places) const {
  for (size_t i = 0; i < reductions(); ++i) {
    code.line(fmt::format("LOCAL {} shared{}[{}];", value_name(reduction(i)), i, places));
    if (is_argmax(reduction(i))) code.line(fmt::format("LOCAL i64 shared_at{}[{}];", i, places));
  }
}

void Accumulators::declare_results(Code& code, int first, const std::string& lane) const {
  for (size_t i = 0; i < reductions(); ++i)
    code.line(fmt::format("const {} r{} = {}{}{};", language_name(reduction(i).type),
                          first + static_cast<int>(i), is_argmax(reduction(i)) ? "at" : "acc", i, lane));
}

void Accumulators::take_larger(Code& code, const LoopReduction& r, const std::string& acc,
                               const std::string& at, const std::string& value,
                               const std::string& value_at) const {
  const bool nans = is_float(value_type(r));
  const std::string larger = nans ? fmt::format("({0} > {1}) | (({0} != {0}) & ({1} == {1}))", value, acc)
                                  : fmt::format("({} > {})", value, acc);
  const std::string same = nans ? fmt::format("(({0} == {1}) | (({0} != {0}) & ({1} != {1})))", value, acc)
                                : fmt::format("({} == {})", value, acc);
  // Selected, not branched to: lanes are unrolled, and a branch in each takes LLVM twice as long.
  code.open("");
  code.line(fmt::format("const bool taken = {} | ({} & ({} < {}));", larger, same, value_at, at));
  code.line(fmt::format("{0} = taken ? {1} : {0};", acc, value));
  code.line(fmt::format("{0} = taken ? {1} : {0};", at, value_at));
  code.close();
}

void Accumulators::join(Code& code, const std::string& a, const std::string& a_at, const std::string& b,
                        const std::string& b_at) const {
  for (size_t i = 0; i < reductions(); ++i) {
    const LoopReduction& r = reduction(i);
    const std::string to = fmt::format(fmt::runtime(a), i), from = fmt::format(fmt::runtime(b), i);
    if (is_argmax(r))
      take_larger(code, r, to, fmt::format(fmt::runtime(a_at), i), from, fmt::format(fmt::runtime(b_at), i));
    else
      code.line(fmt::format("{} = {};", to, combine(r, to, from)));
  }
}

void Accumulators::join_items(Code& code, const SharedResult& shared, const std::string& lane) const {
  const auto each_lane = [&](const std::function<void(const std::string& place)>& body) {
    unrolled(code, "v", shared.lanes,
             [&](const std::string& v) { body(plus(times(v, shared.places), "mine")); });
  };
  code.line(fmt::format("const int mine = {};", shared.place));
  each_lane([&](const std::string& place) {
    for (size_t i = 0; i < reductions(); ++i) {
      code.line(fmt::format("shared{}[{}] = acc{}{};", i, place, i, lane));
      if (is_argmax(reduction(i))) code.line(fmt::format("shared_at{}[{}] = at{}{};", i, place, i, lane));
    }
  });
  code.open(fmt::format("for (int reach = {}; reach > 0; reach /= 2)", shared.items / 2));
  code.line("BARRIER();");
  code.open(fmt::format("if ({} < reach)", shared.item));
  each_lane([&](const std::string& place) {
    const std::string other = plus(place, times("reach", shared.apart));
    join(code, fmt::format("shared{{0}}[{}]", place), fmt::format("shared_at{{0}}[{}]", place),
         fmt::format("shared{{0}}[{}]", other), fmt::format("shared_at{{0}}[{}]", other));
  });
  code.close();
  code.close();
  const std::string nobody = shared.nobody.empty() ? "" : " || " + shared.nobody;
  code.line(fmt::format("if ({} != 0{}) return;", shared.item, nobody));
  each_lane([&](const std::string& place) {
    for (size_t i = 0; i < reductions(); ++i) {
      code.line(fmt::format("acc{}{} = shared{}[{}];", i, lane, i, place));
      if (is_argmax(reduction(i))) code.line(fmt::format("at{}{} = shared_at{}[{}];", i, lane, i, place));
    }
  });
}

}  // namespace athanor::gpu
