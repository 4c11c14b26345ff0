#include "athanor/data/text.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "athanor/base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using testing::expect_error;
using testing::TempFolder;

/// The tokens 0, 1, 2, ..., so that a window shows where it begins.
std::shared_ptr<const TokenText> counting(int32_t count) {
  TokenText text{.tokens = std::vector<int32_t>(static_cast<size_t>(count)), .bytes = count};
  std::iota(text.tokens.begin(), text.tokens.end(), 0);
  return std::make_shared<const TokenText>(std::move(text));
}

std::vector<int64_t> values(const HostArray& array) {
  return {array.as<int64_t>().begin(), array.as<int64_t>().end()};
}

TEST(Text, IsCutBetweenTwoCharacters) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "ü";
  write_file_atomically(folder / "a.txt", text);
  for (const double share : {0.1, 0.333, 0.5, 0.9}) {
    const SplitText split = read_text(folder / "a.txt", *byte_tokenizer(), share);
    EXPECT_EQ(split.train.bytes + split.test.bytes, 200);
    EXPECT_EQ(split.train.bytes % 2, 0) << share;
    EXPECT_NEAR(static_cast<double>(split.test.bytes), 200 * share, 2);
    EXPECT_EQ(byte_tokenizer()->decode(split.train.tokens) + byte_tokenizer()->decode(split.test.tokens),
              text);
  }
  EXPECT_EQ(read_text(folder / "a.txt", *byte_tokenizer(), 1).train.bytes, 0);
  write_file_atomically(folder / "b.txt", "");
  expect_error(ErrorCode::value, {"empty", "b.txt"},
               [&] { read_text(folder / "b.txt", *byte_tokenizer(), 0.1); });
}

TEST(TextBatches, APassIsTheWholeTextInWindows) {
  TextBatches batches(counting(1000), {.context = 10, .batch_size = 3, .seed = 5, .least_batches = 1});
  EXPECT_EQ(batches.batches(), 99 / 3);
  std::set<int64_t> starts;
  while (const auto batch = batches.next()) {
    EXPECT_EQ(batch->inputs.shape, (Shape{3, 10}));
    const auto inputs = values(batch->inputs), labels = values(batch->labels);
    for (size_t i = 0; i < 30; ++i) {
      EXPECT_EQ(labels[i], inputs[i] + 1);
      EXPECT_EQ(inputs[i], inputs[i / 10 * 10] + static_cast<int64_t>(i % 10));
    }
    for (size_t window = 0; window < 3; ++window) starts.insert(inputs[window * 10]);
  }
  EXPECT_EQ(starts.size(), 99U) << "each once";
  for (const int64_t start : starts) EXPECT_EQ(start % 10, *starts.begin() % 10) << "one after the other";
}

TEST(TextBatches, AShortTextIsPassedSeveralTimesInAnEpoch) {
  TextBatches batches(counting(50), {.context = 8, .batch_size = 4, .seed = 1, .least_batches = 10});
  EXPECT_GE(batches.batches(), 10);
  EXPECT_LT(batches.batches(), 13);
  std::set<int64_t> offsets;
  while (const auto batch = batches.next()) offsets.insert(values(batch->inputs)[0] % 8);
  EXPECT_GT(offsets.size(), 1U) << "passes begin at different tokens";
}

TEST(TextBatches, GoOnFromAPositionWithTheSame) {
  const WindowOptions options{.context = 8, .batch_size = 4, .seed = 1, .least_batches = 5};
  TextBatches whole(counting(100), options);
  std::vector<std::vector<int64_t>> all;
  std::vector<LoaderState> states;
  for (int i = 0; i < 15; ++i) {
    states.push_back(whole.state());
    const auto batch = whole.next();
    all.push_back(batch ? values(batch->inputs) : std::vector<int64_t>());
  }
  for (size_t at = 0; at < states.size(); ++at) {
    TextBatches part(counting(100), options);
    part.restore(states[at]);
    const auto batch = part.next();
    EXPECT_EQ(batch ? values(batch->inputs) : std::vector<int64_t>(), all[at]) << at;
  }
  TextBatches other(counting(100), options);
  expect_error(ErrorCode::value, {"batch 99"}, [&] { other.restore({0, 99}); });
}

TEST(TextBatches, ATextShorterThanAWindowIsRefused) {
  expect_error(ErrorCode::value, {"8 tokens", "--context"},
               [] { TextBatches(counting(8), {.context = 8, .batch_size = 1}); });
  TextBatches just(counting(9), {.context = 8, .batch_size = 2, .least_batches = 3});
  EXPECT_EQ(just.batches(), 3);
  EXPECT_EQ(values(just.next()->labels)[15], 8);
}

TEST(TextTestBatches, EveryTokenButTheFirstIsATargetOnce) {
  for (const int count : {2, 8, 9, 10, 63, 64, 65, 100}) {
    TextTestBatches batches(counting(count), 8, 4);
    EXPECT_EQ(batches.count(), count - 1);
    std::vector<int64_t> targets;
    int64_t number = 0;
    while (const auto batch = batches.next()) {
      ++number;
      const auto inputs = values(batch->inputs), labels = values(batch->labels);
      for (size_t i = 0; i < labels.size(); ++i) {
        if (labels[i] == -100) continue;
        EXPECT_EQ(labels[i], inputs[i] + 1);
        targets.push_back(labels[i]);
      }
    }
    EXPECT_EQ(number, batches.batches());
    std::vector<int64_t> wanted(static_cast<size_t>(count - 1));
    std::iota(wanted.begin(), wanted.end(), 1);
    EXPECT_EQ(targets, wanted) << count;
  }
  EXPECT_EQ(TextTestBatches(counting(100), 8, 4, 3).count(), 24);
  expect_error(ErrorCode::value, {"1 token", "--validation"}, [] { TextTestBatches(counting(1), 8, 4); });
}

}  // namespace
}  // namespace athanor
