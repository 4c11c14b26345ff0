// Which GPUs environment variables hide, and that detect reports it.
#include "athanor/device/visibility.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/base/file.h"
#include "tests/support/temp_folder.h"

namespace athanor::testing {
namespace {

using ::testing::ElementsAre;

FoundDevice gpu_of_vendor(const std::string& vendor, const std::string& name, const std::string& uuid = "",
                          int64_t kfd_node = -1) {
  FoundDevice device;
  device.kind = "gpu";
  device.name = name;
  device.properties["vendor"].in_use.value = vendor;
  if (!uuid.empty()) device.properties["uuid"].in_use.value = uuid;
  if (kfd_node >= 0) device.properties["kfd_node"].in_use.value = kfd_node;
  return device;
}

// The setting that hides each device from a backend on a machine with these variables.
std::vector<std::string> hiding(const std::vector<FoundDevice>& devices, const std::string& backend,
                                const std::string& environment) {
  const TempFolder folder(TempFolder::Where::memory);
  std::filesystem::create_directories(folder / "proc/self");
  write_file_atomically(folder / "proc/self/environ", environment);
  const auto all = visibilities(devices, Machine(folder.path()));
  std::vector<std::string> settings;
  for (const FoundDevice& device : devices) settings.push_back(hidden_by(all, device, backend));
  return settings;
}

const std::vector<FoundDevice> two_alike = {gpu_of_vendor("NVIDIA", "L4", "GPU-1111"),
                                            gpu_of_vendor("NVIDIA", "L4", "GPU-1222")};
const std::vector<FoundDevice> two_kinds = {gpu_of_vendor("NVIDIA", "L4", "GPU-1111"),
                                            gpu_of_vendor("NVIDIA", "T4", "GPU-1222")};

TEST(Visibility, CountsAsCudaDoes) {
  EXPECT_THAT(hiding(two_alike, "cuda", ""), ElementsAre("", ""));
  EXPECT_THAT(hiding(two_alike, "cuda", "CUDA_VISIBLE_DEVICES=1\n"),
              ElementsAre("CUDA_VISIBLE_DEVICES=1", ""));
  EXPECT_THAT(hiding(two_alike, "cuda", "CUDA_VISIBLE_DEVICES=1,0\n"), ElementsAre("", ""));
  EXPECT_THAT(hiding(two_alike, "opencl", "CUDA_VISIBLE_DEVICES=1\n"),
              ElementsAre("CUDA_VISIBLE_DEVICES=1", ""));
  // Entries after a device that does not exist are ignored.
  EXPECT_THAT(hiding(two_alike, "cuda", "CUDA_VISIBLE_DEVICES=0,7,1\n"),
              ElementsAre("", "CUDA_VISIBLE_DEVICES=0,7,1"));
  for (const char* none : {"", "-1", "none", "NoDevFiles"})
    EXPECT_THAT(hiding(two_alike, "cuda", std::string("CUDA_VISIBLE_DEVICES=") + none + "\n"),
                ElementsAre(std::string("CUDA_VISIBLE_DEVICES=") + none,
                            std::string("CUDA_VISIBLE_DEVICES=") + none));
}

TEST(Visibility, KnowsUuids) {
  EXPECT_THAT(hiding(two_kinds, "cuda", "CUDA_VISIBLE_DEVICES=GPU-12\n"),
              ElementsAre("CUDA_VISIBLE_DEVICES=GPU-12", ""));
  // A prefix that two cards share selects none.
  EXPECT_THAT(hiding(two_kinds, "cuda", "CUDA_VISIBLE_DEVICES=GPU-1\n"),
              ElementsAre("CUDA_VISIBLE_DEVICES=GPU-1", "CUDA_VISIBLE_DEVICES=GPU-1"));
}

TEST(Visibility, IsUnknownWhereCudaPutsTheFastestFirst) {
  const auto unknown = [&](const std::string& environment) {
    const TempFolder folder(TempFolder::Where::memory);
    std::filesystem::create_directories(folder / "proc/self");
    write_file_atomically(folder / "proc/self/environ", environment);
    return visibilities(two_kinds, Machine(folder.path())).at(0).visible;
  };
  EXPECT_THAT(unknown("CUDA_VISIBLE_DEVICES=0\n"), ElementsAre(Visible::unknown, Visible::unknown));
  EXPECT_THAT(unknown("CUDA_VISIBLE_DEVICES=0\nCUDA_DEVICE_ORDER=PCI_BUS_ID\n"),
              ElementsAre(Visible::yes, Visible::no));
}

TEST(Visibility, CountsForHipWhatRocrLeft) {
  // The numbers are in KFD's order, which here is not that of the bus.
  const std::vector<FoundDevice> three = {gpu_of_vendor("AMD", "a", "", 3), gpu_of_vendor("AMD", "b", "", 1),
                                          gpu_of_vendor("AMD", "c", "", 2)};
  EXPECT_THAT(hiding(three, "hip", "HIP_VISIBLE_DEVICES=0\n"),
              ElementsAre("HIP_VISIBLE_DEVICES=0", "", "HIP_VISIBLE_DEVICES=0"));
  EXPECT_THAT(hiding(three, "opencl", "HIP_VISIBLE_DEVICES=0\n"), ElementsAre("", "", ""));
  EXPECT_THAT(hiding(three, "hip", "ROCR_VISIBLE_DEVICES=1,2\nHIP_VISIBLE_DEVICES=1\n"),
              ElementsAre("", "ROCR_VISIBLE_DEVICES=1,2", "HIP_VISIBLE_DEVICES=1"));
  EXPECT_THAT(hiding(three, "opencl", "ROCR_VISIBLE_DEVICES=1,2\nGPU_DEVICE_ORDINAL=1\n"),
              ElementsAre("", "ROCR_VISIBLE_DEVICES=1,2", "GPU_DEVICE_ORDINAL=1"));
  // HIP reads CUDA's variable if its own is empty or not set.
  EXPECT_THAT(hiding(three, "hip", "CUDA_VISIBLE_DEVICES=2\nHIP_VISIBLE_DEVICES=\n"),
              ElementsAre("", "CUDA_VISIBLE_DEVICES=2", "CUDA_VISIBLE_DEVICES=2"));
  EXPECT_THAT(hiding(three, "hip", "CUDA_VISIBLE_DEVICES=2\nHIP_VISIBLE_DEVICES=0,1,2\n"),
              ElementsAre("", "", ""));
}

}  // namespace
}  // namespace athanor::testing
