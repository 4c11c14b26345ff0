// Adds elementwise ops, reductions, order and movements that other random programs leave out.
#pragma once
#include "tests/compile/random_layers.h"

namespace athanor::testing {

class ValueMaker : public LayerMaker {
 public:
  using LayerMaker::LayerMaker;

 protected:
  static Tensor as(const Tensor& x, DType dtype) { return cast(x, dtype); }
  /// Booleans or integers as numbers beside x.
  static Tensor like(const Tensor& x, const Tensor& of) { return cast(x, of.dtype()); }
  static Tensor whole(const Tensor& x) { return cast(x, DType::i32); }

  bool value_of_one() {
    static const std::vector<Choice> all = {
        {"neg", [](In t) { return -t[0]; }, true, true},
        {"round", [](In t) { return round(t[0] * 0.5); }, true, false},
        {"floor", [](In t) { return floor(t[0] * 0.25) + t[0]; }, true, false},
        {"ceil", [](In t) { return ceil(t[0] * 0.25) + t[0]; }, true, false},
        {"trunc", [](In t) { return trunc(t[0] * 0.25) + t[0]; }, true, false},
        {"leaky_relu", [](In t) { return leaky_relu(t[0], 0.25); }, true, false},
        {"mod", [](In t) { return mod(t[0], 3); }, true, false},
        {"remainder", [](In t) { return remainder(t[0], 3); }, true, false},
        {"floor_divide", [](In t) { return floor_divide(t[0], 2); }, true, false},
        {"trunc_divide", [](In t) { return trunc_divide(t[0], -2); }, true, false},
        {"finite", [](In t) { return where(is_finite(t[0]), t[0], 0); }, true, true},
        {"i32", [](In t) { return like(whole(t[0]) * 3 - 1, t[0]); }, true, false},
        {"i64", [](In t) { return like(as(t[0], DType::i64) + 1, t[0]); }, true, false},
        {"i8", [](In t) { return like(as(t[0], DType::i8), t[0]) - t[0] * 0.5; }, true, false},
        {"bits", [](In t) { return like(bit_and(whole(t[0]), 3), t[0]); }, true, false},
        {"is 0", [](In t) { return like(!t[0], t[0]) + t[0]; }, true, false},
        {"of bool", [](In t) { return where(as(t[0], DType::b8), t[0] - 1, 2); }, true, false},
        {"through f16", [](In t) { return like(as(t[0], DType::f16), t[0]) * t[0]; }, true, false},
        {"through bf16", [](In t) { return like(as(t[0], DType::bf16), t[0]) + 1; }, true, false},
        {"through f64", [](In t) { return like(as(t[0], DType::f64) * 2, t[0]); }, true, true},
        {"cos", [](In t) { return cos(t[0]); }, false, true},
        {"sin", [](In t) { return sin(t[0]); }, false, true},
        {"erf", [](In t) { return erf(t[0]); }, false, true},
        {"sqrt", [](In t) { return sqrt(square(t[0]) + 0.5); }, false, true},
        {"log1p", [](In t) { return log1p(square(t[0])); }, false, true},
        {"expm1", [](In t) { return expm1(t[0] * 0.5); }, false, true},
        {"log_sigmoid", [](In t) { return log_sigmoid(t[0]); }, false, true},
        {"softplus", [](In t) { return softplus(t[0]); }, false, true},
        {"elu", [](In t) { return elu(t[0]); }, false, true},
        {"gelu_tanh", [](In t) { return gelu_tanh(t[0]); }, false, true},
        {"hard_swish", [](In t) { return hard_swish(t[0]); }, false, false},
        {"hard_sigmoid", [](In t) { return hard_sigmoid(t[0]); }, false, false},
        {"reciprocal", [](In t) { return reciprocal(square(t[0]) + 1); }, false, true},
        {"cube", [](In t) { return pow(t[0], 3) * 0.2; }, false, true},
        {"pow", [](In t) { return pow(square(t[0]) + 0.5, 1.25); }, false, true}};
    const Choice& one = choose(all);
    if (numbers_ != Numbers::whole && std::string_view(one.name).starts_with("through ")) return false;
    return add(one.name, {pick()}, one.compute);
  }
  bool value_of_several() {
    static const std::vector<Choice> all = {
        {"minimum", [](In t) { return minimum(t[0], t[1]); }, true, false},
        {"lerp", [](In t) { return lerp(t[0], t[1], 0.5); }, true, true},
        {"squared difference", [](In t) { return square(t[0] - t[1]); }, true, true},
        {"mod of", [](In t) { return mod(t[0], abs(detach(t[1])) + 1); }, true, false},
        {"remainder of", [](In t) { return remainder(t[0], abs(detach(t[1])) + 1); }, true, false},
        {"less", [](In t) { return like(less(t[0], t[1]), t[0]) - t[1]; }, true, false},
        {"equal", [](In t) { return where(equal(t[0], t[1]), t[0] * 0.5, t[1]); }, true, false},
        {"xor", [](In t) { return where(logical_xor(t[0], t[1]), 1, t[0] + t[1]); }, true, false},
        {"greater or", [](In t) { return where((t[0] > t[1]) | (t[1] >= 2), t[0], t[1]); }, true, false},
        {"bit_xor", [](In t) { return like(bit_xor(whole(t[0]), whole(t[1])), t[0]); }, true, false},
        {"of integers", [](In t) { return like(whole(t[0]) * whole(t[1]), t[0]) - t[1]; }, true, false},
        {"div of integers", [](In t) { return like(floor_divide(whole(t[0]), whole(t[1])), t[0]); }, true,
         false},
        {"swiglu", [](In t) { return swiglu(t[0], t[1]); }, false, true},
        {"power", [](In t) { return pow(square(t[0]) + 0.5, tanh(t[1])); }, false, true},
        {"quotient", [](In t) { return t[0] / (square(t[1]) + 0.4); }, false, true}};
    const int a = pick();
    const Choice& one = choose(all);
    return add(one.name, {a, partner(a)}, one.compute);
  }
  bool rare_reduction() {
    const int a = pick(1);
    const Ints axes = some_axes(shape_of(a).rank());
    const bool keeps = chance(0.6);
    const auto from = [whole = numbers_ == Numbers::whole](const Tensor& t) { return whole ? detach(t) : t; };
    const std::vector<Choice> all = {
        {"prod", [=](In t) { return prod(t[0], axes, keeps); }, true, true},
        {"min", [=](In t) { return min(from(t[0]), axes, keeps); }, true, false},
        {"norm 1", [=](In t) { return norm(t[0], axes, keeps, 1); }, true, false},
        {"norm inf",
         [=](In t) { return norm(from(t[0]), axes, keeps, std::numeric_limits<double>::infinity()); }, true,
         false},
        {"all", [=](In t) { return like(all_of(t[0], axes, keeps), t[0]); }, true, false},
        {"any", [=](In t) { return like(any(less(t[0], -1), axes, keeps), t[0]); }, true, false},
        {"sum of integers", [=](In t) { return like(sum(whole(t[0]), axes, keeps), t[0]); }, true, false},
        {"max of integers", [=](In t) { return like(max(whole(t[0]), axes, true), t[0]) - t[0]; }, true,
         false},
        {"norm", [=](In t) { return sqrt(sum(square(t[0]), axes, keeps) + 0.1); }, false, true},
        {"stddev", [=](In t) { return stddev(t[0] + 0.1 * sin(t[0]), axes, keeps, 0); }, false, false},
        {"logsumexp", [=](In t) { return logsumexp(t[0], axes, keeps); }, false, true},
        {"moments",
         [=](In t) {
           const Moments m = moments(t[0], axes);
           return (t[0] - m.mean) * rsqrt(m.var + 0.3);
         },
         false, true},
        {"sample var", [=](In t) { return var(t[0], axes, keeps, 1); }, false, true}};
    const Choice& one = choose(all);
    return add(fmt::format("{} of axes {}{}", one.name, axes, keeps ? " kept" : ""), {a}, one.compute);
  }
  static Tensor all_of(const Tensor& x, const Ints& axes, bool keeps) { return athanor::all(x, axes, keeps); }
  bool order() {
    const int a = pick(1), axis = axis_of(a);
    const int64_t n = shape_of(a)[axis], k = between(0, n);
    const bool down = chance(0.5), keeps = chance(0.5);
    const std::vector<Choice> all = {
        {"cumsum", [=](In t) { return cumsum(t[0], axis) * 0.25; }, true, true},
        {"cumsum of integers", [=](In t) { return like(cumsum(whole(t[0]), axis), t[0]); }, true, false},
        {"sort", [=](In t) { return athanor::sort(t[0], axis, down); }, true, false},
        {"argsort", [=](In t) { return like(argsort(t[0], axis, down), t[0]) - t[0]; }, true, false},
        {"argmax", [=](In t) { return like(argmax(t[0], axis, keeps), t[0]); }, true, false},
        {"argmin", [=](In t) { return like(argmin(t[0], axis, keeps), t[0]); }, true, false},
        {"less argmax", [=](In t) { return t[0] - like(argmax(t[0], axis, true), t[0]); }, true, false},
        {"in its order", [=](In t) { return athanor::gather(t[0] * 2, argsort(t[0], axis, down), axis); },
         true, false},
        {"topk", [=](In t) { return topk(t[0], std::max<int64_t>(1, k), axis, down).values; }, true, false},
        {"topk and where",
         [=](In t) {
           const TopK best = topk(t[0], std::max<int64_t>(1, k), axis, down);
           return best.values + like(best.indices, t[0]);
         },
         true, false}};
    const Choice& one = choose(all);
    return add(fmt::format("{} of axis {} of {} {}{}", one.name, axis, k, down ? "down" : "up",
                           keeps ? " kept" : ""),
               {a}, one.compute);
  }
  bool rare_movement() {
    const int a = pick(1), axis = axis_of(a), rank = shape_of(a).rank();
    const int64_t n = shape_of(a)[axis];
    const auto name = [&](const std::string& what) { return fmt::format("{} axis {}", what, axis); };
    switch (between(0, 12)) {
      case 0: {
        const int64_t by = between(-3, 5);
        return add(name(fmt::format("roll {}", by)), {a}, [=](In t) { return roll(t[0], by, axis); });
      }
      case 1: {
        Ints counts;
        for (int i = 0; i < rank; ++i) counts.push_back(chance(0.6) ? 1 : between(1, 3));
        return add(fmt::format("tile {}", counts), {a}, [=](In t) { return tile(t[0], counts); });
      }
      case 2: {
        const int64_t count = between(1, 3);
        return add(name(fmt::format("repeat_interleave {}", count)), {a},
                   [=](In t) { return repeat_interleave(t[0], count, axis); });
      }
      case 3: {
        const Ints axes = some_axes(rank);
        return add(fmt::format("flip {}", axes), {a}, [=](In t) { return flip(t[0], axes); });
      }
      case 4: {
        const int64_t window = between(1, std::min<int64_t>(n, 4)), step = between(1, 3),
                      dilation = between(1, 2);
        return add(name(fmt::format("unfold {} {} {}", window, step, dilation)), {a},
                   [=](In t) { return unfold(t[0], axis, window, step, dilation); });
      }
      case 5: {
        const int64_t window = between(1, std::min<int64_t>(n, 4)), step = between(1, 3),
                      dilation = between(1, 2);
        const double part = numbers_ == Numbers::whole ? 1 : 0.5;
        return add(name(fmt::format("fold of unfold {} {} {}", window, step, dilation)), {a}, [=](In t) {
          return fold(unfold(t[0], axis, window, step, dilation) * part, axis, n, step, dilation);
        });
      }
      case 6:
        return add(name("stack"), {a}, [=](In t) { return stack({t[0] * 0.5, -t[0]}, axis); });
      case 7: {
        const int64_t first = between(0, n);
        return add(name(fmt::format("split {}", first)), {a}, [=](In t) {
          const std::vector<Tensor> parts = split(t[0], {first, n - first}, axis);
          return concat({parts[1] * 2, parts[0]}, axis);
        });
      }
      case 8: {
        const int64_t parts = between(1, 4);
        return add(name(fmt::format("chunks {}", parts)), {a}, [=](In t) {
          const std::vector<Tensor> all = chunk(t[0], parts, axis);
          return sum(all.front(), {axis}, true) - all.back();
        });
      }
      case 9: {
        const int64_t step = between(1, 3);
        return add(name(fmt::format("slice by -{}", step)), {a}, [=](In t) {
          std::vector<Index> at(static_cast<size_t>(axis), Slice());
          at.push_back(Slice(Slice::none, Slice::none, -step));
          at.push_back(Index::ellipsis), at.push_back(Index::new_axis);
          return slice(t[0], at);
        });
      }
      case 10: {
        const int64_t i = between(0, n - 1);
        return add(name(fmt::format("element {}", i)), {a}, [=](In t) {
          std::vector<Index> at(static_cast<size_t>(axis), Slice());
          at.push_back(i);
          return slice(t[0], at);
        });
      }
      case 11: {
        const int64_t k = between(-2, 2);
        const bool upper = chance(0.5);
        return add(fmt::format("tri{} {}", upper ? 'u' : 'l', k), {a},
                   [=](In t) { return upper ? triu(t[0], k) : tril(t[0], k); });
      }
      default: {
        Ints low(static_cast<size_t>(rank)), high = low;
        for (size_t i = 0; i < low.size(); ++i) low[i] = between(0, 2), high[i] = between(0, 1);
        const double value = static_cast<double>(between(-2, 2));
        return add(fmt::format("pad {} {} by {}", low, high, value), {a},
                   [=](In t) { return pad(t[0], low, high, value); });
      }
    }
  }
};

}  // namespace athanor::testing
