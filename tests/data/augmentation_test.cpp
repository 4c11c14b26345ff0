#include "athanor/data/augmentation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "athanor/data/array_dataset.h"
#include "athanor/data/dataloader.h"
#include "athanor/data/mixing.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::expect_error;

/// 24 pictures of 3 x 10 x 12 with random bytes, of 5 classes.
std::shared_ptr<const Dataset> noise() {
  HostArray images(DType::u8, {24, 3, 10, 12}), labels(DType::i64, {24});
  RandomStream random(1, 2, 3);
  for (uint8_t& pixel : images.as<uint8_t>()) pixel = static_cast<uint8_t>(random.below(256));
  for (int64_t& label : labels.as<int64_t>()) label = random.below(5);
  return std::make_shared<ArrayDataset>(std::move(images), labels, ArrayDatasetOptions{.classes = 5});
}

LoaderOptions options_with(const std::string& text, int workers = 0) {
  return {.batch_size = 8,
          .shuffle = true,
          .seed = 7,
          .workers = workers,
          .augmentation = std::make_shared<const Augmentation>(Augmentation::parse(text))};
}

std::string all_kinds() {
  std::string text;
  for (const AugmentationKind& kind : augmentation_kinds())
    text += (text.empty() ? "" : ",") + std::string(kind.name);
  return text;
}

TEST(Augmentation, IsReadAndShownWithItsNumbers) {
  EXPECT_EQ(Augmentation::parse("none").to_string(), "none");
  EXPECT_EQ(Augmentation::parse("crop,flip").to_string(), "crop, flip=0.5");
  EXPECT_EQ(Augmentation::parse("crop=4, jitter=0.2:0.3,trivial").to_string(),
            "crop=4, jitter=0.2:0.3:0.4:0.1, trivial");
  EXPECT_TRUE(Augmentation::parse("flip,cutmix").mixes());
  EXPECT_FALSE(Augmentation::parse("flip,rand").mixes());
}

TEST(Augmentation, ErrorsSayWhatWouldBeRight) {
  const auto refused = [](const std::string& text, const std::vector<std::string>& words) {
    expect_error(ErrorCode::usage, words, [&] { Augmentation::parse(text); });
  };
  refused("crop,flp", {"no augmentation 'flp'", "Did you mean 'flip'?", "--augment"});
  refused("flip=2", {"'flip=2': 2 is out of range", "flip=P", "from 0 to 1"});
  refused("flip=often", {"'often' is not a number"});
  refused("rand=2:9:1", {"too many numbers", "rand=OPERATIONS:MAGNITUDE"});
  refused("trivial=3", {"trivial takes no numbers"});
  refused("crop,,flip", {"no augmentation ''"});
  refused("mixup,mixup", {"twice"});
}

TEST(Augmentation, DoesNotDependOnTheNumberOfWorkers) {
  std::vector<Batch> expected;
  DataLoader alone(noise(), options_with(all_kinds()));
  for (int epoch = 0; epoch < 2; ++epoch)
    while (auto batch = alone.next()) expected.push_back(std::move(*batch));
  DataLoader several(noise(), options_with(all_kinds(), 3));
  size_t at = 0;
  for (int epoch = 0; epoch < 2; ++epoch)
    while (auto batch = several.next()) {
      EXPECT_EQ(batch->inputs.bytes, expected[at].inputs.bytes) << at;
      EXPECT_EQ(batch->labels.bytes, expected[at].labels.bytes) << at;
      ++at;
    }
  EXPECT_EQ(at, 6U);
  // Resume from the middle, as after a checkpoint.
  DataLoader resumed(noise(), options_with(all_kinds(), 2));
  resumed.restore({1, 1});
  EXPECT_EQ(resumed.next()->inputs.bytes, expected[4].inputs.bytes);
}

TEST(Augmentation, EachKindChangesPicturesAndNothingElse) {
  for (const AugmentationKind& kind : augmentation_kinds()) {
    DataLoader plain(noise(), options_with("none")), made(noise(), options_with(std::string(kind.name)));
    bool changed = false;
    while (auto batch = made.next()) {
      const auto before = plain.next();
      EXPECT_EQ(batch->inputs.shape, before->inputs.shape) << kind.name;
      changed |= batch->inputs.bytes != before->inputs.bytes;
      for (const float x : std::as_const(batch->inputs).as<float>())
        ASSERT_TRUE(std::isfinite(x)) << kind.name;
      if (kind.name == "mixup" || kind.name == "cutmix") {
        ASSERT_EQ(batch->labels.shape, (Shape{8, 5}));
        for (int64_t i = 0; i < 8; ++i) {
          float sum = 0;
          for (int64_t c = 0; c < 5; ++c)
            sum += std::as_const(batch->labels).as<float>()[static_cast<size_t>(5 * i + c)];
          EXPECT_NEAR(sum, 1, 1e-5);
        }
      } else {
        EXPECT_EQ(batch->labels.bytes, before->labels.bytes) << kind.name;
      }
    }
    EXPECT_TRUE(changed) << kind.name;
  }
}

TEST(Augmentation, OtherEpochsGetOtherNumbers) {
  DataLoader loader(noise(), [] {
    LoaderOptions options = options_with("crop");
    options.batch_size = 24, options.shuffle = false;
    return options;
  }());
  const auto first = loader.next();
  EXPECT_FALSE(loader.next());
  EXPECT_NE(loader.next()->inputs.bytes, first->inputs.bytes);
}

TEST(RandomStream, IsUniformAndNormal) {
  double sum = 0, squares = 0, normals = 0, normal_squares = 0;
  std::vector<int> counts(7);
  constexpr int many = 20000;
  for (int i = 0; i < many; ++i) {
    RandomStream random(5, 1, static_cast<uint64_t>(i));
    const double x = random.uniform(), n = random.normal();
    sum += x, squares += x * x, normals += n, normal_squares += n * n;
    ++counts[static_cast<size_t>(random.below(7))];
  }
  // The expected values within four standard errors.
  EXPECT_NEAR(sum / many, 0.5, 4 * std::sqrt(1.0 / 12 / many));
  EXPECT_NEAR(squares / many, 1.0 / 3, 4 * std::sqrt(4.0 / 45 / many));
  EXPECT_NEAR(normals / many, 0, 4 / std::sqrt(double{many}));
  EXPECT_NEAR(normal_squares / many, 1, 4 * std::sqrt(2.0 / many));
  for (const int count : counts) EXPECT_NEAR(count, many / 7.0, 4 * std::sqrt(many * 6.0 / 49));
}

TEST(RandomBeta, HasItsMeanAndVariance) {
  for (const double alpha : {0.2, 1.0, 3.0}) {
    double sum = 0, squares = 0;
    constexpr int many = 20000;
    for (int i = 0; i < many; ++i) {
      RandomStream random(9, 0, static_cast<uint64_t>(i));
      const double x = random_beta(alpha, random);
      sum += x, squares += (x - 0.5) * (x - 0.5);
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / many, 0.5, 4 * std::sqrt(variance / many)) << alpha;
    EXPECT_NEAR(squares / many, variance, 0.006) << alpha;
  }
}

TEST(StandardAugmentation, DoesNotFlipDigits) {
  const auto of = [](const std::string& name, const Shape& input) {
    ExampleSpec spec;
    spec.input = input;
    return standard_augmentation(name, spec);
  };
  EXPECT_EQ(of("mnist", {1, 28, 28}), "crop");
  EXPECT_EQ(of("fashion-mnist", {1, 28, 28}), "crop,flip");
  EXPECT_EQ(of("cifar-10", {3, 32, 32}), "crop,flip");
  EXPECT_EQ(of("/data/pets", {3, 224, 224}), "resized-crop,flip");
}

}  // namespace
}  // namespace athanor
