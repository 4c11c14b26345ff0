// The chip for a PCI id, if no driver reports it.
#include "athanor/device/gpu_models.h"

#include <gtest/gtest.h>

#include <string>

#include "athanor/device/pci.h"

namespace athanor {
namespace {

std::string arch_of(int64_t vendor, int64_t device) {
  const GpuModel* const model = find_gpu_model(vendor, device);
  return model == nullptr ? "unknown" : model->arch;
}

TEST(GpuModels, KnowCardsSince2012) {
  using namespace pci_vendor;
  EXPECT_EQ(arch_of(nvidia, 0x102d), "sm_37");    // Tesla K80, its id is among those of GK110
  EXPECT_EQ(arch_of(nvidia, 0x1023), "sm_35");    // Tesla K40m
  EXPECT_EQ(arch_of(nvidia, 0x1004), "sm_35");    // GeForce GTX 780
  EXPECT_EQ(arch_of(nvidia, 0x1287), "sm_35");    // GeForce GT 730
  EXPECT_EQ(arch_of(nvidia, 0x1187), "sm_30");    // GeForce GTX 760
  EXPECT_EQ(arch_of(nvidia, 0x0fc1), "sm_30");    // GeForce GT 640
  EXPECT_EQ(arch_of(nvidia, 0x1049), "sm_21");    // GeForce GT 620
  EXPECT_EQ(arch_of(nvidia, 0x1080), "sm_20");    // GeForce GTX 580
  EXPECT_EQ(arch_of(nvidia, 0x1380), "sm_50");    // GeForce GTX 750 Ti
  EXPECT_EQ(arch_of(amd, 0x6798), "gfx600");      // Radeon HD 7970
  EXPECT_EQ(arch_of(amd, 0x6818), "gfx601");      // Radeon HD 7870
  EXPECT_EQ(arch_of(amd, 0x6611), "gfx602");      // Radeon R7 240
  EXPECT_EQ(arch_of(amd, 0x67b1), "gfx701");      // Radeon R9 290
  EXPECT_EQ(arch_of(amd, 0x6939), "gfx802");      // Radeon R9 380
  EXPECT_EQ(arch_of(amd, 0x7300), "gfx803");      // Radeon R9 Fury
  EXPECT_EQ(arch_of(amd, 0x67ef), "gfx803");      // Radeon RX 560
  EXPECT_EQ(arch_of(amd, 0x699f), "gfx803");      // Radeon RX 550
  EXPECT_EQ(arch_of(amd, 0x15dd), "gfx902");      // Ryzen 5 2400G
  EXPECT_EQ(arch_of(intel, 0x1616), "bdw");       // HD Graphics 5500
  EXPECT_EQ(arch_of(nvidia, 0x0191), "unknown");  // GeForce 8800 GTX
}

TEST(GpuModels, KnowOlderChipsThatNothingComputesOn) {
  using namespace pci_vendor;
  EXPECT_EQ(arch_of(amd, 0x6718), "cayman");   // Radeon HD 6970
  EXPECT_EQ(arch_of(amd, 0x6898), "cypress");  // Radeon HD 5870
  EXPECT_EQ(arch_of(amd, 0x689c), "hemlock");  // Radeon HD 5970, between two ranges of Cypress
  EXPECT_EQ(arch_of(amd, 0x6841), "turks");    // Radeon HD 7550M; 0x683f is a Radeon HD 7700
  EXPECT_EQ(arch_of(amd, 0x68f9), "cedar");    // Radeon HD 5450
  EXPECT_EQ(arch_of(amd, 0x9440), "rv770");    // Radeon HD 4870
  EXPECT_EQ(arch_of(amd, 0x9990), "aruba");    // Radeon HD 7660G
  EXPECT_EQ(arch_of(amd, 0x7142), "unknown");  // Radeon X1300
  EXPECT_EQ(arch_of(intel, 0x0166), "ivb");    // HD Graphics 4000
  EXPECT_EQ(arch_of(intel, 0x0412), "hsw");
  EXPECT_EQ(arch_of(intel, 0x0d22), "hsw");  // Iris Pro Graphics 5200
  EXPECT_EQ(arch_of(intel, 0x0102), "unknown");
  EXPECT_EQ(find_gpu_model(intel, 0x0d22)->name, "Intel Iris Pro Graphics 5200 (Haswell)");
}

TEST(GpuModels, KnowJetsonThor) {
  EXPECT_EQ(arch_of(pci_vendor::nvidia, 0x2b00), "sm_110");
  EXPECT_EQ(arch_of(pci_vendor::nvidia, 0x2b85), "sm_120");
}

TEST(GpuModels, KnowWhatIsPartOfAProcessor) {
  for (const int64_t device : {0x15dd, 0x15d8, 0x1506, 0x130f, 0x98e4, 0x9802, 0x964a, 0x9907, 0x9715})
    EXPECT_TRUE(find_gpu_model(pci_vendor::amd, device)->integrated) << device;
  for (const int64_t device : {0x0152, 0x0a16, 0x1616})
    EXPECT_TRUE(find_gpu_model(pci_vendor::intel, device)->integrated) << device;
  EXPECT_FALSE(find_gpu_model(pci_vendor::amd, 0x67ef)->integrated);
}

}  // namespace
}  // namespace athanor
