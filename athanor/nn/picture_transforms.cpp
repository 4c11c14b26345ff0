#include "athanor/nn/picture_transforms.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "athanor/ops/creation.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduction.h"
#include "athanor/ops/sampling.h"

namespace athanor::nn::transforms {
namespace {

/// [B] as [B, 1, 1, 1].
Tensor each(const Tensor& values) { return reshape(values, {-1, 1, 1, 1}); }

/// 0 ... extent - 1 along an axis of [1, 1, H, W].
Tensor places(int axis, int64_t extent, Device device) {
  Shape shape{1, 1, 1, 1};
  shape = shape.with(axis, extent);
  return iota(shape, axis, device);
}

Tensor channel(const Tensor& x, int64_t c) { return slice(x, 1, c, c + 1); }

/// The brightness [B, 1, H, W], with torchvision's weights. For images of one channel, that channel.
Tensor brightness_of(const Tensor& x) {
  if (x.size(1) != 3) return channel(x, 0);
  return 0.2989 * channel(x, 0) + 0.587 * channel(x, 1) + 0.114 * channel(x, 2);
}

Tensor cut(const Tensor& x) { return clamp(x, 0, 1); }

/// The sum of each pixel's neighbours along an axis (mirrored at the edges), weighted by `weights`
/// [B, 1, 1, 2 half + 1].
Tensor blur_along(const Tensor& x, int axis, const Tensor& weights, int64_t half) {
  const int64_t extent = x.size(axis);
  Tensor sum;
  for (int64_t k = -half; k <= half; ++k) {
    // The position that i + k is mirrored to: a triangle wave of period 2 (extent - 1).
    const Tensor place = places(axis, extent, x.device()) + k;
    const int64_t period = std::max<int64_t>(1, 2 * (extent - 1));
    const Tensor wave = remainder(place, period);
    const Tensor moved = k == 0 ? x : gather(x, minimum(wave, period - wave), axis);
    const Tensor part = slice(weights, 3, k + half, k + half + 1) * moved;
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

}  // namespace

Tensor flip_where(const Tensor& x, const Tensor& condition, int axis) {
  return where(each(condition), flip(x, {axis}), x);
}

Tensor shift(const Tensor& x, const Tensor& top, const Tensor& left, int64_t reach) {
  const Tensor framed = pad(x, {0, 0, reach, reach}, {0, 0, reach, reach});
  const Tensor rows = each(top) + reach + places(2, x.size(2), x.device());
  const Tensor columns = each(left) + reach + places(3, x.size(3), x.device());
  return gather(gather(framed, rows, 2), columns, 3);
}

// torchvision's _get_inverse_affine_matrix, for positions from -1 to 1 instead of pixels from the middle.
Tensor affine(const Tensor& x, const Affine& how) {
  constexpr double degree = std::numbers::pi / 180;
  const auto height = static_cast<double>(x.size(2)), width = static_cast<double>(x.size(3));
  const Tensor angle = how.angle * degree, tangent = sin(how.shear * degree) / cos(how.shear * degree);
  const Tensor a = cos(angle), c = sin(angle);
  const Tensor b = -(a * tangent + c), d = a - c * tangent;
  const Tensor m0 = d / how.scale, m1 = -b / how.scale, m3 = -c / how.scale, m4 = a / how.scale;
  const Tensor m2 = -(m0 * how.translate[0] + m1 * how.translate[1]);
  const Tensor m5 = -(m3 * how.translate[0] + m4 * how.translate[1]);
  const Tensor theta =
      stack({m0, m1 * (height / width), m2 * (2 / width), m3 * (width / height), m4, m5 * (2 / height)}, 1);
  return grid_sample(x, affine_grid(reshape(theta, {-1, 2, 3}), {x.size(2), x.size(3)}));
}

Tensor adjust_brightness(const Tensor& x, const Tensor& factor) { return cut(x * each(factor)); }

Tensor adjust_contrast(const Tensor& x, const Tensor& factor) {
  const Tensor f = each(factor);
  return cut(f * x + (1 - f) * mean(brightness_of(x), {1, 2, 3}, true));
}

Tensor adjust_saturation(const Tensor& x, const Tensor& factor) {
  if (x.size(1) != 3) return x;
  const Tensor f = each(factor);
  return cut(f * x + (1 - f) * brightness_of(x));
}

// By hue, saturation and value, as Pillow and torchvision compute them.
Tensor adjust_hue(const Tensor& x, const Tensor& shift) {
  if (x.size(1) != 3) return x;
  const Tensor r = channel(x, 0), g = channel(x, 1), b = channel(x, 2);
  const Tensor most = max(x, {1}, true), range = most - min(x, {1}, true);
  const Tensor gray = equal(range, 0), divisor = where(gray, 1.0, range);
  const Tensor rc = (most - r) / divisor, gc = (most - g) / divisor, bc = (most - b) / divisor;
  const Tensor sixths = where(equal(most, r), bc - gc, where(equal(most, g), 2 + rc - bc, 4 + gc - rc));
  const Tensor turned = where(gray, 0.0, sixths / 6) + each(shift);
  const Tensor hue = turned - floor(turned);
  const Tensor saturation = where(gray, 0.0, range / where(equal(most, 0), 1.0, most));
  const Tensor sector = floor(6 * hue), f = 6 * hue - sector;
  const Tensor p = cut(most * (1 - saturation)), q = cut(most * (1 - saturation * f));
  const Tensor t = cut(most * (1 - saturation * (1 - f)));
  const auto pick = [&](const std::vector<Tensor>& by_sector) {
    Tensor result = by_sector[5];
    for (size_t i = 5; i-- > 0;) result = where(equal(sector, static_cast<double>(i)), by_sector[i], result);
    return where(equal(sector, 6), by_sector[0], result);  // a hue that was rounded to 1
  };
  return concat(
      {pick({most, q, p, p, t, most}), pick({t, most, most, q, p, p}), pick({p, p, t, most, most, q})}, 1);
}

Tensor grayscale_where(const Tensor& x, const Tensor& condition) {
  return where(each(condition), brightness_of(x), x);
}

Tensor gaussian_blur(const Tensor& x, const Tensor& sigma, double most_sigma) {
  const auto half = static_cast<int64_t>(std::ceil(2 * most_sigma));
  const Tensor s = each(sigma);
  const Tensor from_middle =
      cast(iota({1, 1, 1, 2 * half + 1}, 3, x.device()), x.dtype()) - static_cast<double>(half);
  const Tensor squared = from_middle * from_middle;
  const Tensor reach = -floor(-2 * s);  // ceil
  const Tensor weights = where(less_equal(squared, reach * reach), exp(-squared / (2 * s * s)), 0.0);
  const Tensor normed = weights / sum(weights, {3}, true);
  return blur_along(blur_along(x, 3, normed, half), 2, normed, half);
}

Tensor erase(const Tensor& x, const Tensor& top, const Tensor& left, const Tensor& height,
             const Tensor& width) {
  const auto inside = [&](int axis, const Tensor& first, const Tensor& count) {
    const Tensor place = places(axis, x.size(axis), x.device());
    return logical_and(less_equal(each(first), place), less(place, each(first + count)));
  };
  return where(logical_and(inside(2, top, height), inside(3, left, width)), 0.0, x);
}

}  // namespace athanor::nn::transforms
