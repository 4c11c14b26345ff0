#include "athanor/train/device_augmentation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/data/random_stream.h"
#include "athanor/nn/picture_transforms.h"
#include "athanor/ops/creation.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/random.h"

namespace athanor {
namespace {

namespace tf = nn::transforms;
using Values = std::vector<double>;

/// Random draws, one for each image of a batch.
struct Draws {
  int64_t count;
  Device device;
  Tensor between(double low, double high) const {
    return low < high ? uniform({count}, low, high, DType::f32, default_generator(), device)
                      : full({count}, low, DType::f32, device);
  }
  Tensor chance(double p) const { return bernoulli({count}, p, default_generator(), device); }
  /// From -most to most.
  Tensor whole(int64_t most) const {
    return random_integers({count}, -most, most + 1, default_generator(), device);
  }
};

using Apply = Tensor (*)(const Tensor& x, const Values& values, const Draws& draws);

Tensor crop(const Tensor& x, const Values& values, const Draws& draws) {
  const int64_t reach =
      values[0] == 0 ? std::max(x.size(2), x.size(3)) / 8 : static_cast<int64_t>(values[0]);  // as the loader
  return tf::shift(x, draws.whole(reach), draws.whole(reach), reach);
}

Tensor mirror(const Tensor& x, const Values& values, const Draws& draws) {
  return tf::flip_where(x, draws.chance(values[0]), 3);
}

Tensor turn_over(const Tensor& x, const Values& values, const Draws& draws) {
  return tf::flip_where(x, draws.chance(values[0]), 2);
}

Tensor turn(const Tensor& x, const Values& values, const Draws& draws) {
  const Tensor none = full({draws.count}, 0, DType::f32, draws.device);
  return tf::affine(x, {.angle = draws.between(-values[0], values[0]),
                        .translate = {none, none},
                        .scale = none + 1,
                        .shear = none});
}

Tensor map(const Tensor& x, const Values& values, const Draws& draws) {
  const double across = values[1] * static_cast<double>(x.size(3)),
               down = values[1] * static_cast<double>(x.size(2));
  return tf::affine(x,
                    {.angle = draws.between(-values[0], values[0]),
                     .translate = {round(draws.between(-across, across)), round(draws.between(-down, down))},
                     .scale = draws.between(1 - values[2], 1 + values[2]),
                     .shear = draws.between(-values[3], values[3])});
}

Tensor jitter(const Tensor& x, const Values& values, const Draws& draws) {
  const auto factor = [&](double reach) { return draws.between(std::max(0.0, 1 - reach), 1 + reach); };
  Tensor result = x;
  if (values[0] > 0) result = tf::adjust_brightness(result, factor(values[0]));
  if (values[1] > 0) result = tf::adjust_contrast(result, factor(values[1]));
  if (values[2] > 0) result = tf::adjust_saturation(result, factor(values[2]));
  if (values[3] > 0) result = tf::adjust_hue(result, draws.between(-values[3], values[3]));
  return result;
}

Tensor lose_color(const Tensor& x, const Values& values, const Draws& draws) {
  return tf::grayscale_where(x, draws.chance(values[0]));
}

Tensor blur(const Tensor& x, const Values& values, const Draws& draws) {
  const Tensor blurred = tf::gaussian_blur(x, draws.between(0.1, values[1]), values[1]);
  return where(reshape(draws.chance(values[0]), {-1, 1, 1, 1}), blurred, x);
}

// As torchvision's RandomErasing; the few rectangles that do not fit are left out.
Tensor erase(const Tensor& x, const Values& values, const Draws& draws) {
  const auto rows = static_cast<double>(x.size(2)), columns = static_cast<double>(x.size(3));
  const Tensor area = draws.between(0.02, 0.33) * (rows * columns);
  const Tensor ratio = exp(draws.between(std::log(0.3), std::log(3.3)));
  const Tensor height = round(sqrt(area * ratio)), width = round(sqrt(area / ratio));
  const Tensor fits = logical_and(less(height, rows), less(width, columns));
  const Tensor wanted = logical_and(draws.chance(values[0]), fits);
  const Tensor top = floor(draws.between(0, 1) * (rows - height + 1));
  const Tensor left = floor(draws.between(0, 1) * (columns - width + 1));
  return tf::erase(x, top, left, where(wanted, height, 0.0), width);
}

struct Kind {
  std::string_view name;
  Apply apply;
};
constexpr std::array<Kind, 9> kinds{{{"crop", crop},
                                     {"flip", mirror},
                                     {"vflip", turn_over},
                                     {"rotate", turn},
                                     {"affine", map},
                                     {"jitter", jitter},
                                     {"grayscale", lose_color},
                                     {"blur", blur},
                                     {"erase", erase}}};

bool mixes_images(const Augmentation::Step& step) {
  const std::string_view name = augmentation_kinds()[step.kind].name;
  return name == "mixup" || name == "cutmix";
}

Apply find_on_device(const Augmentation::Step& step) {
  const auto found = std::ranges::find(kinds, augmentation_kinds()[step.kind].name, &Kind::name);
  return found == kinds.end() ? nullptr : found->apply;
}

}  // namespace

DeviceAugmentation::DeviceAugmentation(const Augmentation& augmentation) : augmentation_(augmentation) {
  const auto refuse = [](const std::string& problem, const std::string& hint) {
    throw Error(ErrorCode::usage, problem, "--augment-on device", hint);
  };
  for (const Augmentation::Step& step : augmentation_.steps()) {
    const std::string_view name = augmentation_kinds()[step.kind].name;
    if (find_on_device(step) == nullptr && !mixes_images(step)) {
      std::vector<std::string> names;
      for (const Kind& kind : kinds) names.emplace_back(kind.name);
      names.insert(names.end(), {"mixup", "cutmix"});
      refuse(fmt::format("'{}' is not done on the device", name),
             fmt::format("Leave --augment-on out, or choose from {}", join(names)));
    }
    if (name == "blur" && step.values[1] > most_sigma)
      refuse(fmt::format("a blur of {:g} pixels cannot be done on the device", step.values[1]),
             fmt::format("Leave --augment-on out, or blur by at most {:g}", most_sigma));
  }
}

Tensor DeviceAugmentation::operator()(const Tensor& x, const Normalization& normalization) const {
  if (std::ranges::all_of(augmentation_.steps(), mixes_images)) return x;
  const int64_t channels = x.size(1);
  const Tensor places = iota({1, channels, 1, 1}, 1, x.device());
  const auto by_channel = [&](const std::vector<float>& values) {
    Tensor result = full({1, 1, 1, 1}, static_cast<double>(values[0]), DType::f32, x.device());
    for (size_t c = 1; c < values.size(); ++c)
      result = where(equal(places, static_cast<int64_t>(c)), static_cast<double>(values[c]), result);
    return result;
  };
  const Tensor mean = by_channel(normalization.mean), deviation = by_channel(normalization.stddev);
  Tensor pictures = x * deviation + mean;
  const Draws draws{x.size(0), x.device()};
  for (const Augmentation::Step& step : augmentation_.steps())
    if (!mixes_images(step)) pictures = find_on_device(step)(pictures, step.values, draws);
  return (pictures - mean) / deviation;
}

// The numbers chosen for each step are inputs, so that all steps run the same plan.
DeviceAugmentation::Mixed DeviceAugmentation::mix(const Tensor& x, const Tensor& targets,
                                                  int64_t classes) const {
  if (!augmentation_.mixes()) return {x, targets};
  RandomStream random(static_cast<uint64_t>(default_generator().next_key()), 0, 0);
  const Mixing mixing = augmentation_.choose_mixing(x.size(2), x.size(3), random);
  const Window window = mixing.window.value_or(Window{});
  std::vector<float> values;
  for (const int64_t edge : {window.top, window.top + window.height, window.left, window.left + window.width})
    values.push_back(static_cast<float>(edge));
  values.push_back(static_cast<float>(mixing.window ? 1 : mixing.share));  // outside of the window
  values.push_back(static_cast<float>(mixing.share));
  const Tensor numbers = Tensor::from(values, {6}, x.device());
  const auto number = [&](int64_t i) { return reshape(slice(numbers, 0, i, i + 1), {1, 1, 1, 1}); };
  const auto within = [&](int axis, int64_t first) {
    const Shape shape = axis == 2 ? Shape{1, 1, x.size(2), 1} : Shape{1, 1, 1, x.size(3)};
    const Tensor place = cast(iota(shape, axis, x.device()), DType::f32);
    return logical_and(greater_equal(place, number(first)), less(place, number(first + 1)));
  };
  const Tensor own = where(logical_and(within(2, 0), within(3, 2)), 0.0, number(4));
  const Tensor share = reshape(number(5), {1, 1});
  return {own * x + (1 - own) * roll(x, 1, 0),
          share * one_hot(targets, classes) + (1 - share) * one_hot(roll(targets, 1, 0), classes)};
}

}  // namespace athanor
