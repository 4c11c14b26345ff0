// Event files of runs, read by a reader that shares no code with the writer.
#include "athanor/train/tensorboard_log.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>

#include "athanor/base/file.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

/// Tag -> step -> value; a text's value is its length.
using Scalars = std::map<std::string, std::map<int64_t, double>>;

uint64_t number_at(std::string_view text, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i)
    value |= static_cast<uint64_t>(static_cast<unsigned char>(text.at(i))) << (8 * i);
  return value;
}

/// CRC-32C bit by bit, masked as in TensorFlow.
uint32_t masked_checksum(std::string_view text) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78U : crc >> 1;
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

uint64_t take_varint(std::string_view& text) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(text.at(0));
    text.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
}

/// The fields of a protocol buffer: number -> contents (numbers as 8 bytes).
std::multimap<uint64_t, std::string> fields_of_message(std::string_view text) {
  std::multimap<uint64_t, std::string> fields;
  while (!text.empty()) {
    const uint64_t key = take_varint(text);
    uint64_t length = 0;
    std::string content;
    switch (key & 7) {
      case 0: {
        const uint64_t value = take_varint(text);
        content.assign(reinterpret_cast<const char*>(&value), sizeof(value));
        break;
      }
      case 1:
        length = 8;
        break;
      case 5:
        length = 4;
        break;
      default:
        length = take_varint(text);
    }
    if ((key & 7) != 0) {
      content = text.substr(0, length);
      text.remove_prefix(length);
    }
    fields.emplace(key >> 3, content);
  }
  return fields;
}

Scalars read_events(const std::filesystem::path& file) {
  Scalars scalars;
  const std::string all = read_text_file(file);
  std::string_view rest = all;
  for (bool first = true; !rest.empty(); first = false) {
    const uint64_t length = number_at(rest, 8);
    EXPECT_EQ(number_at(rest.substr(8), 4), masked_checksum(rest.substr(0, 8)));
    const std::string_view data = rest.substr(12, length);
    EXPECT_EQ(number_at(rest.substr(12 + length), 4), masked_checksum(data));
    rest.remove_prefix(16 + length);
    const auto event = fields_of_message(data);
    EXPECT_GT(std::bit_cast<double>(number_at(event.find(1)->second, 8)), 1.7e9) << "seconds since 1970";
    EXPECT_EQ(first, event.contains(3));
    if (first) {
      EXPECT_EQ(event.find(3)->second, "brain.Event:2");
      continue;
    }
    const auto step = static_cast<int64_t>(number_at(event.find(2)->second, 8));
    const auto summary = fields_of_message(event.find(5)->second);
    for (auto [at, end] = summary.equal_range(1); at != end; ++at) {
      const auto value = fields_of_message(at->second);
      const std::string tag = value.find(1)->second;
      EXPECT_FALSE(scalars[tag].contains(step)) << tag;
      scalars[tag][step] =
          value.contains(2)
              ? static_cast<double>(
                    std::bit_cast<float>(static_cast<uint32_t>(number_at(value.find(2)->second, 4))))
              : static_cast<double>(fields_of_message(value.find(8)->second).find(8)->second.size());
    }
  }
  return scalars;
}

std::vector<std::filesystem::path> event_files(const RunFolder& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& file : folder.files())
    if (file.filename().string().starts_with("events.")) files.push_back(file);
  return files;
}

class TensorBoardRun : public testing::TrainerTest {};

TEST_F(TensorBoardRun, HasEveryStepAndTest) {
  config_.tensorboard = true;
  train("a");
  const auto files = event_files(run_folder("a"));
  ASSERT_EQ(files.size(), 1U);
  const Scalars scalars = read_events(files.front());
  const auto steps = read_metrics(run_folder("a").metrics());
  ASSERT_EQ(steps.size(), 20U);
  for (const StepMetrics& step : steps) {
    EXPECT_EQ(scalars.at("loss/train").at(step.step), static_cast<float>(step.loss));
    EXPECT_EQ(scalars.at("accuracy/train").at(step.step), static_cast<float>(step.accuracy));
    EXPECT_EQ(scalars.at("learning_rate").at(step.step), static_cast<float>(step.lr));
  }
  const auto result = summary("a");
  EXPECT_EQ(scalars.at("loss/test").size(), 2U);
  EXPECT_EQ(scalars.at("loss/test").at(20), result["test_loss"].get<float>());
  EXPECT_EQ(scalars.at("accuracy/test").at(20), result["test_accuracy"].get<float>());
  EXPECT_EQ(scalars.at("f1/test").at(20), result["test_f1"].get<float>());
}

TEST_F(TensorBoardRun, GoesOnInAnotherFile) {
  config_.tensorboard = true;
  config_.max_steps = 7;
  train("a");
  config_.max_steps = 0;
  train("a", true);
  const auto files = event_files(run_folder("a"));
  ASSERT_EQ(files.size(), 2U);
  const Scalars first = read_events(files[0]), second = read_events(files[1]);
  EXPECT_EQ(first.at("loss/train").size(), 7U);
  EXPECT_EQ(first.at("loss/test").count(7), 1U) << "tested where it was stopped";
  EXPECT_EQ(second.at("loss/train").begin()->first, 8);
  EXPECT_EQ(second.at("loss/train").rbegin()->first, 20);
  config_.tensorboard = false;
  train("b");
  EXPECT_TRUE(event_files(run_folder("b")).empty());
}

// TensorBoard shows none of a text if a byte of it is not valid UTF-8.
TEST_F(TensorBoardRun, TextIsUtf8) {
  train("a");
  TensorBoardLog(run_folder("a")).add_text(1, "a\xF8");
  const Scalars scalars = read_events(event_files(run_folder("a")).front());
  EXPECT_EQ(scalars.at("sample").at(1), std::string("a\xEF\xBF\xBD").size());
}

}  // namespace
}  // namespace athanor
