// GPUs that no backend uses are reported.
#include "athanor/device/unused.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/machine_fixture.h"
#include "tests/support/temp_folder.h"

namespace athanor::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string unused_on(const std::string& name, const std::vector<DeviceInfo>& listed) {
  const TempFolder folder(TempFolder::Where::memory);
  MachineFixture(std::filesystem::path(ATHANOR_SOURCE_DIR "/tests/machines") / (name + ".machine"))
      .unpack(folder / "root");
  return unused_gpus(Machine(folder / "root"), listed);
}

const DeviceInfo cpu{{}, "a processor", "cpu", 0, {}};
const DeviceInfo gpu{{1, 0}, "a GPU", "gpu", 0, {}};

TEST(UnusedGpus, AreSaidWithTheReason) {
  EXPECT_THAT(unused_on("doctor/healthy-wsl", {cpu}),
              AllOf(HasSubstr("NVIDIA GPU is not used: "), HasSubstr("athanor doctor")));
  EXPECT_THAT(
      unused_on("doctor/trap-amd-and-nvidia", {cpu}),
      AllOf(HasSubstr("GeForceRTX4090 is not used: "), HasSubstr("AMD Radeon RX 6800 XT is not used: ")));
}

TEST(UnusedGpus, AreNoneWhereAllAreListed) {
  EXPECT_EQ(unused_on("rx6800xt", {cpu, gpu}), "");
  EXPECT_EQ(unused_on("phoenix-7900xtx", {cpu, gpu, gpu}), "");
  EXPECT_EQ(unused_on("cpu-server", {cpu}), "");
  // The same processor through OpenCL is not a GPU.
  EXPECT_THAT(unused_on("doctor/healthy-wsl", {cpu, {{1, 0}, "PoCL", "cpu", 0, {}}}), Not(HasSubstr("PoCL")));
}

}  // namespace
}  // namespace athanor::testing
