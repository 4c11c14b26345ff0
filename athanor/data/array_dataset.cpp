#include "athanor/data/array_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "athanor/base/error.h"

namespace athanor {
namespace {

/// The layout of a batch of images.
struct Layout {
  Shape input;  // [C, H, W]
  bool channels_last;
};

bool is_channels(int64_t extent) { return extent == 1 || extent == 3; }

Layout layout_of(const HostArray& images) {
  if (images.dtype != DType::u8)
    throw Error(ErrorCode::dtype,
                fmt::format("images must be u8 (bytes), these are not: they were read as {}",
                            to_string(images.dtype)),
                {}, pictures_hint);
  const Shape& s = images.shape;
  if (s.rank() == 3) return {{1, s[1], s[2]}, false};
  if (s.rank() == 4 && is_channels(s[1])) return {{s[1], s[2], s[3]}, false};
  if (s.rank() == 4 && is_channels(s[3])) return {{s[3], s[1], s[2]}, true};
  throw Error(ErrorCode::shape, fmt::format("images of shape {}", to_string(s)), {},
              "They must be [N, H, W], [N, C, H, W] or [N, H, W, C] with C 1 or 3");
}

std::vector<int64_t> to_labels(const HostArray& labels) {
  if (!is_int(labels.dtype))
    throw Error(ErrorCode::dtype,
                fmt::format("labels must be integers, these are {}", to_string(labels.dtype)), {},
                labels_hint);
  if (labels.shape.rank() != 1)
    throw Error(ErrorCode::shape, fmt::format("labels of shape {}", to_string(labels.shape)), {},
                "They must be [N]");
  std::vector<int64_t> result;
  result.reserve(static_cast<size_t>(labels.size()));
  visit_dtype(labels.dtype, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_integral_v<T>)
      for (const T label : labels.as<T>()) result.push_back(static_cast<int64_t>(label));
  });
  return result;
}

void check_labels(const std::vector<int64_t>& labels, int64_t classes) {
  const auto bad = std::find_if(labels.begin(), labels.end(),
                                [&](int64_t label) { return label < 0 || label >= classes; });
  if (bad != labels.end())
    throw Error(ErrorCode::value,
                fmt::format("label {} of example {} is out of range: there are {} classes, from 0 to {}",
                            *bad, bad - labels.begin(), classes, classes - 1),
                {}, "Number the classes from 0");
}

int64_t largest(const std::vector<int64_t>& labels) {
  return labels.empty() ? -1 : *std::max_element(labels.begin(), labels.end());
}

void check_normalization(const Normalization& normalization, int64_t channels) {
  const auto fits = [&](size_t n) { return n == 1 || n == static_cast<size_t>(channels); };
  if (!fits(normalization.mean.size()) || !fits(normalization.stddev.size()))
    throw Error(ErrorCode::shape,
                fmt::format("images of {} channels, and {} means and {} standard deviations of channels",
                            channels, normalization.mean.size(), normalization.stddev.size()),
                {},
                "A model takes images with as many channels as those that it was trained on. Else give one "
                "of each for a channel, or one for all");
  for (const float stddev : normalization.stddev)
    if (!(stddev > 0)) throw Error(ErrorCode::value, fmt::format("a standard deviation of {}", stddev));
}

}  // namespace

Normalization measure_normalization(const HostArray& images) {
  const auto [input, channels_last] = layout_of(images);
  const auto channels = static_cast<size_t>(input[0]);
  const auto plane = static_cast<size_t>(input[1] * input[2]);
  std::vector<std::array<int64_t, 256>> counts(channels);
  const auto pixels = images.as<uint8_t>();
  if (channels_last) {
    for (size_t i = 0; i < pixels.size(); ++i) ++counts[i % channels][pixels[i]];
  } else {
    for (size_t i = 0; i < pixels.size(); i += plane)
      for (size_t j = 0; j < plane; ++j) ++counts[i / plane % channels][pixels[i + j]];
  }
  Normalization result;
  for (const auto& histogram : counts) {
    double n = 0, sum = 0, squares = 0;
    for (size_t value = 0; value < histogram.size(); ++value) {
      const auto count = static_cast<double>(histogram[value]), x = static_cast<double>(value) / 255;
      n += count, sum += count * x, squares += count * x * x;
    }
    const double mean = n > 0 ? sum / n : 0;
    const double variance = n > 0 ? std::max(0.0, squares / n - mean * mean) : 0;
    result.mean.push_back(static_cast<float>(mean));
    // Below a hundredth of one step of a byte, the channel is constant up to rounding.
    result.stddev.push_back(variance > 1e-10 ? static_cast<float>(std::sqrt(variance)) : 1.0F);
  }
  return result;
}

ArrayDataset::ArrayDataset(HostArray images, const HostArray& labels, ArrayDatasetOptions options)
    : images_(std::move(images)), labels_(to_labels(labels)) {
  const auto [input, channels_last] = layout_of(images_);
  if (images_.shape[0] != size())
    throw Error(ErrorCode::shape, fmt::format("{} images but {} labels", images_.shape[0], size()), {},
                "Save one label for each image");
  if (images_.size() == 0)
    throw Error(ErrorCode::value, fmt::format("there are no images: shape {}", to_string(images_.shape)));
  channels_last_ = channels_last;
  spec_.input = input;
  spec_.class_names = std::move(options.class_names);
  const auto names = static_cast<int64_t>(spec_.class_names.size());
  spec_.classes = options.classes > 0 ? options.classes : names > 0 ? names : largest(labels_) + 1;
  if (names > 0 && names != spec_.classes)
    throw Error(ErrorCode::value, fmt::format("{} class names for {} classes", names, spec_.classes));
  check_labels(labels_, spec_.classes);
  spec_.normalization = options.normalization ? *options.normalization : measure_normalization(images_);
  const int64_t channels = input[0];
  check_normalization(spec_.normalization, channels);

  const auto at = [](const std::vector<float>& values, size_t channel) {
    return values.size() == 1 ? values[0] : values[channel];
  };
  floats_.resize(static_cast<size_t>(channels));
  for (size_t c = 0; c < floats_.size(); ++c) {
    const float mean = at(spec_.normalization.mean, c), stddev = at(spec_.normalization.stddev, c);
    for (size_t value = 0; value < 256; ++value)
      floats_[c][value] = (static_cast<float>(value) / 255.0F - mean) / stddev;
  }
}

void ArrayDataset::read(int64_t index, float* image_out, int64_t& label_out) const {
  const auto plane = static_cast<size_t>(spec_.input[1] * spec_.input[2]);
  const size_t channels = floats_.size();
  const uint8_t* pixels = images_.as<uint8_t>().data() + static_cast<size_t>(index) * plane * channels;
  const size_t channel_step = channels_last_ ? 1 : plane, pixel_step = channels_last_ ? channels : 1;
  for (size_t c = 0; c < channels; ++c)
    for (size_t i = 0; i < plane; ++i)
      image_out[c * plane + i] = floats_[c][pixels[c * channel_step + i * pixel_step]];
  label_out = labels_[static_cast<size_t>(index)];
}

HostArray ArrayDataset::picture(int64_t index, int64_t& label_out) const {
  const auto plane = static_cast<size_t>(spec_.input[1] * spec_.input[2]);
  const size_t channels = floats_.size();
  const uint8_t* pixels = images_.as<uint8_t>().data() + static_cast<size_t>(index) * plane * channels;
  HostArray picture(DType::u8, {spec_.input[1], spec_.input[2], spec_.input[0]});
  const auto out = picture.as<uint8_t>();
  for (size_t c = 0; c < channels; ++c)
    for (size_t i = 0; i < plane; ++i)
      out[i * channels + c] = channels_last_ ? pixels[i * channels + c] : pixels[c * plane + i];
  label_out = labels_[static_cast<size_t>(index)];
  return picture;
}

}  // namespace athanor
