// Runs that learn which pixels belong to shapes on noise.
#include "athanor/train/segmentation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "athanor/formats/image.h"
#include "athanor/train/report.h"
#include "athanor/train/test_set.h"
#include "tests/support/expect_error.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

using testing::expect_error;
namespace fs = std::filesystem;

/// A bright square (class 1) and a dark disc (class 2) on noise; the middle of the disc is ignored.
void write_shapes(const fs::path& folder, int count, uint32_t seed) {
  fs::create_directories(folder / "images");
  fs::create_directories(folder / "masks");
  std::mt19937 random(seed);
  constexpr int side = 32;
  for (int n = 0; n < count; ++n) {
    HostArray picture(DType::u8, {side, side, 1}), mask(DType::u8, {side, side, 1});
    const auto place = [&](int size) {
      return static_cast<int>(random() % static_cast<uint32_t>(side - size));
    };
    const int top = place(12), left = place(12), y0 = place(12) + 6, x0 = place(12) + 6;
    for (int y = 0; y < side; ++y)
      for (int x = 0; x < side; ++x) {
        const auto at = static_cast<size_t>(y * side + x);
        const int from_middle = (y - y0) * (y - y0) + (x - x0) * (x - x0);
        int value = 100, label = 0;
        if (y >= top && y < top + 12 && x >= left && x < left + 12) value = 200, label = 1;
        if (from_middle <= 36) value = 20, label = from_middle <= 1 ? 255 : 2;
        picture.as<uint8_t>()[at] = static_cast<uint8_t>(value + static_cast<int>(random() % 40) - 20);
        mask.as<uint8_t>()[at] = static_cast<uint8_t>(label);
      }
    write_file_atomically(folder / "images" / fmt::format("{:02}.png", n), {Bytes(format_png(picture))});
    write_file_atomically(folder / "masks" / fmt::format("{:02}.png", n),
                          {Bytes(format_mask(mask, mask_palette(256)))});
  }
}

class SegmentationRun : public testing::TrainerTest {
 protected:
  SegmentationRun() {
    config_ = default_config("unet-small");
    config_.data = (folder_ / "shapes").string();
    config_.threads = 2;
    config_.device = "cpu";
    config_.batch_size = 4;
    write_shapes(folder_ / "shapes" / "train", 16, 1);
    write_shapes(folder_ / "shapes" / "val", 5, 2);
    write_file_atomically(folder_ / "shapes" / "classes.txt", "ground\nsquare\ndisc\n");
  }
};

TEST_F(SegmentationRun, LearnsShapesAndMeasuresIoU) {
  config_.epochs = 10;
  config_.augment = "crop=2,flip,vflip";
  EXPECT_EQ(train("a"), RunEnd::finished);
  const auto result = summary("a");
  EXPECT_GT(result["test_mean_iou"], 0.8);

  const Checkpoint checkpoint = read_checkpoint(run_folder("a").checkpoint());
  EXPECT_EQ(checkpoint.data.classes, 3);
  const auto model = restore_model(checkpoint, "a");
  const Segmentation task(config_);
  std::vector<double> both(3), either(3);
  double right = 0, counted = 0;
  {
    model->eval();
    const NoGrad no_history;
    const auto batches = task.test_batches(1);
    while (const auto batch = batches->next()) {
      const auto logits = (*model)(Tensor::from(batch->inputs, {})).to_vector<float>();
      const auto truth = batch->labels.as<int64_t>();
      for (size_t i = 0; i < truth.size(); ++i) {
        if (truth[i] < 0) continue;
        size_t answer = 0;
        for (size_t c = 1; c < 3; ++c)
          if (logits[c * truth.size() + i] > logits[answer * truth.size() + i]) answer = c;
        const auto label = static_cast<size_t>(truth[i]);
        ++counted, ++either[label];
        if (label == answer)
          ++right, ++both[label];
        else
          ++either[answer];
      }
    }
  }
  EXPECT_EQ(counted, 5 * (1024 - 5)) << "the middles of discs do not count";
  EXPECT_NEAR(result["test_accuracy"], right / counted, 2e-3);
  EXPECT_NEAR(result["test_mean_iou"], (both[0] / either[0] + both[1] / either[1] + both[2] / either[2]) / 3,
              5e-3);
  const TestResult sum = test_model(*model, {}, task, 4, [](int64_t) { return true; });
  EXPECT_EQ(sum.count, counted) << "what fills up the last batch does not count";
  EXPECT_EQ(sum.pixel_examples.size(), 5U);
  const auto confusion = nlohmann::json::parse(read_text_file(run_folder("a").confusion()));
  EXPECT_EQ(confusion["classes"][1]["name"], "square");
  EXPECT_NEAR(confusion["classes"][1]["iou"], both[1] / either[1], 5e-3);
  const std::string report = html_report(run_folder("a"));
  EXPECT_NE(report.find("image, truth, prediction"), std::string::npos);
  EXPECT_NE(report.find("mean IoU"), std::string::npos);
}

TEST_F(SegmentationRun, StoppedAnywhereItGoesOnToTheSameNumbers) {
  config_.epochs = 1;
  config_.augment = "crop,flip";
  config_.tune = "off";  // timed kernels could change within a run
  train("whole");
  for (const int64_t stop : {2, 0}) {
    config_.max_steps = stop;
    train("parts", true);
  }
  EXPECT_EQ(metrics("parts"), metrics("whole"));
}

TEST_F(SegmentationRun, WhatMakesNoSenseIsExplained) {
  config_.augment = "mixup";
  expect_error(ErrorCode::usage, {"mixup", "--augment"}, [&] { train("a"); });
  config_.augment = "none";
  config_.task = "classification";
  expect_error(ErrorCode::usage, {"--task", "unet-small"}, [&] { train("a"); });
  config_.task = "auto";
  config_.model = "cnn";
  expect_error(ErrorCode::usage, {"masks", "--model unet-small"}, [&] { train("a"); });
  config_.model = "unet-small";
  const std::string shapes = config_.data;
  config_.data = (folder_ / "data").string();  // without masks
  expect_error(ErrorCode::usage, {"masks/"}, [&] { train("a"); });
  config_.data = shapes;
  fs::remove(folder_ / "shapes" / "train" / "masks" / "03.png");
  expect_error(ErrorCode::io, {"03.png", "masks"}, [&] { train("a"); });
}

TEST_F(SegmentationRun, PairsThatCannotBeReadArePassedOver) {
  config_.epochs = 1;
  write_file_atomically(folder_ / "shapes" / "train" / "masks" / "02.png", "nothing");
  HostArray small(DType::u8, {8, 8, 1});
  write_file_atomically(folder_ / "shapes" / "train" / "masks" / "05.png", {Bytes(format_png(small))});
  train("a");
  const auto broken = summary("a")["broken"];
  ASSERT_EQ(broken.size(), 2U);
  EXPECT_NE(broken[0].get<std::string>().find("02.png"), std::string::npos);
  EXPECT_NE(broken[1].get<std::string>().find("8 x 8 pixels, its image 32 x 32"), std::string::npos);
}

}  // namespace
}  // namespace athanor
