#include "athanor/base/throttle.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

namespace athanor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The lines printed by all threads.
class Printed {
 public:
  void operator()(const std::string& line) {
    const std::scoped_lock lock(mutex_);
    lines_.push_back(line);
    more_.notify_all();
  }
  std::vector<std::string> after(size_t count) {
    std::unique_lock lock(mutex_);
    more_.wait_for(lock, std::chrono::seconds(20), [&] { return lines_.size() >= count; });
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<std::string> lines_;
};

TEST(Throttle, NamesWhatLastsWhileItLasts) {
  Printed printed;
  Throttle throttle(0.05, std::ref(printed));
  throttle.say("the first of two");
  throttle.say("what takes long");  // and no other message after it
  EXPECT_THAT(printed.after(1), ElementsAre("what takes long"));
  throttle.say("what takes long too");
  EXPECT_THAT(printed.after(2), ElementsAre("what takes long", "what takes long too"));
}

TEST(Throttle, SaysNothingOfWhatIsSoonDone) {
  Printed printed;
  { Throttle(1000, std::ref(printed)).say("soon done"); }
  EXPECT_THAT(printed.after(0), IsEmpty());
}

TEST(Throttle, ALineAtOnceTakesThePlaceOfOneThatWaits) {
  Printed printed;
  {
    Throttle throttle(1000, std::ref(printed));
    throttle.say("waits");
    throttle.say_at_once("a new thing");
  }
  EXPECT_THAT(printed.after(0), ElementsAre("a new thing"));
}

}  // namespace
}  // namespace athanor
