// Random programs: ops with broadcasts, views, products, norms and convolutions, then perhaps gradients and
// updates. The same seed gives the same program everywhere.
#pragma once
#include "tests/compile/random_program.h"

namespace athanor::testing {

class ProgramMaker : private ProgramBuilder {
 public:
  explicit ProgramMaker(uint64_t seed) : ProgramBuilder(seed) {}

  /// A program of 2 to `most_ops` ops, if their values allow it.
  RandomProgram make(int64_t most_ops) {
    for (int64_t i = between(1, 3); i > 0; --i) leaf(shape(static_cast<int>(between(0, 4))));
    const int64_t wanted = between(2, most_ops);
    for (int64_t made = 0, tries = 0; made < wanted && tries < 100; ++tries) try {
        made += op() ? 1 : 0;
      } catch (const Error& error) {  // shapes that do not fit
        if (error.code() != ErrorCode::shape && error.code() != ErrorCode::value) throw;
      }
    program_.outputs = unused();
    program_.has_loss = chance(0.7);
    if (program_.has_loss && chance(0.5)) program_.steps = static_cast<int>(between(1, 3));
    program_.twice = program_.has_loss && program_.steps == 0 && chance(0.3);
    return std::move(program_);
  }

 private:
  bool op() {
    switch (between(0, 15)) {
      case 0:
      case 1:
      case 2:
        return elementwise();
      case 3:
      case 4:
      case 5:
        return of_several();
      case 6:
      case 7:
        return reduction();
      case 8:
      case 9:
        return movement();
      case 10:
      case 11:
        return product();
      case 12:
      case 13:
        return statistics();
      case 14:
        return image();
      default:
        return chance(0.5) ? taken(pick(1, 3)) : attention();
    }
  }

  bool elementwise() {
    const std::pair<const char*, ProgramValue::Compute> all[] = {
        {"exp", [](In t) { return exp(t[0]); }},
        {"tanh", [](In t) { return tanh(t[0]); }},
        {"sin", [](In t) { return sin(t[0]); }},
        {"relu", [](In t) { return relu(t[0]); }},
        {"gelu", [](In t) { return gelu(t[0]); }},
        {"silu", [](In t) { return silu(t[0]); }},
        {"abs", [](In t) { return abs(t[0]); }},
        {"square", [](In t) { return square(t[0]); }},
        {"clamp", [](In t) { return clamp(t[0], -0.8, 0.9); }},
        {"line", [](In t) { return t[0] * 0.75 - 0.5; }},
        {"rsqrt", [](In t) { return rsqrt(square(t[0]) + 0.3); }},
        {"log", [](In t) { return log(square(t[0]) + 0.3); }}};
    const auto& [name, compute] = all[between(0, 11)];
    return add(name, {pick()}, compute);
  }
  bool of_several() {
    const std::pair<const char*, ProgramValue::Compute> all[] = {
        {"add", [](In t) { return t[0] + t[1]; }},
        {"mul", [](In t) { return t[0] * t[1]; }},
        {"sub", [](In t) { return t[1] - t[0]; }},
        {"maximum", [](In t) { return maximum(t[0], t[1]); }},
        {"div", [](In t) { return t[0] / (square(t[1]) + 0.4); }},
        {"where", [](In t) { return where(less(t[0], t[1] * 0.9), t[1] * 0.5, t[0]); }}};
    const auto& [name, compute] = all[between(0, 5)];
    const int a = pick();
    return add(name, {a, partner(a)}, compute);
  }
  bool reduction() {
    const int a = pick(1);
    const Ints axes = some_axes(shape_of(a).rank());
    const bool keeps = chance(0.5);
    const std::pair<const char*, ProgramValue::Compute> all[] = {
        {"sum", [=](In t) { return sum(t[0], axes, keeps) * 0.2; }},
        {"mean", [=](In t) { return mean(t[0], axes, keeps); }},
        {"max", [=](In t) { return max(t[0], axes, keeps); }},
        {"min", [=](In t) { return min(t[0], axes, keeps); }},
        {"var", [=](In t) { return var(t[0], axes, keeps, 0); }},
        {"logsumexp", [=](In t) { return logsumexp(t[0], axes, keeps); }}};
    const auto& [name, compute] = all[between(0, 5)];
    return add(fmt::format("{} of axes {}{}", name, axes, keeps ? " kept" : ""), {a}, compute);
  }
  bool movement() {
    const int a = pick(1), axis = axis_of(a);
    const int64_t way = between(0, 6);
    switch (way) {
      case 5:
        return add(fmt::format("concat axis {}", axis), {a}, [=](In t) {
          return concat({tanh(t[0]), t[0], flip(t[0], {axis})}, axis);
        });
      case 6:
        return add(fmt::format("unsqueeze {}", axis), {a}, [=](In t) { return unsqueeze(t[0], axis); });
      default:
        return moved(a, axis, way);
    }
  }
  bool product() {
    const int a = pick(2, 4);
    const int64_t inner = shape_of(a)[shape_of(a).rank() - 1], rows = shape_of(a)[shape_of(a).rank() - 2],
                  width = extent();
    const double size = 1.5 / std::sqrt(static_cast<double>(inner));
    switch (between(0, 3)) {
      case 0: {
        const int w = leaf({width, inner}, size), b = leaf({width});
        return add("linear", {a, w, b}, [](In t) { return athanor::linear(t[0], t[1], t[2]); });
      }
      case 1:
        return add("matmul", {a, leaf({inner, width}, size)}, [](In t) { return matmul(t[0], t[1]); });
      case 2:
        return add("transposed matmul", {leaf({width, rows}, size), a},
                   [](In t) { return transpose(matmul(t[0], t[1])); });
      default:
        return add("gram", {a}, [=](In t) { return matmul(t[0], transpose(t[0])) * (size * size); });
    }
  }
  bool statistics() {
    const int a = pick(2), axis = axis_of(a);
    const Ints axes = some_axes(shape_of(a).rank());
    const int64_t width = shape_of(a)[shape_of(a).rank() - 1], channels = shape_of(a)[1];
    switch (between(0, 4)) {
      case 0: {
        const int scale = leaf({width}), shift = leaf({width});
        return add("layer_norm", {a, scale, shift},
                   [](In t) { return layer_norm(t[0], 1, t[1], t[2], 0.1); });
      }
      case 1: {
        const int scale = leaf({channels}), shift = leaf({channels});
        return add("batch_norm", {a, scale, shift}, [](In t) { return batch_norm(t[0], t[1], t[2], 0.1); });
      }
      case 2:
        return add(fmt::format("softmax axis {}", axis), {a}, [=](In t) { return softmax(t[0], axis); });
      case 3:
        return add(fmt::format("normalize axes {}", axes), {a},
                   [=](In t) { return normalize(t[0], axes, 0.1); });
      default:
        return add(fmt::format("exp of half without the largest of axes {}", axes), {a},
                   [=](In t) { return exp(t[0] * 0.5 - max(t[0], axes, true)); });
    }
  }
  bool image() {
    const int a = pick(4, 4);
    const int64_t channels = shape_of(a)[1], made = chance(0.5) ? 16 : between(1, 9), side = between(1, 3);
    Conv2dOptions options;
    options.stride = between(1, 2), options.padding = between(0, 1);
    switch (between(0, 3)) {
      case 0:
        return add("max_pool2d", {a}, [](In t) { return max_pool2d(t[0], 2); });
      case 1:
        return add("avg_pool2d", {a}, [](In t) { return avg_pool2d(t[0], 2); });
      default: {
        const double size = 1.5 / std::sqrt(static_cast<double>(channels * side * side));
        const int w = leaf({made, channels, side, side}, size), b = leaf({made});
        return add(fmt::format("conv2d {0}x{0}", side), {a, w, b},
                   [=](In t) { return conv2d(t[0], t[1], t[2], options); });
      }
    }
  }
  bool attention() {
    const int a = pick(3, 4);
    const AttentionOptions options{.causal = chance(0.5)};
    const int keys = leaf(shape_of(a)), of_keys = leaf(shape_of(a));
    return add("attention", {a, keys, of_keys},
               [=](In t) { return scaled_dot_product_attention(t[0], t[1], t[2], {}, options); });
  }
};

}  // namespace athanor::testing
