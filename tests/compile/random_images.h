// Adds ops on images of odd extents and channels to a random program: convolutions, pools, slices.
#pragma once
#include "tests/compile/random_program.h"

namespace athanor::testing {

enum class Numbers : uint8_t {
  whole,   // so small that f16 and bf16 hold them exactly: every plan gives the same bits in every precision
  real,    // with norms, softmax and attention
  smooth,  // without steps and kinks too, so that rounding moves results by little
};

class ImageBuilder : protected ProgramBuilder {
 protected:
  ImageBuilder(uint64_t seed, Numbers numbers) : ProgramBuilder(seed), numbers_(numbers) {
    program_.whole = numbers == Numbers::whole;
  }

  int64_t channels() {
    constexpr int64_t all[] = {1, 3, 5, 7, 2, 4, 8, 16, 17, 32};
    if (large_ > 0 && chance(large_)) return between(1, 5) * (chance(0.7) ? 16 : 13);
    return all[between(0, chance(0.7) ? 7 : 9)];
  }
  Shape image_shape() {
    const int64_t n = empties_ > 0 && chance(empties_) ? 0 : chance(0.5) ? 1 : between(2, 3), c = channels();
    int64_t h = between(1, 9), w = between(1, 9);
    if (chance(0.2)) h = 16, w = chance(0.5) ? 16 : 17;
    if (large_ > 0) h *= between(1, 4), w *= between(1, 4);
    return {n, c, h, w};
  }

  bool convolution() {
    const int a = pick(4, 4);
    const int64_t in = shape_of(a)[1];
    Conv2dOptions options;
    const int64_t kh = between(1, 3), kw = chance(0.7) ? kh : between(1, 5);
    if (chance(0.3)) options.stride = {between(1, 3), between(1, 2)};
    if (chance(0.2)) options.dilation = {between(1, 2), between(1, 3)};
    options.padding = chance(0.5) ? Pair(kh / 2, kw / 2) : Pair(between(0, 2), between(0, 2));
    if (chance(0.25))
      options.groups = chance(0.6) ? std::max<int64_t>(1, in) : in % 2 == 0 ? 2 : in % 3 == 0 ? 3 : 1;
    const int64_t made = options.groups > 1 ? options.groups * between(1, 2) : channels();
    const int64_t summed = in / options.groups * kh * kw;
    const double size = 1.5 / std::sqrt(static_cast<double>(summed));
    const int w = leaf({made, in / options.groups, kh, kw}, size), b = leaf({made});
    const bool with_bias = chance(0.6);
    const std::string text = fmt::format("conv2d {}x{} stride {} padding {} dilation {} groups {}{}", kh, kw,
                                         options.stride.ints(), options.padding.ints(),
                                         options.dilation.ints(), options.groups, with_bias ? " bias" : "");
    if (chance(0.12)) {
      const ConvTranspose2dOptions back{.stride = options.stride, .padding = options.padding};
      return add("transposed " + text, {a, leaf({in, made, kh, kw}, size)},
                 [=](In t) { return conv_transpose2d(t[0], t[1], {}, back); });
    }
    return add(text, {a, w, b},
               [=](In t) { return conv2d(t[0], t[1], with_bias ? t[2] : Tensor(), options); });
  }
  bool pool() {
    const int a = pick(4, 4);
    PoolOptions options;
    const Pair kernel(between(1, 3), between(1, 3));
    if (chance(0.6)) options.stride = Pair(between(1, 2), between(1, 3));
    options.padding = {between(0, kernel.height / 2), between(0, kernel.width / 2)};
    switch (between(0, 3)) {
      case 0:
        return add("avg_pool2d 2x2", {a}, [](In t) { return avg_pool2d(t[0], 2); });
      case 1: {
        const Ints size{between(1, 2) * shape_of(a)[2], between(1, 2) * shape_of(a)[3]};
        return add(fmt::format("interpolate {}", size), {a}, [=](In t) { return interpolate(t[0], size); });
      }
      default:
        if (numbers_ == Numbers::smooth)
          return add("avg_pool2d", {a}, [=](In t) { return avg_pool2d(t[0], kernel, options); });
        return add(fmt::format("max_pool2d {} padding {} stride {}", kernel.ints(), options.padding.ints(),
                               options.stride ? options.stride->ints() : Ints{}),
                   {a}, [=](In t) { return max_pool2d(t[0], kernel, options); });
    }
  }
  bool of_channels() {
    const int a = pick(4, 4);
    const int64_t n = shape_of(a)[1];
    switch (between(0, 4)) {
      case 0: {
        const int scale = leaf({n, 1, 1}), shift = leaf({n, 1, 1});
        return add("line of channels", {a, scale, shift}, [](In t) { return t[0] * t[1] + t[2]; });
      }
      case 1: {
        const int64_t start = between(0, n - 1), stop = between(start + 1, n);
        return add(fmt::format("channels {}:{}", start, stop), {a},
                   [=](In t) { return slice(t[0], 1, start, stop); });
      }
      case 2: {
        const int b = leaf({shape_of(a)[0], channels(), shape_of(a)[2], shape_of(a)[3]});
        return add("concat of channels", {a, b}, [](In t) { return concat({t[0], t[1]}, 1); });
      }
      case 3: {  // as the statistics of a norm
        const int64_t summed = shape_of(a).size() / std::max<int64_t>(1, n);
        const double part = 1 / std::exp2(std::ceil(std::log2(static_cast<double>(summed))));
        return add("less the sum of a channel", {a}, [=](In t) {
          return t[0] - sum(t[0], {0, 2, 3}, true) * part;
        });
      }
      default:
        if (numbers_ == Numbers::smooth) return add("residual", {a}, [](In t) { return silu(t[0]) + t[0]; });
        return add("residual", {a}, [](In t) { return relu(t[0]) + t[0]; });
    }
  }

  Numbers numbers_;
};

}  // namespace athanor::testing
