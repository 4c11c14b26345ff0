#include "athanor/train/loss_svg.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "tests/support/matches.h"

namespace athanor {
namespace {

Curves some_curves(int64_t steps, int64_t steps_in_epoch) {
  Curves curves{
      .title = "cnn on <a & \"b\">", .subtitle = "batch 8", .steps = {}, .epochs = {}, .steps_in_all = steps};
  for (int64_t step = 1; step <= steps; ++step) {
    const double loss = 2.3 / static_cast<double>(step);
    curves.steps.push_back({step, step / steps_in_epoch + 1, loss, 1 - loss / 3, 0.1});
    if (step % steps_in_epoch == 0)
      curves.epochs.push_back({step / steps_in_epoch, step, loss, 0.5, loss, 0.6});
  }
  return curves;
}

/// The end of the tag that starts at `from`: the first '>' outside quotes; npos if another tag starts
/// before it.
size_t end_of_tag(const std::string& svg, size_t from) {
  bool quoted = false;
  for (size_t at = from + 1; at < svg.size(); ++at) {
    if (svg[at] == '<') return std::string::npos;
    if (svg[at] == '"') quoted = !quoted;
    if (svg[at] == '>' && !quoted) return at;
  }
  return std::string::npos;
}

/// Every element must be closed, in order; the document must be one element; numbers must be finite.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  int roots = 0;
  for (size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    const size_t end = end_of_tag(svg, at);
    ASSERT_NE(end, std::string::npos) << svg.substr(at, 80);
    const bool closes = svg[at + 1] == '/', is_whole = svg[end - 1] == '/';
    const size_t begin = at + 1 + closes;
    const std::string name = svg.substr(begin, svg.find_first_of(" \n/>", begin) - begin);
    ASSERT_FALSE(name.empty()) << svg.substr(at, 80);
    EXPECT_TRUE(std::ranges::all_of(name, [](unsigned char c) { return std::isalpha(c) != 0; })) << name;
    if (closes) {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), name);
      open.pop_back();
    } else {
      roots += open.empty();
      if (!is_whole) open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(roots, 1);
  EXPECT_EQ(testing::matches(svg, "[^a-z](nan|inf)[^a-z]").size(), 0U);
}

TEST(LossSvg, IsWellFormedWhateverTheRun) {
  for (const Curves& curves :
       {Curves{}, some_curves(1, 10), some_curves(2, 1), some_curves(30, 10), some_curves(5000, 500)})
    expect_well_formed(draw_curves(curves));
}

TEST(LossSvg, ShowsASingleStep) {
  const std::string svg = draw_curves(some_curves(1, 10));
  expect_well_formed(svg);
  EXPECT_NE(svg.find("step 1: loss 2.300"), std::string::npos);
  EXPECT_NE(svg.find("step 1: accuracy"), std::string::npos);
  // A path with a single point would draw nothing.
  EXPECT_EQ(testing::matches(svg, " d=\"M[0-9. ]*\"").size(), 0U);
}

TEST(LossSvg, ShowsATestThatIsNotOfAnEpoch) {
  Curves curves = some_curves(25, 10);
  curves.last_test = TestPoint{25, 0.123, 0.875};
  const std::string svg = draw_curves(curves);
  expect_well_formed(svg);
  for (const char* point :
       {"epoch 2: test accuracy 60.0 %", "step 25: test accuracy 87.5 %", "step 25: test loss 0.123"})
    EXPECT_NE(svg.find(point), std::string::npos) << point;
  curves.epochs.clear();
  const std::string alone = draw_curves(curves);
  EXPECT_NE(alone.find("step 25: test accuracy 87.5 %"), std::string::npos);
  EXPECT_NE(alone.find("test images"), std::string::npos) << "in the legend";
}

TEST(LossSvg, StandsByItselfInLightAndDark) {
  const std::string svg = draw_curves(some_curves(30, 10));
  EXPECT_NE(svg.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_NE(svg.find("cnn on &lt;a &amp; &quot;b&quot;&gt;"), std::string::npos);
  EXPECT_EQ(svg.find("href"), std::string::npos);
  EXPECT_EQ(svg.find("@import"), std::string::npos);
  EXPECT_NE(svg.find("epoch 3: test accuracy 60.0 %"), std::string::npos);
}

TEST(LossSvg, ManyStepsMakeNoLargeFile) { EXPECT_LT(draw_curves(some_curves(200000, 500)).size(), 200000U); }

TEST(LossSvg, OfADivergedRunCanBeDrawn) {
  Curves curves = some_curves(50, 10);
  for (size_t i = 30; i < 50; ++i) {
    curves.steps[i].loss = std::pow(10.0, static_cast<double>(i));
    curves.steps[i].accuracy = 0.05;
  }
  curves.steps.back().loss = std::numeric_limits<double>::quiet_NaN();
  const std::string svg = draw_curves(curves);
  expect_well_formed(svg);
  EXPECT_EQ(testing::matches(svg, "[0-9]{6}\\.[0-9]").size(), 0U) << "a coordinate or a label is too long";
  EXPECT_NE(svg.find(">0 %<"), std::string::npos) << "the axis holds all means of the accuracy";
}

TEST(LossSvg, WildLossesLeaveTheRestVisible) {
  Curves curves = some_curves(300, 100);
  for (size_t i = 10; i < 300; i += 100) curves.steps[i].loss = 1e30;
  expect_well_formed(draw_curves(curves));
}

}  // namespace
}  // namespace athanor
