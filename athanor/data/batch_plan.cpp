#include "athanor/data/batch_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/data/fit_image.h"
#include "athanor/data/masks.h"
#include "athanor/data/random_stream.h"
#include "athanor/data/shuffle.h"

namespace athanor {
namespace {

constexpr int most_workers = 1024;

void check_range(const char* what, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    throw Error(ErrorCode::value, fmt::format("{} is {}, it must be from {} to {}", what, value, least, most),
                {});
}

int64_t count_batches(const Dataset& dataset, const LoaderOptions& options) {
  check_range("batch_size", options.batch_size, 1, int64_t{1} << 40);
  check_range("workers", options.workers, 0, most_workers);
  check_range("prefetch", options.prefetch, 1, int64_t{1} << 20);
  const int64_t size = dataset.size();
  if (size == 0) throw Error(ErrorCode::value, "the dataset is empty");
  const int64_t full = size / options.batch_size;
  if (options.drop_last && full == 0)
    throw Error(ErrorCode::value,
                fmt::format("no batch of {} can be made of {} examples", options.batch_size, size), {},
                "Take a smaller batch size, or keep the last batch (drop_last = false)");
  return options.drop_last || size % options.batch_size == 0 ? full : full + 1;
}

}  // namespace

BatchPlan::BatchPlan(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : dataset_(std::move(dataset)), options_(options), batches_(count_batches(*dataset_, options_)) {}

BatchPlan::Order BatchPlan::order_of(int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  KnownOrder& known = known_[static_cast<size_t>(epoch % 2)];
  if (known.epoch != epoch) {
    known.order = std::make_shared<const std::vector<int64_t>>(
        shuffled_order(dataset_->size(), options_.seed, static_cast<uint64_t>(epoch)));
    known.epoch = epoch;
  }
  return known.order;
}

Batch BatchPlan::make(int64_t epoch, int64_t batch) const {
  const Order order = options_.shuffle ? order_of(epoch) : nullptr;
  const ExampleSpec& spec = dataset_->spec();
  const int64_t first = batch * options_.batch_size;
  const int64_t count = std::min(options_.batch_size, dataset_->size() - first);
  Batch result{HostArray(DType::f32, spec.input.insert(0, count)), HostArray(DType::i64, {count})};
  const size_t outputs = spec.targets.size();
  HostArray numbers(DType::f32, {count, static_cast<int64_t>(outputs)});
  if (spec.pixels) result.labels = HostArray(DType::i64, {count, spec.input[1], spec.input[2]});
  const size_t area = spec.pixels ? static_cast<size_t>(spec.input[1] * spec.input[2]) : 1;
  const auto inputs = result.inputs.as<float>();
  const auto labels = result.labels.as<int64_t>();
  const auto stride = static_cast<size_t>(spec.input.size());
  for (int64_t i = 0; i < count; ++i) {
    const auto slot = static_cast<size_t>(i);
    const int64_t index = order ? (*order)[static_cast<size_t>(first + i)] : first + i;
    if (spec.pixels) {
      read_pixels(epoch, index, inputs.data() + slot * stride, labels.data() + slot * area);
      continue;
    }
    read(epoch, index, inputs.data() + slot * stride, labels[slot]);
    if (outputs > 0) dataset_->numbers(index, numbers.as<float>().data() + slot * outputs);
    if (labels[slot] < 0 || labels[slot] >= spec.classes)
      throw Error(ErrorCode::value,
                  fmt::format("label {} of example {} is out of range: there are {} classes", labels[slot],
                              index, spec.classes));
  }
  if (options_.augmentation && !spec.pixels) {
    constexpr uint32_t for_mixing = 1;
    RandomStream random(options_.seed, static_cast<uint64_t>(epoch), static_cast<uint64_t>(batch),
                        for_mixing);
    options_.augmentation->mix(result.inputs, result.labels, spec.classes, random);
  }
  if (outputs > 0) result.labels = std::move(numbers);
  return result;
}

void BatchPlan::read_pixels(int64_t epoch, int64_t index, float* input, int64_t* labels) const {
  const ExampleSpec& spec = dataset_->spec();
  const PictureAndMask stored = dataset_->picture_and_mask(index);
  RandomStream random(options_.seed, static_cast<uint64_t>(epoch), static_cast<uint64_t>(index));
  static const Augmentation none;
  const Augmentation& augmentation = options_.augmentation ? *options_.augmentation : none;
  const auto [picture, mask] = augmentation.apply(stored, spec, random);
  normalize(picture, spec.normalization, input);
  labels_of_mask(mask, labels);
}

void BatchPlan::read(int64_t epoch, int64_t index, float* input, int64_t& label) const {
  const auto& augmentation = options_.augmentation;
  if (!augmentation || augmentation->empty()) {
    dataset_->read(index, input, label);
    return;
  }
  RandomStream random(options_.seed, static_cast<uint64_t>(epoch), static_cast<uint64_t>(index));
  const ExampleSpec& spec = dataset_->spec();
  normalize(augmentation->apply(dataset_->picture(index, label), spec, random), spec.normalization, input);
}

}  // namespace athanor
