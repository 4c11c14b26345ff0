// What CUDA and HIP share as a driver, over a table of functions that are made up.
#include "athanor/backends/gpu/stream_driver.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/expect_error.h"

namespace athanor::testing {
namespace {

thread_local bool has_context = false;  // whether the device is current in the thread
int events = 0, recording = 0;          // events that exist; how recording the next one ends
int query = 0;                          // how asking whether one has passed ends
int choosing = 0;                       // how making the device current ends

int make_event(void** event, unsigned) { return *event = &++events, 0; }
int end_event(void*) { return has_context ? --events, 0 : 201; }

// CUDA has handles for devices; their numbers in the list are not these.
constexpr int first_handle = 40;
int retained = 0;

gpu::StreamApi made_up() {
  gpu::StreamApi api{.missing = {}, .target = GpuTarget::cuda, .attributes = {}};
  api.device_name = [](char* name, int, int) { return name[0] = 'X', 0; };
  api.device_memory = [](size_t* bytes, int) { return *bytes = size_t{1} << 30, 0; };
  api.device_attribute = [](int* value, int, int) { return *value = 64, 0; };
  api.set_device = [](int) { return has_context = choosing == 0, choosing; };
  api.event_create = make_event;
  api.event_destroy = end_event;
  api.event_record = [](void*, void*) { return recording; };
  api.event_synchronize = [](void*) { return 0; };
  api.event_query = [](void*) { return query; };
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

TEST(StreamDrivers, TakeTheHandleOfTheirDevice) {
  gpu::StreamApi api = made_up();
  api.init = [](unsigned) { return 0; };
  api.device_count = [](int* count) { return *count = 2, 0; };
  api.device_get = [](int* handle, int number) { return *handle = first_handle + number, 0; };
  api.device_name = [](char* name, int, int handle) { return name[0] = static_cast<char>(handle), 0; };
  api.device_memory = [](size_t* bytes, int handle) { return *bytes = static_cast<size_t>(handle), 0; };
  api.device_pci_address = [](char* text, int, int handle) { return text[0] = static_cast<char>(handle), 0; };
  api.device_attribute = [](int* value, int, int handle) { return *value = handle, 0; };
  api.architecture = [](const gpu::StreamApi&, int handle) { return "sm_" + std::to_string(handle); };
  api.retain = [](void** context, int handle) { return *context = &retained, retained = handle, 0; };
  api.set_context = [](void*) { return 0; };
  const auto list = gpu::list_devices(api, no_compiler, 1);
  ASSERT_EQ(list.size(), 2U);
  for (size_t number = 0; number < 2; ++number) {
    gpu::Driver& driver = *list[number];
    const int handle = first_handle + static_cast<int>(number);
    const DeviceInfo& info = driver.facts().info;
    EXPECT_EQ(info.device.index, number);
    EXPECT_EQ(info.name, std::string(1, static_cast<char>(handle)));
    EXPECT_EQ(info.memory_bytes, static_cast<uint64_t>(handle));
    EXPECT_EQ(info.properties.at("architecture").value, "sm_" + std::to_string(handle));
    EXPECT_EQ(info.properties.at("PCI address").value, info.name);
    EXPECT_EQ(driver.facts().traits.max_group_size, handle);
    driver.open();
    EXPECT_EQ(retained, handle);
  }
}

// A tensor may end in a thread that never used its device.
TEST_F(StreamDriverTest, GivesMarksBackInAnyThread) {
  const int before = events;
  const gpu::Mark mark = driver.mark(nullptr, false);
  std::thread([&] { driver.release(mark); }).join();
  EXPECT_EQ(events, before);
}

// Work that follows without waiting would read what is not there yet.
TEST_F(StreamDriverTest, AMarkHasNotPassedIfAskingFails) {
  const gpu::Mark mark = driver.mark(nullptr, false);
  for (const auto& [code, passed] : {std::pair(0, true), std::pair(600, false), std::pair(719, false)}) {
    query = code;
    EXPECT_EQ(driver.passed(mark), passed) << code;
  }
  query = 0;
  driver.release(mark);
}

// Who asks may be giving back captured launches, where an error would end the program.
TEST_F(StreamDriverTest, AMarkOfALostDeviceHasNotPassed) {
  const gpu::Mark mark = driver.mark(nullptr, false);
  choosing = 719;
  EXPECT_FALSE(driver.passed(mark));
  choosing = 0;
  EXPECT_TRUE(driver.passed(mark));
  driver.release(mark);
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
