#include "athanor/train/metrics.h"

#include <gtest/gtest.h>

#include "athanor/base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using testing::expect_error;
using testing::TempFolder;

TEST(Metrics, LinesKeepEveryDigit) {
  const TempFolder folder;
  const std::vector<StepMetrics> steps{
      {1, 1, 2.3025851249694824, 0.109375, 0.004}, {2, 1, 1e-310, 1.0 / 3, 0.1 + 0.2}, {3, 2, 0, 1, 1e-9}};
  std::string text;
  for (const auto& step : steps) text += to_line(step) + "\n";
  write_file_atomically(folder / "metrics.jsonl", text);
  EXPECT_EQ(read_metrics(folder / "metrics.jsonl"), steps);
  EXPECT_EQ(to_line(steps[0]),
            R"({"step":1,"epoch":1,"loss":2.3025851249694824,"accuracy":0.109375,"lr":0.004})");
}

TEST(Metrics, NamesABadLine) {
  const TempFolder folder;
  for (const char* line : {"{\"step\":2", "{\"step\":2}", "[]", "NaN"}) {
    write_file_atomically(folder / "metrics.jsonl", to_line({1, 1, 2, 0, 0.1}) + "\n" + line + "\n");
    expect_error(ErrorCode::format, {"metrics.jsonl:2"}, [&] { read_metrics(folder / "metrics.jsonl"); });
  }
}

TEST(Metrics, SumsAreMeansOverPictures) {
  MetricsSum sum;
  EXPECT_EQ(sum.mean_loss(), 0);
  sum.add(2, 3, 10);
  sum.add(5, 7, 30);
  EXPECT_DOUBLE_EQ(sum.mean_loss(), 4.25);
  EXPECT_DOUBLE_EQ(sum.accuracy(), 0.25);
}

}  // namespace
}  // namespace athanor
