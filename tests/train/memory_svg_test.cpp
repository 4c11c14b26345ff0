// The chart of a step's memory, read back from its rectangles and compared with the plan that it shows.
#include "athanor/train/memory_svg.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "athanor/base/text.h"
#include "athanor/compile/plan.h"
#include "athanor/train/fit.h"
#include "tests/support/matches.h"

namespace athanor {
namespace {

using ::testing::HasSubstr;

struct Box {
  double x, y, width, height;
};

std::vector<Box> boxes_in(const std::string& svg) {
  constexpr const char* box =
      R"re(<rect class="v (?:long|short)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"><title>)re";
  std::vector<Box> boxes;
  for (const testing::Match& at : testing::matches(svg, box))
    boxes.push_back({std::stod(at[1]), std::stod(at[2]), std::stod(at[3]), std::stod(at[4])});
  return boxes;
}

/// The y coordinate of a line: the axis of kernels, or the peak.
double height_of(const std::string& svg, const char* line) {
  const auto found =
      testing::first_match(svg, fmt::format(R"re(<path class="{}" d="M92 ([\d.]+)H880"/>)re", line));
  EXPECT_FALSE(found.empty()) << line;
  return found.empty() ? 0 : std::stod(found[1]);
}

class MemorySvg : public ::testing::TestWithParam<const char*> {
 protected:
  MemorySvg() {
    TrainConfig config = default_config(GetParam());
    const bool text = std::string_view(GetParam()) == "gpt2-nano";
    const ExampleSpec spec{.input = text ? Shape{32} : Shape{1, 28, 28},
                           .classes = text ? 256 : 10,
                           .normalization = {{0}, {1}}};
    plan_ = StepPlanner(task_without_data(config, spec), config, Device{}).plan({.batch_size = 32}, 0);
    svg_ = draw_memory(to_json(*plan_));
  }
  std::shared_ptr<const Plan> plan_;
  std::string svg_;
};

// To half a pixel, because values too flat to be seen are not drawn, and numbers in the file are rounded.
TEST_P(MemorySvg, ReachesThePeakThatIsPlanned) {
  const auto bytes = [](int64_t value) { return format_bytes(static_cast<uint64_t>(value)); };
  int64_t arena = 0;
  for (const auto& of : plan_->arenas) arena += of.bytes;
  EXPECT_THAT(svg_, HasSubstr(bytes(plan_->planned_memory_bytes()) + " in all"));
  EXPECT_THAT(svg_, HasSubstr(">" + bytes(arena) + "</text>")) << "the label of the peak";
  const std::vector<Box> boxes = boxes_in(svg_);
  ASSERT_FALSE(boxes.empty());
  double top = 1e9;
  for (const Box& box : boxes) top = std::min(top, box.y);
  EXPECT_NEAR(top, height_of(svg_, "peak"), 0.5);
}

TEST_P(MemorySvg, ShowsScratchMemory) {
  nlohmann::json plan = to_json(*plan_);
  auto& arena = plan["arenas"][0]["bytes"];
  auto& step = plan["steps"][1];
  step["scratch_offset"] = arena;
  step["scratch_bytes"] = 1 << 20;
  arena = arena.get<int64_t>() + (1 << 20);
  const std::string svg = draw_memory(plan);
  double top = 1e9;
  for (const Box& box : boxes_in(svg)) top = std::min(top, box.y);
  EXPECT_NEAR(top, height_of(svg, "peak"), 0.5);
  EXPECT_THAT(svg, HasSubstr("scratch memory, 1.00 MiB: kernels 1 to 1"));
}

TEST_P(MemorySvg, ShowsNoTwoValuesInOnePlace) {
  const std::vector<Box> boxes = boxes_in(svg_);
  const double bottom = height_of(svg_, "axis");
  for (size_t i = 0; i < boxes.size(); ++i) {
    EXPECT_LE(boxes[i].y + boxes[i].height, bottom + 0.21);
    EXPECT_LE(boxes[i].x + boxes[i].width, 880.21);
    for (size_t j = 0; j < i; ++j) {
      const Box &a = boxes[i], &b = boxes[j];
      const double across = std::min(a.x + a.width, b.x + b.width) - std::max(a.x, b.x);
      const double up = std::min(a.y + a.height, b.y + b.height) - std::max(a.y, b.y);
      EXPECT_TRUE(across < 0.21 || up < 0.21) << i << " covers " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MemorySvg, ::testing::Values("mlp", "cnn", "gpt2-nano"),
                         [](const auto& of) { return of.index == 2 ? "gpt" : of.param; });

}  // namespace
}  // namespace athanor
