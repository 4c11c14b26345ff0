#include "athanor/train/segmentation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/loss.h"
#include "athanor/ops/reduction.h"

namespace athanor {
namespace {

/// Counts right and predicted classes, pixel by pixel.
class PixelTally final : public Tally {
 public:
  explicit PixelTally(const ExampleSpec& spec)
      : classes_(spec.classes), counts_(static_cast<size_t>(classes_ * classes_)) {}

  void add(const Batch& batch, const HostArray& answers) override {
    const auto made = answers.as<int64_t>(), right = batch.labels.as<int64_t>();
    const auto area = static_cast<size_t>(batch.labels.shape[1] * batch.labels.shape[2]);
    for (size_t i = 0; i < right.size(); ++i)
      if (right[i] >= 0) ++counts_[static_cast<size_t>(right[i] * classes_ + made[i])];
    for (size_t n = 0; n * area < right.size() && kept_.size() < most_kept; ++n) {
      const auto truth = right.subspan(n * area, area);
      if (std::ranges::all_of(truth, [](int64_t label) { return label < 0; })) continue;
      PixelExample example{.inputs = HostArray(DType::f32, batch.inputs.shape.erase(0)),
                           .right = {truth.begin(), truth.end()},
                           .answer = {made.begin() + static_cast<std::ptrdiff_t>(n * area),
                                      made.begin() + static_cast<std::ptrdiff_t>((n + 1) * area)}};
      const size_t bytes = example.inputs.bytes.size();
      std::copy_n(batch.inputs.bytes.begin() + static_cast<std::ptrdiff_t>(n * bytes), bytes,
                  example.inputs.bytes.begin());
      kept_.push_back(std::move(example));
    }
  }

  void finish(TestResult& result) override {
    ClassCounts counts(classes_);
    for (int64_t right = 0; right < classes_; ++right)
      for (int64_t answer = 0; answer < classes_; ++answer)
        if (const int64_t count = counts_[static_cast<size_t>(right * classes_ + answer)]; count > 0)
          counts.add(right, answer, count);
    const double mean = counts.mean_iou();
    result.measures = {{"mean_iou", mean, fmt::format("mean IoU {:.1f} %", 100 * mean)}};
    result.classes = std::move(counts);
    result.pixel_examples = std::move(kept_);
  }

 private:
  static constexpr size_t most_kept = 8;
  int64_t classes_;
  std::vector<int64_t> counts_;  // [right, answer]
  std::vector<PixelExample> kept_;
};

}  // namespace

SegmentationOptions segmentation_options(const TrainConfig& config, const Splits& splits) {
  auto options = dataset_options<SegmentationOptions>(config, splits);
  if (const std::string kind = options.augmentation->without_masks(); !kind.empty())
    throw Error(ErrorCode::usage, fmt::format("'{}' is not known for masks", kind), "--augment",
                "Take crop, resized-crop, flip, vflip, rotate, affine, jitter, grayscale, blur or erase");
  return options;
}

Forward name_pixels(nn::Module& model, const Tensor& pictures, const Tensor& classes) {
  const Tensor logits = model(pictures);
  if (logits.shape().rank() != 4)
    throw Error(ErrorCode::shape, fmt::format("the model gives {} of an image", to_string(logits.shape())),
                {}, "For segmentation it must give [N, classes, H, W], as unet-small does");
  const Tensor answers = argmax(logits.detach(), 1);
  return {.loss = cross_entropy(logits, classes, {.ignore_index = ignored_target}),
          .correct = sum(equal(answers, classes)),
          .scores = model.training() ? Tensor() : answers};
}

Unit PixelScoring::unit() const { return {.one = "pixel", .many = "pixels"}; }

std::vector<Measure> PixelScoring::measures(double /*mean_loss*/, double accuracy) const {
  return {{"accuracy", accuracy, fmt::format("pixel accuracy {:.1f} %", 100 * accuracy)}};
}

std::string PixelScoring::bar(double /*mean_loss*/, double accuracy) const {
  return fmt::format("pixel acc {:4.1f} %", 100 * accuracy);
}

ResultText PixelScoring::in_words(double /*mean_loss*/, double accuracy, int64_t count) const {
  return {fmt::format("{:.1f} %", 100 * accuracy),
          fmt::format(" of {} test pixels are right", grouped(count))};
}

double PixelScoring::score(double /*mean_loss*/, double accuracy, const TestMeasures& more) const {
  const auto found = more.find("mean_iou");
  return found == more.end() ? accuracy : found->second;
}

std::string PixelScoring::best(double mean_loss, double accuracy, const TestMeasures& more) const {
  const auto found = more.find("mean_iou");
  return found == more.end() ? Scoring::best(mean_loss, accuracy, more)
                             : fmt::format("mean IoU {:.1f} %", 100 * found->second);
}

Segmentation::Segmentation(const TrainConfig& config)
    : Segmentation(segmentation_options(config, open_both_splits(config, {}))) {}

Segmentation::Segmentation(SegmentationOptions options) : DatasetTask(std::move(options)) {
  if (!spec().pixels)
    throw Error(ErrorCode::usage, "the data has no masks, and segmentation learns from them",
                options_.data_name, "Give a folder with images/ and masks/");
  if (options_.train)
    check_splits(*options_.train, *options_.test, options_.batch_size, "images", options_.data_name);
}

std::string Segmentation::describe() const {
  const Shape& input = spec().input;
  const bool augmented = options_.augmentation && !options_.augmentation->empty();
  return fmt::format("{} training and {} test images of {}x{}x{} with masks of {} classes{}",
                     grouped(options_.train->size()), grouped(options_.test->size()), input[0], input[1],
                     input[2], spec().classes,
                     augmented ? ", augmented by " + options_.augmentation->to_string() : "");
}

std::unique_ptr<Tally> Segmentation::tally() const { return std::make_unique<PixelTally>(spec()); }

int64_t Segmentation::test_count() const { return options_.test->size() * spec().input[1] * spec().input[2]; }

TensorType Segmentation::target_type(int64_t batch_size) const {
  return {DType::i64, {batch_size, spec().input[1], spec().input[2]}, {}};
}

}  // namespace athanor
