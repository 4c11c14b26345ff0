// Adds ops on signals, images and volumes that other random programs leave out.
#pragma once
#include "tests/compile/random_places.h"

namespace athanor::testing {

class SignalMaker : public PlaceMaker {
 public:
  using PlaceMaker::PlaceMaker;

 protected:
  double weight_size(int64_t summed) { return 1.5 / std::sqrt(static_cast<double>(summed)); }
  bool rare_image() {
    const bool reals = numbers_ != Numbers::whole;
    switch (between(0, reals ? 12 : 9)) {
      case 0: {
        const int a = pick(3, 3);
        const int64_t in = shape_of(a)[1], k = between(1, 5);
        Conv1dOptions o{.stride = between(1, 3), .padding = between(0, 3), .dilation = between(1, 2)};
        if (chance(0.4)) o.groups = chance(0.5) ? std::max<int64_t>(1, in) : in % 2 == 0 ? 2 : 1;
        const int64_t made = o.groups * between(1, 4);
        return add(fmt::format("conv1d {} stride {} padding {} dilation {} groups {}", k, o.stride, o.padding,
                               o.dilation, o.groups),
                   {a, leaf({made, in / o.groups, k}, weight_size(in / o.groups * k)), leaf({made})},
                   [=](In t) { return conv1d(t[0], t[1], t[2], o); });
      }
      case 1: {
        const int64_t in = between(1, 4);
        const int a = chance(0.4) ? pick(5, 5)
                                  : leaf({chance(empties_) ? 0 : between(1, 2), in, between(1, 5),
                                          between(1, 5), between(1, 5)});
        const int64_t channels = shape_of(a)[1];
        const Triple k(between(1, 3), between(1, 3), between(1, 3));
        Conv3dOptions o{.stride = {between(1, 2), between(1, 2), between(1, 3)},
                        .padding = {between(0, 1), between(0, 2), between(0, 1)},
                        .dilation = {1, between(1, 2), 1}};
        if (chance(0.3)) o.groups = std::max<int64_t>(1, channels);
        const int64_t made = o.groups * between(1, 3);
        return add(fmt::format("conv3d {}x{}x{} groups {}", k.depth, k.height, k.width, o.groups),
                   {a, leaf({made, channels / o.groups, k.depth, k.height, k.width},
                            weight_size(channels / o.groups * k.depth * k.height * k.width))},
                   [=](In t) { return conv3d(t[0], t[1], {}, o); });
      }
      case 2: {
        const int a = pick(4, 4);
        const int64_t in = shape_of(a)[1], kh = between(1, 4), kw = between(1, 3);
        ConvTranspose2dOptions o{.stride = {between(1, 3), between(1, 2)},
                                 .padding = {between(0, 2), between(0, 1)}};
        if (chance(0.3)) o.dilation = {between(1, 2), between(1, 3)};
        if (chance(0.4)) o.groups = chance(0.5) ? std::max<int64_t>(1, in) : in % 2 == 0 ? 2 : 1;
        o.output_padding = {between(0, o.stride.height - 1), between(0, o.stride.width - 1)};
        const int64_t each = between(1, 4);
        return add(
            fmt::format("conv_transpose2d {}x{} stride {} padding {} dilation {} groups {} more {}", kh, kw,
                        o.stride.ints(), o.padding.ints(), o.dilation.ints(), o.groups,
                        o.output_padding.ints()),
            {a, leaf({in, each, kh, kw}, weight_size(in / o.groups * kh * kw)), leaf({each * o.groups})},
            [=](In t) { return conv_transpose2d(t[0], t[1], t[2], o); });
      }
      case 3:
      case 4: {  // steps longer than kernels, even and wide kernels, much padding
        const int a = pick(4, 4);
        const int64_t in = shape_of(a)[1], kh = chance(0.5) ? between(1, 2) * 2 : between(1, 7),
                      kw = chance(0.3) ? between(1, 7) : kh;
        Conv2dOptions o{.stride = {between(1, 5), between(1, 4)}, .padding = {between(0, 4), between(0, 4)}};
        if (chance(0.5)) o.stride = 1;
        if (chance(0.3)) o.dilation = {between(1, 3), between(1, 3)};
        if (chance(0.4))
          o.groups = chance(0.7) ? std::max<int64_t>(1, in) : in % 4 == 0 ? 4 : in % 2 == 0 ? 2 : 1;
        const int64_t made = o.groups * between(1, 5);
        return add(fmt::format("wide conv2d {}x{} stride {} padding {} dilation {} groups {}", kh, kw,
                               o.stride.ints(), o.padding.ints(), o.dilation.ints(), o.groups),
                   {a, leaf({made, in / o.groups, kh, kw}, weight_size(in / o.groups * kh * kw))},
                   [=](In t) { return conv2d(t[0], t[1], {}, o); });
      }
      case 5: {
        const int a = pick(4, 4);
        const Pair k(between(1, 3), between(1, 3));
        const UnfoldOptions o{.stride = {between(1, 2), between(1, 3)},
                              .padding = {between(0, 1), between(0, 2)},
                              .dilation = {between(1, 2), 1}};
        return add(fmt::format("unfold2d {}", k.ints()), {a}, [=](In t) { return unfold2d(t[0], k, o); });
      }
      case 6: {
        const int a = pick(4, 4);
        const Pair k(between(1, 3), between(1, 3)), size(shape_of(a)[2], shape_of(a)[3]);
        const UnfoldOptions o{.stride = {between(1, 2), between(1, 3)},
                              .padding = {between(0, 1), between(0, 2)},
                              .dilation = {between(1, 2), 1}};
        const double part = numbers_ == Numbers::whole ? 1 : 0.3;
        return add(fmt::format("fold2d of unfold2d {}", k.ints()), {a},
                   [=](In t) { return fold2d(unfold2d(t[0], k, o) * part, size, k, o); });
      }
      case 7: {
        const int a = pick(4, 4);
        const Ints size{between(1, 9), between(1, 9)};
        const InterpolateOptions o{.mode =
                                       chance(0.5) ? Interpolation::nearest : Interpolation::nearest_exact};
        return add(
            fmt::format("interpolate {} nearest{}", size, o.mode == Interpolation::nearest ? "" : "_exact"),
            {a}, [=](In t) { return interpolate(t[0], size, o); });
      }
      case 8: {
        const int a = pick(4, 4);
        const Pair size(between(1, 6), between(1, 6));
        if (numbers_ == Numbers::smooth)
          return add("adaptive_avg_pool2d", {a}, [=](In t) { return adaptive_avg_pool2d(t[0], size); });
        return add(fmt::format("adaptive_max_pool2d {}", size.ints()), {a},
                   [=](In t) { return adaptive_max_pool2d(t[0], size); });
      }
      case 9: {
        const int a = pick(4, 4);
        PoolOptions o{.count_include_pad = !reals || chance(0.5)};
        const Pair k = reals ? Pair(between(1, 4), between(1, 4)) : Pair(between(1, 2) * 2, 2);
        o.stride = Pair(between(1, 4), between(1, 3)),
        o.padding = {between(0, k.height / 2), between(0, k.width / 2)};
        return add(
            fmt::format("avg_pool2d {} stride {} padding {}", k.ints(), o.stride->ints(), o.padding.ints()),
            {a}, [=](In t) { return avg_pool2d(t[0], k, o); });
      }
      case 10: {
        const int a = pick(3, 5);
        Ints size;
        for (int i = 2; i < shape_of(a).rank(); ++i) size.push_back(between(1, 9));
        InterpolateOptions o{.mode = chance(0.5) ? Interpolation::linear : Interpolation::cubic};
        if (chance(0.5)) (chance(0.5) ? o.align_corners : o.antialias) = true;
        return add(
            fmt::format("interpolate {} {} corners {} antialias {}", size,
                        o.mode == Interpolation::linear ? "linear" : "cubic", o.align_corners, o.antialias),
            {a}, [=](In t) { return interpolate(t[0], size, o); });
      }
      case 11: {
        const int a = pick(4, 4);
        const int64_t n = shape_of(a)[0];
        const Pair size(between(1, 6), between(1, 6));
        GridSampleOptions o{.border = static_cast<Border>(between(0, 2)), .align_corners = chance(0.5)};
        if (numbers_ == Numbers::smooth) return false;
        return add("grid_sample", {a, leaf({n, 2, 3}, 0.8)}, [=](In t) {
          return grid_sample(t[0], cast(affine_grid(t[1], size, o.align_corners), t[0].dtype()), o);
        });
      }
      default: {
        const int a = pick(4, 4);
        const int64_t boxes = between(1, 3), n = shape_of(a)[0];
        std::vector<double> numbers;
        for (int64_t b = 0; b < boxes; ++b) {
          numbers.push_back(static_cast<double>(between(0, n - 1)));
          const double x = 0.25 * static_cast<double>(between(0, 8)) + 0.1,
                       y = 0.25 * static_cast<double>(between(0, 8)) + 0.1;
          numbers.insert(numbers.end(), {x, y, x + 0.3 * static_cast<double>(between(1, 9)),
                                         y + 0.3 * static_cast<double>(between(1, 9))});
        }
        if (numbers_ == Numbers::smooth) return false;
        const Pair out(between(1, 3), between(1, 3));
        return add(fmt::format("roi_align {}", numbers), {a}, [=](In t) {
          return roi_align(
              t[0], Tensor::from(from_doubles(t[0].dtype(), Shape{boxes, 5}, numbers), t[0].device()), out);
        });
      }
    }
  }
};

}  // namespace athanor::testing
