// Runs of the trainer on a small dataset made up here.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "athanor/base/file.h"
#include "athanor/formats/npy.h"
#include "athanor/train/trainer.h"
#include "tests/support/temp_folder.h"

namespace athanor::testing {

/// 8x8 pictures; the number of the brighter quarter is the class.
inline void write_pictures(const std::filesystem::path& folder, const std::string& split, int64_t count) {
  HostArray images(DType::u8, {count, 8, 8}), labels(DType::i64, {count});
  uint32_t state = 7;
  for (int64_t n = 0; n < count; ++n) {
    const int64_t label = n % 4;
    labels.as<int64_t>()[static_cast<size_t>(n)] = label;
    for (int64_t i = 0; i < 64; ++i) {
      const bool inside = (i / 8 / 4) * 2 + i % 8 / 4 == label;
      state = state * 1664525 + 1013904223;
      images.as<uint8_t>()[static_cast<size_t>(n * 64 + i)] =
          static_cast<uint8_t>((state >> 25) + (inside ? 100 : 0));
    }
  }
  write_npy(folder / (split + "_images.npy"), images);
  write_npy(folder / (split + "_labels.npy"), labels);
}

/// Text whose lines differ little.
inline std::string repeating_text(const std::string& word) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += word + ", " + std::to_string(i % 7) + "\n";
  return text;
}

class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest() {
    std::filesystem::create_directories(folder_ / "data");
    write_pictures(folder_ / "data", "train", 84);
    write_pictures(folder_ / "data", "test", 20);
    config_.model = "mlp";
    config_.data = (folder_ / "data").string();
    config_.epochs = 2;
    config_.batch_size = 8;  // ten steps per epoch, with four pictures left out
    config_.threads = 1;
    config_.seed = 3;
    config_.lr = 0.02;
  }

  /// Uses a language model on the text, in windows of 16.
  void use_text(const std::string& model, const std::string& text) {
    config_ = default_config(model);
    config_.data = (folder_ / "text.txt").string();
    write_file_atomically(config_.data, text);
    config_.context = 16;
    config_.batch_size = 8;
    config_.epochs = 1;
    config_.threads = 1;
    config_.lr = 0.01;
    config_.sample = 0;
    config_.device = "cpu";
  }

  RunFolder run_folder(const std::string& name) const { return {folder_ / name}; }

  RunEnd train(const std::string& name, bool resume = false) {
    Reporter nobody;
    Trainer trainer(config_, run_folder(name), resume, nobody);
    return trainer.run();
  }

  std::string metrics(const std::string& name) const { return read_text_file(run_folder(name).metrics()); }

  nlohmann::json summary(const std::string& name) const {
    return nlohmann::json::parse(read_text_file(run_folder(name).summary()));
  }

  TempFolder folder_;
  TrainConfig config_;
};

}  // namespace athanor::testing
