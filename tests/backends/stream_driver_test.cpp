// What CUDA and HIP share as a driver, over a table of functions that are made up.
#include "athanor/backends/gpu/stream_driver.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/expect_error.h"

namespace athanor::testing {
namespace {

thread_local bool has_context = false;  // whether the device is current in the thread
int events = 0, recording = 0;          // events that exist; how recording the next one ends

int make_event(void** event, unsigned) { return *event = &++events, 0; }
int end_event(void*) { return has_context ? --events, 0 : 201; }

gpu::StreamApi made_up() {
  gpu::StreamApi api{.missing = {}, .target = GpuTarget::cuda, .attributes = {}};
  api.device_name = [](char* name, int, int) { return name[0] = 'X', 0; };
  api.device_memory = [](size_t* bytes, int) { return *bytes = size_t{1} << 30, 0; };
  api.device_attribute = [](int* value, int, int) { return *value = 64, 0; };
  api.set_device = [](int) { return has_context = true, 0; };
  api.event_create = make_event;
  api.event_destroy = end_event;
  api.event_record = [](void*, void*) { return recording; };
  api.event_synchronize = [](void*) { return 0; };
  api.architecture = [](const gpu::StreamApi&, int) { return std::string("sm_86"); };
  return api;
}

const gpu::CompilerApi& no_compiler(int, const std::string&) {
  static const gpu::CompilerApi none = [] {
    gpu::CompilerApi api;
    api.missing = "there is none";
    return api;
  }();
  return none;
}

class StreamDriverTest : public ::testing::Test {
 protected:
  StreamDriverTest() {
    recording = 0;
    driver.open();
  }
  const gpu::StreamApi api = made_up();
  gpu::StreamDriver driver{api, no_compiler, 0, Device{1, 0}};
};

// A tensor may end in a thread that never used its device.
TEST_F(StreamDriverTest, GivesMarksBackInAnyThread) {
  const int before = events;
  const gpu::Mark mark = driver.mark(nullptr, false);
  std::thread([&] { driver.release(mark); }).join();
  EXPECT_EQ(events, before);
}

// An error of memory or of a link comes with whichever call is next, as a kernel's does.
TEST_F(StreamDriverTest, TellsErrorsOfEarlierWork) {
  driver.locate = [](const Error& error) { return error; };
  for (const int code : {214, 220, 700, 719}) {
    recording = code;
    expect_error(ErrorCode::device,
                 {"cannot record an event: earlier work failed: error " + std::to_string(code)},
                 [&] { driver.mark(nullptr, false); });
  }
  recording = 1;
  expect_error(ErrorCode::device, {"cannot record an event: error 1"}, [&] { driver.mark(nullptr, false); });
}

}  // namespace
}  // namespace athanor::testing
