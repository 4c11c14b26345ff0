#include "athanor/data/augmentation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/data/masks.h"

namespace athanor {
namespace {

size_t find_kind(const std::string& name) {
  const auto& kinds = augmentation_kinds();
  const auto found = std::ranges::find(kinds, name, &AugmentationKind::name);
  if (found != kinds.end()) return static_cast<size_t>(found - kinds.begin());
  std::vector<std::string_view> names;
  for (const AugmentationKind& kind : kinds) names.push_back(kind.name);
  throw Error(ErrorCode::usage, fmt::format("there is no augmentation '{}'", name), "--augment",
              nearest_hint(name, names));
}

/// "flip=P" or "rand=OPERATIONS:MAGNITUDE", with the ranges of the numbers.
std::string shape_of(const AugmentationKind& kind) {
  std::vector<std::string> values, ranges;
  for (const AugmentationValue& value : kind.values) {
    std::string name(value.name);
    for (char& c : name) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    ranges.push_back(fmt::format("{} from {:g} to {:g}", name, value.least, value.most));
    values.push_back(std::move(name));
  }
  if (values.empty()) return fmt::format("{} takes no numbers", kind.name);
  return fmt::format("Write {}={}, {}", kind.name, join(values, ":"), join(ranges));
}

std::vector<double> parse_values(const AugmentationKind& kind, const std::string& text, bool given) {
  std::vector<double> values;
  for (const AugmentationValue& value : kind.values) values.push_back(value.usual);
  if (!given) return values;
  const std::vector<std::string> parts = split(text, ':');
  const auto refuse = [&](const std::string& problem) {
    throw Error(ErrorCode::usage, fmt::format("'{}={}': {}", kind.name, text, problem), "--augment",
                shape_of(kind));
  };
  if (parts.size() > values.size()) refuse("too many numbers");
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    const auto [end, failed] = std::from_chars(part.data(), part.data() + part.size(), values[i]);
    if (failed != std::errc() || end != part.data() + part.size() || !std::isfinite(values[i]))
      refuse(fmt::format("'{}' is not a number", part));
    if (values[i] < kind.values[i].least || values[i] > kind.values[i].most)
      refuse(fmt::format("{} is out of range", part));
  }
  return values;
}

bool is_named(const Augmentation::Step& step, std::string_view name) {
  return augmentation_kinds()[step.kind].name == name;
}

const Augmentation::Step* find_step(const std::vector<Augmentation::Step>& steps, std::string_view name) {
  for (const Augmentation::Step& step : steps)
    if (is_named(step, name)) return &step;
  return nullptr;
}

/// Chosen as by torchvision's RandomResizedCrop.
Window random_part(int64_t height, int64_t width, double least, RandomStream& random) {
  constexpr double narrowest = 3.0 / 4, widest = 4.0 / 3;
  const double area = static_cast<double>(height) * static_cast<double>(width);
  for (int tries = 0; tries < 10; ++tries) {
    const double part = area * random.between(least, 1);
    const double ratio = std::exp(random.between(std::log(narrowest), std::log(widest)));
    const int64_t w = std::lround(std::sqrt(part * ratio)), h = std::lround(std::sqrt(part / ratio));
    if (w <= 0 || h <= 0 || w > width || h > height) continue;
    const int64_t top = random.below(height - h + 1);
    return {top, random.below(width - w + 1), h, w};
  }
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  Window window{0, 0, height, width};
  if (ratio < narrowest) window.height = std::lround(static_cast<double>(width) / narrowest);
  if (ratio > widest) window.width = std::lround(static_cast<double>(height) * widest);
  window.top = (height - window.height) / 2;
  window.left = (width - window.width) / 2;
  return window;
}

}  // namespace

Augmentation Augmentation::parse(const std::string& text) {
  Augmentation result;
  if (text.empty() || text == "none") return result;
  for (const std::string& part : split(text, ',')) {
    const size_t equals = part.find('=');
    const std::string name = trim(part.substr(0, equals));
    const size_t kind = find_kind(name);
    const bool given = equals != std::string::npos;
    result.steps_.push_back(
        {kind, parse_values(augmentation_kinds()[kind], given ? trim(part.substr(equals + 1)) : "", given)});
    if (augmentation_kinds()[kind].apply == nullptr &&
        find_step(result.steps_, name) != &result.steps_.back())
      throw Error(ErrorCode::usage, fmt::format("'{}' is there twice", name), "--augment", "Leave one out");
  }
  return result;
}

bool Augmentation::mixes() const {
  return find_step(steps_, "mixup") != nullptr || find_step(steps_, "cutmix") != nullptr;
}

std::string Augmentation::to_string() const {
  std::vector<std::string> parts;
  for (const Step& step : steps_) {
    std::vector<std::string> values;
    for (const double value : step.values) values.push_back(fmt::format("{:g}", value));
    const bool eighth = is_named(step, "crop") && step.values[0] == 0;  // the usual padding has no number
    const std::string name(augmentation_kinds()[step.kind].name);
    parts.push_back(values.empty() || eighth ? name : name + "=" + join(values, ":"));
  }
  return parts.empty() ? "none" : join(parts, ", ");
}

Picture Augmentation::apply(const HostArray& stored, const ExampleSpec& spec, RandomStream& random) const {
  const int64_t height = stored.shape[0], width = stored.shape[1];
  const Step* part = find_step(steps_, "resized-crop");
  const Window window = part != nullptr ? random_part(height, width, part->values[0], random)
                                        : middle_window(height, width, spec.input[1], spec.input[2]);
  Picture picture = resample(stored, window, spec.input[0], spec.input[1], spec.input[2]);
  for (const Step& step : steps_)
    if (const auto apply = augmentation_kinds()[step.kind].apply; apply != nullptr)
      picture = apply(picture, step.values, random);
  return picture;
}

std::pair<Picture, Picture> Augmentation::apply(const PictureAndMask& stored, const ExampleSpec& spec,
                                                RandomStream& random) const {
  const int64_t height = stored.picture.shape[0], width = stored.picture.shape[1];
  const Step* part = find_step(steps_, "resized-crop");
  const Window window = part != nullptr ? random_part(height, width, part->values[0], random)
                                        : middle_window(height, width, spec.input[1], spec.input[2]);
  Picture picture = resample(stored.picture, window, spec.input[0], spec.input[1], spec.input[2]);
  Picture mask = resample_mask(stored.mask, window, spec.input[1], spec.input[2]);
  for (const Step& step : steps_) {
    const AugmentationKind& kind = augmentation_kinds()[step.kind];
    RandomStream same = random;
    if (kind.apply != nullptr) picture = kind.apply(picture, step.values, random);
    if (kind.apply_to_mask != nullptr) mask = kind.apply_to_mask(mask, step.values, same);
  }
  return {std::move(picture), std::move(mask)};
}

std::string Augmentation::without_masks() const {
  for (const char* name : {"rand", "trivial", "mixup", "cutmix"})
    if (find_step(steps_, name) != nullptr) return name;
  return {};
}

Mixing Augmentation::choose_mixing(int64_t height, int64_t width, RandomStream& random) const {
  const Step* mixup = find_step(steps_, "mixup");
  const Step* cutmix = find_step(steps_, "cutmix");
  const bool cut = cutmix != nullptr && (mixup == nullptr || random.chance(0.5));
  Mixing mixing{.window = {}, .share = random_beta(cut ? cutmix->values[0] : mixup->values[0], random)};
  if (cut) {
    const Window window = random_window(mixing.share, height, width, random);
    mixing.window = window;
    mixing.share =
        1 - static_cast<double>(window.height * window.width) / static_cast<double>(height * width);
  }
  return mixing;
}

void Augmentation::mix(HostArray& inputs, HostArray& labels, int64_t classes, RandomStream& random) const {
  if (!mixes()) return;
  const Mixing mixing = choose_mixing(inputs.shape[2], inputs.shape[3], random);
  mixing.window ? cut_mix(inputs, *mixing.window) : mix_up(inputs, mixing.share);
  labels = mixed_labels(labels, classes, mixing.share);
}

std::string with_standard(const std::string& text, const std::string& standard) {
  std::vector<std::string> parts = split(text, ',');
  for (std::string& part : parts)
    if (trim(part) == "standard") part = standard;
  return join(parts, ",");
}

std::string standard_augmentation(const std::string& dataset, const ExampleSpec& spec) {
  constexpr int64_t small = 64;
  if (spec.input[1] > small) return "resized-crop,flip";
  const bool signs = dataset == "mnist" || dataset.starts_with("emnist");
  return !signs && (spec.input[0] == 3 || dataset == "fashion-mnist") ? "crop,flip" : "crop";
}

}  // namespace athanor
