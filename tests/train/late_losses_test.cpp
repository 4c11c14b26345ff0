// The trainer reads losses late and uploads batches early, so that a device always has the next step. The
// device here reports work as ended only after a wait for it.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "athanor/kernels/trace.h"
#include "tests/kernels/fake_device.h"
#include "tests/train/trainer_fixture.h"

namespace athanor {
namespace {

struct HostSpan {
  double begin, end;
};

/// The host's spans with a name, in order.
std::vector<HostSpan> spans_of(const Trace& trace, const std::string& name) {
  std::vector<HostSpan> spans;
  const auto json = nlohmann::json::parse(trace.json());
  for (const auto& event : json["traceEvents"])
    if (event["ph"] == "X" && event["name"] == name)
      spans.push_back({event["ts"], event["ts"].get<double>() + event["dur"].get<double>()});
  std::ranges::sort(spans, {}, &HostSpan::begin);
  return spans;
}

class LateLosses : public testing::TrainerTest {
 protected:
  LateLosses() {
    testing::FakeDevice& fake = testing::FakeDevice::fresh();
    fake.late = true;
    config_.device = to_string(fake.device());
    config_.deterministic = true;  // so kernels are not timed
    config_.epochs = 1;
  }
  ~LateLosses() override { testing::FakeDevice::fresh(); }
};

TEST_F(LateLosses, AreReadBehindTwoFurtherSteps) {
  const Trace trace;
  EXPECT_EQ(train("a"), RunEnd::finished);
  const auto steps = spans_of(trace, "step"), waits = spans_of(trace, "wait for the loss");
  ASSERT_EQ(steps.size(), 10U);
  ASSERT_EQ(waits.size(), 10U);
  for (size_t k = 0; k + 2 < steps.size(); ++k) {
    EXPECT_GT(waits[k].begin, steps[k + 2].begin) << k;
    EXPECT_LT(waits[k].end, steps[k + 2].end) << k;  // but no later
  }
}

TEST_F(LateLosses, TheNextBatchGoesUpWhileTheDeviceComputes) {
  const Trace trace;
  EXPECT_EQ(train("a"), RunEnd::finished);
  const auto steps = spans_of(trace, "step"), launches = spans_of(trace, "launch"),
             uploads = spans_of(trace, "upload"), waits = spans_of(trace, "wait for the loss");
  ASSERT_EQ(launches.size(), 10U);
  ASSERT_GE(uploads.size(), 10U);
  for (size_t k = 0; k + 1 < steps.size(); ++k) {
    EXPECT_GT(uploads[k + 1].begin, launches[k].end) << k;
    EXPECT_LT(uploads[k + 1].end, steps[k].end) << k;
    EXPECT_LT(uploads[k + 1].end, waits[k].begin) << k;
  }
}

}  // namespace
}  // namespace athanor
