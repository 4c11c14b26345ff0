#include "athanor/train/class_counts.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "athanor/train/confusion_svg.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

using ::testing::HasSubstr;

// The numbers are from sklearn.metrics: f1_score(average="macro"), precision_score(average=None),
// recall_score(average=None), confusion_matrix.
TEST(ClassCounts, AgreesWithScikitLearn) {
  const std::vector<int64_t> right{0, 1, 2, 0, 1, 2, 2, 0}, answer{0, 2, 1, 0, 0, 1, 2, 1};
  ClassCounts counts(4);  // class 3 never occurs, and is not part of the mean
  for (size_t i = 0; i < right.size(); ++i) counts.add(right[i], answer[i]);
  EXPECT_EQ(counts.count(2, 1), 2);
  EXPECT_EQ(counts.count(1, 1), 0);
  EXPECT_NEAR(counts.precision(0), 2.0 / 3, 1e-12);
  EXPECT_NEAR(counts.recall(2), 1.0 / 3, 1e-12);
  EXPECT_EQ(counts.f1(1), 0);
  EXPECT_NEAR(counts.macro_f1(), 0.35555555555555557, 1e-12);
  EXPECT_EQ(counts.accuracy(), 0.375);
  EXPECT_EQ(worst_mistake(counts, {"cat", "dog", "owl"}), "owl is taken for dog most often (2 of 3)");
}

TEST(ClassCounts, TopFiveByScores) {
  HostArray scores(DType::f32, {4, 7});
  const auto put = [&](size_t row, std::vector<float> values) {
    std::ranges::copy(values, scores.as<float>().begin() + static_cast<std::ptrdiff_t>(7 * row));
  };
  put(0, {9, 8, 7, 6, 5, 4, 3});   // the right class 4 has the fifth score
  put(1, {9, 8, 7, 6, 5, 4, 3});   // the right class 5 has the sixth score
  put(2, {1, 1, 1, 1, 1, 1, 1});   // an equal score is not larger
  put(3, {0, 0, 0, 0, 0, 0, 50});  // ignored: its target is -100
  const auto targets = HostArray::of<int64_t>({4}, std::vector<int64_t>{4, 5, 6, -100});
  ClassCounts counts(7);
  counts.add(scores, targets);
  EXPECT_EQ(counts.total(), 3);
  EXPECT_NEAR(counts.top5().value(), 2.0 / 3, 1e-12);
  EXPECT_EQ(counts.count(6, 0), 1) << "the first of equals";
  EXPECT_FALSE(ClassCounts(5).top5());
}

TEST(ClassCounts, JsonHasAll) {
  ClassCounts counts(3);
  counts.add(0, 0, 5);
  counts.add(2, 1, 4);
  const auto [again, names] = class_counts_from_json(to_json(counts, {"a", "b", "c"}));
  EXPECT_EQ(again, counts);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "c"}));
}

TEST(ClassCounts, PictureNamesEveryCell) {
  ClassCounts counts(2);
  counts.add(0, 0, 7);
  counts.add(0, 1, 3);
  counts.add(1, 1, 1200);
  const std::string svg = draw_confusion(counts, {"<a>", "b"}, "T & t", "s");
  EXPECT_THAT(svg, HasSubstr("3 of 10 examples of &lt;a&gt;: taken for b"));
  EXPECT_THAT(svg, HasSubstr("1,200 of 1,200 examples of b: right"));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(svg, HasSubstr("T &amp; t"));
  EXPECT_THAT(draw_confusion(counts, {"", "b"}, "T", "s"), HasSubstr("examples of : taken for b"));
}

class RunClasses : public testing::TrainerTest {};

TEST_F(RunClasses, AreCountedInEveryTest) {
  train("a");
  const auto result = summary("a");
  const auto json = nlohmann::json::parse(read_text_file(run_folder("a").confusion()));
  const auto [counts, names] = class_counts_from_json(json);
  EXPECT_EQ(counts.total(), 20) << "each test image once; the last batch is filled up";
  EXPECT_NEAR(counts.accuracy(), result["test_accuracy"], 1e-12) << "as the device counts it";
  EXPECT_NEAR(counts.macro_f1(), result["test_f1"], 1e-12);
  EXPECT_EQ(result["epoch_metrics"].back()["test_f1"], result["test_f1"]);
  EXPECT_FALSE(result.contains("test_top5_accuracy")) << "of four classes";
  EXPECT_EQ(json["step"], 20);
  EXPECT_THAT(read_text_file(run_folder("a").confusion_svg()), HasSubstr("what the model answers"));
}

}  // namespace
}  // namespace athanor
