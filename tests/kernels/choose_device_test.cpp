#include "athanor/kernels/choose_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "athanor/base/error.h"
#include "athanor/device/provider_names.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/timing.h"
#include "tests/kernels/fake_device.h"
#include "tests/support/expect_error.h"
#include "tests/support/machine_fixture.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using ::testing::HasSubstr;

/// Devices without remembered timings, and the times that their matrix product takes: one after the other,
/// and the last one from then on.
class ChooseDevice : public ::testing::Test {
 protected:
  /// Number 0 is the host's CPU.
  DeviceInfo device(uint8_t number, const char* kind, std::vector<Measured> times) {
    static const uint8_t provider = testing::FakeDevice::fresh().device().provider;
    DeviceInfo info;
    if (number > 0) info.device = {provider, number};
    info.kind = kind;
    info.name = "compared device " + std::to_string(number) + " " + serial_;
    times_[info.name] = std::move(times);
    return info;
  }
  static Measured quiet(double seconds) { return {.winner = "k", .seconds = seconds}; }
  static Measured busy(double seconds) {
    return {.winner = "k", .seconds = seconds, .busy = true, .disturbed = true};
  }

  /// A device like one that OpenCL lists; OpenCL itself is not called.
  DeviceInfo opencl_device(std::vector<Measured> times) {
    DeviceInfo info = device(2, "gpu", std::move(times));
    for (uint8_t id = 0; provider_of({id, 0}).name() != "opencl";) info.device = {++id, 0};
    return info;
  }
  static bool has_opencl() {
    const auto names = provider_names();
    return std::find(names.begin(), names.end(), "opencl") != names.end();
  }

  DeviceChoice choice(const std::vector<DeviceInfo>& devices) {
    timed_ = 0;
    return choose_among(devices, [&](const DeviceInfo& info) {
      ++timed_;
      auto& times = times_.at(info.name);
      if (times.empty()) throw Error(ErrorCode::device, "the driver said no");
      Measured now = times.front();
      if (times.size() > 1) times.erase(times.begin());
      return now;
    });
  }

  int timed_ = 0;
  std::map<std::string, std::vector<Measured>> times_;
  std::string serial_ = std::to_string(std::random_device()()) + std::to_string(std::random_device()());
};

TEST_F(ChooseDevice, TakesTheFastestAndRemembersIt) {
  const std::vector<DeviceInfo> all{device(0, "cpu", {quiet(2e-3)}), device(1, "gpu", {quiet(1e-3)})};
  EXPECT_EQ(choice(all).device, all[1].device);
  EXPECT_EQ(timed_, 2);
  EXPECT_THAT(choice(all).why, HasSubstr("the fastest here"));
  EXPECT_EQ(timed_, 0);
}

TEST_F(ChooseDevice, RemembersHowFarTimesVaried) {
  Measured uneven = quiet(1e-3);
  uneven.spread = 0.25;
  const DeviceInfo cpu = device(0, "cpu", {quiet(2e-3)}), gpu = device(1, "gpu", {uneven});
  EXPECT_EQ(choice({cpu, gpu}).device, gpu.device);
  const auto entries = KernelCache::instance().entries();
  const auto kept = std::ranges::find_if(entries, [&](const KernelCache::Entry& entry) {
    return entry.key.find(gpu.name) != std::string::npos && entry.key.ends_with("|speed");
  });
  ASSERT_NE(kept, entries.end());
  EXPECT_EQ(kept->spread, 0.25);
}

// On a machine with GPUs that no backend reaches.
TEST_F(ChooseDevice, SaysWhichGpusNothingUses) {
  const testing::TempFolder folder;
  testing::MachineFixture(
      std::filesystem::path(ATHANOR_SOURCE_DIR "/tests/machines/doctor/healthy-wsl.machine"))
      .unpack(folder / "root");
  const std::vector<DeviceInfo> listed{device(0, "cpu", {quiet(1e-3)})};
  const auto time = [&](const DeviceInfo& info) { return times_.at(info.name).front(); };
  const DeviceChoice taken = choose_device("auto", Machine(folder / "root"), listed, time);
  EXPECT_EQ(taken.device, Device{});
  EXPECT_THAT(taken.why, HasSubstr("NVIDIA GPU is not used: "));
  testing::expect_error(ErrorCode::device, {"no device here is a GPU: ", "NVIDIA GPU is not used: "},
                        [&] { choose_device("gpu", Machine(folder / "root"), listed, time); });
}

TEST_F(ChooseDevice, NeverTakesTheSameProcessorThroughOpenCl) {
  const std::vector<DeviceInfo> all{device(0, "cpu", {quiet(20e-3)}), device(1, "cpu", {quiet(1e-3)})};
  const DeviceChoice taken = choice(all);
  EXPECT_EQ(taken.device, Device{});
  EXPECT_THAT(taken.why, HasSubstr("the only device here; "));
  EXPECT_THAT(taken.why, HasSubstr("is the same processor"));
  EXPECT_EQ(timed_, 0) << "there is nothing to compare";
  EXPECT_EQ(choice({all[1]}).device, all[1].device) << "unless there is nothing else";
}

TEST_F(ChooseDevice, RepeatsACloseComparison) {
  // The CPU's first time is unusually slow.
  const std::vector<DeviceInfo> all{device(0, "cpu", {quiet(1.1e-3), quiet(0.9e-3)}),
                                    device(1, "gpu", {quiet(1e-3)})};
  EXPECT_EQ(choice(all).device, Device{});
  EXPECT_GT(timed_, 2);
  EXPECT_EQ(choice(all).device, Device{});
  EXPECT_EQ(timed_, 0) << "what was repeated stands";
}

TEST_F(ChooseDevice, ComparesAgainWhatWasComparedOnABusyMachine) {
  // Another process made the CPU seem ten times slower than it is.
  const DeviceInfo gpu = device(1, "gpu", {quiet(2e-3)});
  const DeviceInfo cpu = device(0, "cpu", {busy(10e-3)});
  const DeviceChoice first = choice({cpu, gpu});
  EXPECT_EQ(first.device, gpu.device);
  EXPECT_THAT(first.why, HasSubstr("busy"));
  EXPECT_EQ(timed_, 4) << "each once, the CPU twice more";
  times_[cpu.name] = {quiet(1e-3)};
  EXPECT_EQ(choice({cpu, gpu}).device, cpu.device);
  EXPECT_EQ(timed_, 1) << "the other's time stands";
  EXPECT_EQ(choice({cpu, gpu}).device, cpu.device);
  EXPECT_EQ(timed_, 0);
}

TEST_F(ChooseDevice, TakesAMachineThatIsAlwaysBusyAsItIs) {
  const std::vector<DeviceInfo> all{device(0, "cpu", {busy(10e-3)}), device(1, "gpu", {busy(2e-3)})};
  for (int process = 0; process < most_disturbed; ++process) {
    EXPECT_EQ(choice(all).device, all[1].device);
    EXPECT_GT(timed_, 0);
  }
  choice(all);
  EXPECT_EQ(timed_, 0);
}

// The same card through two backends: the first is in place of CUDA's, the second is OpenCL.
TEST_F(ChooseDevice, TakesACardThroughItsVendorsBackend) {
  if (!has_opencl()) GTEST_SKIP() << "this build has no OpenCL";
  const DeviceInfo cpu = device(0, "cpu", {quiet(20e-3)});
  DeviceInfo native = device(1, "gpu", {quiet(2e-3)}), opencl = opencl_device({quiet(1e-3)});
  native.properties["PCI address"] = opencl.properties["PCI address"] = {"0000:03:00.0", "test"};
  const DeviceChoice taken = choice({opencl, cpu, native});
  EXPECT_EQ(taken.device, native.device);
  EXPECT_THAT(taken.why, HasSubstr("opencl:0 is the same card as fake:1"));
  EXPECT_EQ(timed_, 2) << "OpenCL is not timed";
  // A card with the same name at another address is another device.
  opencl.properties["PCI address"] = {"0000:43:00.0", "test"};
  EXPECT_EQ(choice({opencl, cpu, native}).device, opencl.device);
  // Now it is remembered that OpenCL is twice as fast.
  opencl.properties["PCI address"] = native.properties["PCI address"];
  const DeviceChoice measured = choice({opencl, cpu, native});
  EXPECT_EQ(measured.device, opencl.device);
  EXPECT_THAT(measured.why, HasSubstr("fake:1 is slower on the same card"));
}

TEST_F(ChooseDevice, TakesACardThroughOpenClWhereNothingElseWorks) {
  if (!has_opencl()) GTEST_SKIP() << "this build has no OpenCL";
  const DeviceInfo cpu = device(0, "cpu", {quiet(20e-3)});
  DeviceInfo native = device(1, "gpu", {}), opencl = opencl_device({quiet(1e-3)});
  // The card behind the OpenCL device is not known, but only one card has this vendor and chip.
  native.properties = {{"PCI address", {"0000:03:00.0", "test"}},
                       {"vendor", {"NVIDIA", "test"}},
                       {"architecture", {"sm_86", "test"}}};
  opencl.properties = {{"vendor", {"NVIDIA Corporation", "test"}}, {"architecture", {"sm_86", "test"}}};
  const DeviceChoice taken = choice({cpu, native, opencl});
  EXPECT_EQ(taken.device, opencl.device);
  EXPECT_THAT(taken.why, HasSubstr("fake:1 is left out: the driver said no"));
}

TEST_F(ChooseDevice, LeavesOutWhatFails) {
  const DeviceInfo cpu = device(0, "cpu", {quiet(1e-3)}), gpu = device(1, "gpu", {});
  const DeviceChoice taken = choice({cpu, gpu});
  EXPECT_EQ(taken.device, Device{});
  EXPECT_THAT(taken.why, HasSubstr("the driver said no"));
  EXPECT_THROW(choice({gpu, device(2, "gpu", {})}), Error);
}

}  // namespace
}  // namespace athanor
