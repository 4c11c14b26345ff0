// Tokens hidden in a text.
#include "athanor/data/masked_text.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::expect_error;

constexpr Masking of_bytes{.mask = 256, .vocabulary = 256, .seed = 3};

std::shared_ptr<const TokenText> counting(int64_t tokens) {
  TokenText text{.tokens = {}, .bytes = tokens};
  for (int64_t i = 0; i < tokens; ++i) text.tokens.push_back(static_cast<int32_t>(i % 256));
  return std::make_shared<const TokenText>(std::move(text));
}

TEST(MaskedText, HidesAsBertDoes) {
  constexpr int64_t window = 200, windows = 400, chosen = 30;
  int64_t masks = 0, same = 0, other = 0;
  std::set<size_t> places;
  for (int64_t i = 0; i < windows; ++i) {
    std::vector<int64_t> tokens(window, 7), targets(window);
    RandomStream random(1, 0, static_cast<uint64_t>(i));
    hide_tokens(tokens, targets, of_bytes, random);
    int64_t named = 0;
    for (size_t at = 0; at < tokens.size(); ++at) {
      if (targets[at] == -100) {
        EXPECT_EQ(tokens[at], 7) << "only chosen tokens change";
        continue;
      }
      EXPECT_EQ(targets[at], 7);
      ++named;
      places.insert(at);
      ++(tokens[at] == 256 ? masks : tokens[at] == 7 ? same : other);
      EXPECT_LE(tokens[at], 256);
    }
    EXPECT_EQ(named, chosen);
  }
  EXPECT_EQ(places.size(), window) << "any place can be chosen";
  constexpr double all = windows * chosen;
  EXPECT_NEAR(static_cast<double>(masks) / all, 0.8, 0.012);  // over three standard deviations
  EXPECT_NEAR(static_cast<double>(other) / all, 0.1, 0.009);
  EXPECT_NEAR(static_cast<double>(same) / all, 0.1, 0.009);
  EXPECT_EQ(hidden_in(3, of_bytes), 1);
}

TEST(MaskedText, AnEpochDependsOnItsNumberOnly) {
  const WindowOptions options{.context = 16, .batch_size = 2, .seed = 3, .least_batches = 1};
  MaskedTextBatches whole(counting(200), options, of_bytes), again(counting(200), options, of_bytes);
  std::vector<Batch> seen;
  while (auto batch = whole.next()) seen.push_back(std::move(*batch));
  ASSERT_EQ(std::ssize(seen), whole.batches());
  again.restore({0, 2});
  const auto third = again.next();
  EXPECT_EQ(third->inputs.bytes, seen[2].inputs.bytes);
  EXPECT_EQ(third->labels.bytes, seen[2].labels.bytes);
  again.restore({1, 0});
  whole.restore({1, 0});
  const auto next = whole.next();
  EXPECT_EQ(next->inputs.bytes, again.next()->inputs.bytes);
  EXPECT_NE(next->labels.bytes, seen[0].labels.bytes) << "others in each epoch";
}

TEST(MaskedText, TestsHideTheSameWhateverTheBatch) {
  const auto named = [](int64_t batch_size) {
    MaskedTextTestBatches batches(counting(150), 20, batch_size, of_bytes);
    EXPECT_EQ(batches.count(), 7 * 3) << "ten tokens do not fill a window";
    std::vector<std::pair<int64_t, int64_t>> found;
    int64_t at = 0;
    while (const auto batch = batches.next()) {
      EXPECT_EQ(batch->inputs.shape[0], batch_size);
      const auto inputs = batch->inputs.as<int64_t>(), targets = batch->labels.as<int64_t>();
      for (size_t i = 0; i < targets.size(); ++i, ++at)
        if (targets[i] != -100) {
          EXPECT_EQ(targets[i], at % 256);
          found.emplace_back(at, inputs[i]);
        }
    }
    return found;
  };
  EXPECT_EQ(named(1).size(), 21U);
  EXPECT_EQ(named(3), named(1));
  EXPECT_EQ(named(7), named(1));
  expect_error(ErrorCode::value, {"10 tokens", "--validation"},
               [] { MaskedTextTestBatches(counting(10), 20, 1, of_bytes); });
}

}  // namespace
}  // namespace athanor
