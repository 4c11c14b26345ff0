// What `detect` reports on whole machines: those in tests/machines, and recorded ones if they are available.
#include "athanor/device/detect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "tests/support/machine_fixture.h"
#include "tests/support/temp_folder.h"

namespace athanor::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class DetectTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef ATHANOR_TEST_OPENCL
    GTEST_SKIP() << "recorded machines are looked at with every backend; this build has no OpenCL";
#endif
  }
  Detection detect_fixture(const std::string& name, const std::string& more = "") {
    fs::remove_all(folder_ / "root");
    fs::path file = fs::path(ATHANOR_SOURCE_DIR "/tests/machines") / (name + ".machine");
    if (!more.empty()) {
      write_file_atomically(folder_ / "changed.machine", "include " + file.string() + "\n" + more);
      file = folder_ / "changed.machine";
    }
    MachineFixture(file).unpack(folder_ / "root");
    return detect(Machine(folder_ / "root"));
  }
  TempFolder folder_{TempFolder::Where::memory};
};

int count_of(const Detection& found, const std::string& kind) {
  return static_cast<int>(std::count_if(found.devices.begin(), found.devices.end(),
                                        [&](const FoundDevice& device) { return device.kind == kind; }));
}

// The values of all sources, such as "72 kfd, 36 hip work-group processors, ..."
std::string said(const FoundDevice& device, const std::string& property) {
  const auto found = device.properties.find(property);
  if (found == device.properties.end()) return "";
  const auto one = [&](const Reading& reading) {
    return to_text(property, reading.value) + " " + reading.source +
           (reading.meaning.empty() ? "" : " " + reading.meaning);
  };
  std::string text = one(found->second.in_use);
  for (const Reading& other : found->second.others) text += ", " + one(other);
  return text;
}

std::string note(const FoundDevice& device, const std::string& property) {
  const auto found = device.properties.find(property);
  return found == device.properties.end() ? "" : found->second.note;
}

const BackendUse& use_of(const FoundDevice& device, const std::string& backend) {
  static const BackendUse none{"none", false, "", "not listed"};
  for (const BackendUse& use : device.backends)
    if (use.backend == backend) return use;
  return none;
}

TEST_F(DetectTest, Rx6800Xt) {
  const Detection found = detect_fixture("rx6800xt");
  ASSERT_EQ(found.devices.size(), 2U);
  const FoundDevice& card = found.devices[0];
  EXPECT_EQ(card.name, "AMD Radeon RX 6800 XT");
  EXPECT_EQ(said(card, "compute_units"),
            "72 kfd, 36 hip work-group processors, 36 opencl work-group processors, 72 data sheet");
  EXPECT_EQ(card.text("launch_mode"), "WGP");
  EXPECT_EQ(card.text("architecture"), "gfx1030");
  EXPECT_EQ(said(card, "wave_width"), "32 kfd, 32 hip, 32 opencl");
  EXPECT_EQ(card.number("memory_bytes"), 17163091968);
  EXPECT_EQ(card.number("l3_cache_bytes"), 128 << 20);
  EXPECT_EQ(card.text("render_node"), "/dev/dri/renderD128");
  EXPECT_EQ(card.text("family"), "RDNA2 Navi21");
  EXPECT_TRUE(use_of(card, "opencl").usable);
  EXPECT_EQ(use_of(card, "opencl").device, "opencl:0");
  EXPECT_EQ(use_of(card, "hip").device, "hip:0");
  EXPECT_THAT(found.dangers, IsEmpty());
  const FoundDevice& cpu = found.devices[1];
  EXPECT_EQ(cpu.name, "AMD Ryzen 7 5800X 8-Core Processor");
  EXPECT_EQ(cpu.number("compute_units"), 8);
  EXPECT_EQ(cpu.number("threads"), 16);
  EXPECT_EQ(cpu.number("l3_cache_bytes"), 32 << 20);
  EXPECT_EQ(cpu.number("clock_mhz"), 4850);
}

// Rusticl's llvmpipe reports 300 MHz for every processor.
TEST_F(DetectTest, TheClockOfAProcessorIsNotADrivers) {
  const Detection found = detect_fixture(
      "rx6800xt", "++ /machine.toml\n[[opencl]]\nname = \"llvmpipe\"\nkind = \"cpu\"\nclock_mhz = 300\n");
  ASSERT_EQ(found.devices.back().kind, "cpu");
  EXPECT_EQ(said(found.devices.back(), "clock_mhz"), "4850 MHz sysfs");
}

TEST_F(DetectTest, Rx7900XtxInAHalfSlot) {
  const Detection found = detect_fixture("rx7900xtx");
  const FoundDevice& card = found.devices.at(0);
  EXPECT_EQ(card.name, "AMD Radeon RX 7900 XTX");
  EXPECT_EQ(card.number("compute_units"), 96);
  // The slot's link, not the one between the card's switch and its GPU, which always has all lanes.
  EXPECT_EQ(card.text("pcie_link"), "16.0 GT/s x8");
  EXPECT_EQ(card.text("pcie_link_best"), "16.0 GT/s x16");
  EXPECT_EQ(card.text("matrix_units"), "WMMA");
}

// A link reaches the lower of the card's and the slot's limits, in speed and in lanes.
TEST_F(DetectTest, TheSlotLimitsTheLink) {
  const auto in_slot = [&](const char* machine, const char* root, const char* speed, const char* lanes) {
    const std::string port = std::string("== /sys/devices/pci0000:00/0000:00:") + root;
    return detect_fixture(machine, port + "/max_link_speed\n" + speed + " GT/s PCIe\n" + port +
                                       "/max_link_width\n" + lanes + "\n")
        .devices.at(0);
  };
  FoundDevice card = in_slot("rx7900xtx", "01.1", "16.0", "8");
  EXPECT_EQ(said(card, "pcie_link_best"),
            "16.0 GT/s x8 pci of the slot, 16.0 GT/s x16 pci, PCIe4 x16 data sheet");
  EXPECT_EQ(note(card, "pcie_link"), "");  // the link is that fast
  card = in_slot("rx7900xtx", "01.1", "32.0", "16");
  EXPECT_EQ(card.text("pcie_link_best"), "16.0 GT/s x16");
  EXPECT_THAT(note(card, "pcie_link"), HasSubstr("should reach 16.0 GT/s x16."));  // the slot allows more
  card = in_slot("rx6600x2", "01.1", "8.0", "16");
  EXPECT_EQ(card.text("pcie_link_best"), "8.0 GT/s x8");
  EXPECT_EQ(note(card, "pcie_link"), "");
}

TEST_F(DetectTest, EightMi300X) {
  const Detection found = detect_fixture("mi300x8");
  EXPECT_EQ(count_of(found, "gpu"), 8);
  const FoundDevice& first = found.devices[0];
  EXPECT_EQ(first.name, "AMD Instinct MI300X");
  EXPECT_EQ(first.text("pci_address"), "0000:0c:00.0");
  EXPECT_EQ(said(first, "compute_units"), "304 kfd, 304 hip, 304 opencl, 304 data sheet");
  EXPECT_EQ(first.text("launch_mode"), "");  // no work-group processors on CDNA
  EXPECT_EQ(first.text("architecture"), "gfx942");
  EXPECT_EQ(first.number("wave_width"), 64);
  EXPECT_EQ(first.text("partition_mode"), "SPX");
  EXPECT_EQ(found.devices[7].number("numa_node"), 1);
  EXPECT_EQ(use_of(found.devices[7], "opencl").device, "opencl:7");
  EXPECT_EQ(found.devices[8].number("sockets"), 2);
}

TEST_F(DetectTest, PartsOfAPartitionedDevice) {
  // CPX mode: several KFD nodes at the same bus address, numbered in the top bits of location_id.
  const Detection found = detect_fixture(
      "mi300x8", "include " ATHANOR_SOURCE_DIR
                 "/tests/machines/include/amd-kfd-node.machine NODE=10 GFX=90402 SIMDS=152 PER_CU=4 ARRAYS=4 "
                 "PER_ARRAY=10 WAVE=64 WAVES=8 DEVICE_DECIMAL=29857 LOCATION=268438528 RENDER=136 HIVE=1 "
                 "VRAM=25767706624 BITS=8192 SCLK=2100 MCLK=1300 L2=4096 L3=0 XCC=1\n"
                 "--- /sys/class/kfd/kfd/topology/nodes/3\n--- /sys/bus/pci/devices/0000:22:00.0\n"
                 "--- /sys/class/drm/card2\n--- /sys/devices/pci0000:20\n== /machine.toml\n");
  EXPECT_EQ(count_of(found, "gpu"), 8);  // seven whole devices, and a second part of the first one
  EXPECT_EQ(found.devices[1].number("partition"), 1);
  EXPECT_EQ(found.devices[1].number("compute_units"), 38);
}

TEST_F(DetectTest, Rtx4090) {
  const Detection found = detect_fixture("rtx4090");
  ASSERT_EQ(found.devices.size(), 2U);
  const FoundDevice& card = found.devices[0];
  EXPECT_EQ(card.name, "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(card.text("architecture"), "sm_89");
  EXPECT_EQ(said(card, "compute_units"), "128 cuda, 128 opencl, 128 data sheet");
  EXPECT_EQ(card.text("driver_version"), "570.86.15");
  EXPECT_EQ(card.text("pcie_link"), "2.5 GT/s x16");
  EXPECT_THAT(note(card, "pcie_link"), HasSubstr("slow down when idle"));
  EXPECT_THAT(note(card, "f16"), HasSubstr("does not let kernels"));
  EXPECT_EQ(use_of(card, "cuda").device, "cuda:0");
  EXPECT_TRUE(use_of(card, "opencl").usable);
}

TEST_F(DetectTest, EightH100WithoutOpenCl) {
  const Detection found = detect_fixture("h100x8");
  EXPECT_EQ(count_of(found, "gpu"), 8);
  EXPECT_EQ(found.devices[0].text("data_sheet"), "H100 SXM5");
  EXPECT_EQ(found.devices[0].number("compute_units"), 132);
  EXPECT_THAT(use_of(found.devices[0], "opencl").reason, HasSubstr("no driver to load"));
}

TEST_F(DetectTest, ArcA770) {
  const Detection found = detect_fixture("arc-a770");
  const FoundDevice& card = found.devices.at(0);
  EXPECT_EQ(card.text("data_sheet"), "Arc A770 16GB");
  EXPECT_EQ(card.text("pcie_link"), "16.0 GT/s x16");  // the bridge's link, not 2.5 GT/s x1
  EXPECT_EQ(card.number("clock_mhz"), 2400);
  EXPECT_TRUE(use_of(card, "opencl").usable);
}

TEST_F(DetectTest, IntegratedBesideDiscrete) {
  const Detection found = detect_fixture("phoenix-7900xtx");
  ASSERT_EQ(count_of(found, "gpu"), 2);
  EXPECT_EQ(found.devices[0].number("compute_units"), 96);
  const FoundDevice& apu = found.devices[1];
  EXPECT_EQ(apu.name, "AMD Radeon 780M Graphics");
  EXPECT_EQ(said(apu, "compute_units"),
            "12 kfd, 6 hip work-group processors, 6 opencl work-group processors");
  EXPECT_EQ(said(apu, "memory_bytes"),
            "29.3 GiB kfd what kernels may use, 4.00 GiB amdgpu set aside for the GPU, 29.3 GiB hip, 29.3 "
            "GiB opencl");
  EXPECT_EQ(use_of(apu, "opencl").device, "opencl:1");
}

TEST_F(DetectTest, KfdThatMiscountsAnApu) {
  const Detection found =
      detect_fixture("phoenix-7900xtx", R"(include )" ATHANOR_SOURCE_DIR
                                        "/tests/machines/include/amd-kfd-node.machine NODE=2 GFX=110003 "
                                        "SIMDS=54 PER_CU=2 ARRAYS=2 PER_ARRAY=6 WAVE=32 "
                                        "WAVES=16 DEVICE_DECIMAL=5567 LOCATION=25600 RENDER=129 HIVE=0 "
                                        "VRAM=31433977856 BITS=128 SCLK=2700 MCLK=800 "
                                        "L2=2048 L3=0 XCC=1\n");
  const FoundDevice& apu = found.devices.at(1);
  EXPECT_EQ(apu.number("compute_units"), 12);
  EXPECT_THAT(said(apu, "compute_units"), HasSubstr("27 kfd"));
  EXPECT_THAT(note(apu, "compute_units"), HasSubstr("known to miscount"));
}

TEST_F(DetectTest, KfdThatTheGraphicsDriverContradicts) {
  const Detection found =
      detect_fixture("steamdeck", "include " ATHANOR_SOURCE_DIR
                                  "/tests/machines/include/amd-kfd-node.machine NODE=1 GFX=100303 SIMDS=54 "
                                  "PER_CU=2 ARRAYS=2 PER_ARRAY=4 WAVE=32 "
                                  "WAVES=16 DEVICE_DECIMAL=5695 LOCATION=1024 RENDER=128 HIVE=0 "
                                  "VRAM=8234315776 BITS=128 SCLK=1600 MCLK=800 "
                                  "L2=1024 L3=0 XCC=1\n++ /machine.toml\n[[drm]]\nvendor = "
                                  "\"AMD\"\nrender_minor = 128\ncompute_units = 8\n");
  ASSERT_EQ(count_of(found, "gpu"), 1);
  EXPECT_EQ(said(found.devices[0], "compute_units"), "8 drm, 27 kfd, 8 opencl");
  EXPECT_THAT(note(found.devices[0], "compute_units"), HasSubstr("known to miscount"));
}

TEST_F(DetectTest, WindowsSubsystem) {
  const Detection found = detect_fixture("wsl-rtx4090");
  ASSERT_EQ(count_of(found, "gpu"), 1);
  EXPECT_EQ(found.devices[0].name, "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(found.devices[0].text("driver_version"), "572.16");
}

TEST_F(DetectTest, ContainerWithoutDevices) {
  const Detection found = detect_fixture("container-bare");
  const FoundDevice& card = found.devices.at(0);
  EXPECT_EQ(card.name, "AMD Radeon RX 6800 XT");
  EXPECT_EQ(use_of(card, "hip").reason, "there is no /dev/kfd");
  EXPECT_EQ(use_of(card, "opencl").reason, "there is no /dev/kfd");
}

TEST_F(DetectTest, ServerWithoutGpus) {
  const Detection found = detect_fixture("cpu-server");
  ASSERT_EQ(found.devices.size(), 1U);  // its display controller does not compute
  EXPECT_EQ(found.devices[0].kind, "cpu");
  EXPECT_EQ(use_of(found.devices[0], "cpu").device, "cpu");
  EXPECT_THAT(note(found.devices[0], "memory_bytes"), HasSubstr("unified memory"));
  const Fact& memory = found.devices[0].properties.at("memory_bytes");
  for (const Reading& other : memory.others) EXPECT_EQ(other.meaning, "what a program may use");
  EXPECT_FALSE(memory.others.empty());
  EXPECT_EQ(use_of(found.devices[0], "opencl").device, "opencl:0");
  EXPECT_EQ(found.devices[0].number("numa_nodes"), 2);
}

TEST_F(DetectTest, NamesEachOpenClDriverOfADevice) {
  const Detection found = detect_fixture("cpu-server", R"toml(++ /machine.toml
[[opencl]]
name = "llvmpipe (LLVM 15.0.6, 256 bits)"
kind = "cpu"
platform = "rusticl"
driver = "22.3.6"
compute_units = 32
)toml");
  ASSERT_EQ(found.devices.size(), 1U);
  std::vector<std::string> names;
  for (const BackendUse& use : found.devices[0].backends) names.push_back(use.device);
  EXPECT_THAT(names, ::testing::ElementsAre("cpu", "opencl:0", "opencl:1"));
}

TEST_F(DetectTest, HandheldWithMesa) {
  const Detection found = detect_fixture("steamdeck");
  const FoundDevice& apu = found.devices.at(0);
  EXPECT_EQ(apu.name, "AMD Custom GPU 0405");
  EXPECT_EQ(said(apu, "compute_units"), "8 kfd, 8 opencl");  // Mesa counts units, not work-group processors
  EXPECT_EQ(apu.text("launch_mode"), "");
  EXPECT_EQ(said(apu, "memory_bytes").substr(0, 8), "7.67 GiB");
}

TEST_F(DetectTest, TheSameCardTwice) {
  const Detection found = detect_fixture("rx6600x2");
  ASSERT_EQ(count_of(found, "gpu"), 2);
  EXPECT_EQ(use_of(found.devices[0], "opencl").device, "opencl:0");
  EXPECT_EQ(use_of(found.devices[1], "opencl").device, "opencl:1");
  // By its data sheet the card has 8 lanes. PCI's 16 are inside the card.
  EXPECT_EQ(said(found.devices[0], "pcie_link_best"),
            "16.0 GT/s x8 data sheet, 16.0 GT/s x16 pci, PCIe4 x8 data sheet");
  EXPECT_THAT(note(found.devices[0], "pcie_link"), HasSubstr("should reach 16.0 GT/s x8."));
  EXPECT_EQ(found.devices[1].text("pcie_link"), "8.0 GT/s x4");
  EXPECT_THAT(note(found.devices[1], "pcie_link"), HasSubstr("x8, if the slot has as many lanes."));
  ASSERT_EQ(found.dangers.size(), 1U);
  EXPECT_EQ(found.dangers[0].setting, "HIP_VISIBLE_DEVICES=0");
  for (const RuntimeState& runtime : found.runtimes)
    EXPECT_EQ(runtime.settings.size(), runtime.name == "hip" ? 1U : 0U) << runtime.name;
  EXPECT_EQ(found.dangers[0].what, "hides AMD Radeon RX 6600 at 0000:06:00.0 from HIP");
  EXPECT_EQ(use_of(found.devices[0], "hip").device, "hip:0");
  EXPECT_EQ(use_of(found.devices[1], "hip").hidden_by, "HIP_VISIBLE_DEVICES=0");
  EXPECT_EQ(use_of(found.devices[1], "hip").reason, "hidden by HIP_VISIBLE_DEVICES=0");
}

TEST_F(DetectTest, ClosedToThisUser) {
  const Detection found = detect_fixture(
      "rx6800xt",
      "== /proc/self/status\nUid:\t1000\t1000\nGid:\t1000\t1000\nGroups:\t1000\n== /machine.toml\n"
      "[files.\"/dev/kfd\"]\nmode = \"0660\"\ngid = 992\n");
  EXPECT_EQ(use_of(found.devices.at(0), "hip").reason,
            "you may not open /dev/kfd: it is for the group render, and you are not in it");
}

TEST_F(DetectTest, NamesDangerousSettings) {
  const auto dangers = [&](const std::string& fixture, const std::string& environment) {
    std::string all;
    for (const Danger& danger : detect_fixture(fixture, "== /proc/self/environ\n" + environment).dangers)
      all += fmt::format("{}: {}\n", danger.setting, danger.what);
    return all;
  };
  EXPECT_THAT(dangers("rx7900xtx", "HSA_OVERRIDE_GFX_VERSION=10.3.0\n"),
              HasSubstr("run kernels for gfx1030 on AMD Radeon RX 7900 XTX, which is gfx1100: they fault"));
  EXPECT_THAT(dangers("rx6600x2", "HSA_OVERRIDE_GFX_VERSION=10.3.0\n"), HasSubstr("the same instructions"));
  EXPECT_EQ(dangers("rx6800xt", "HSA_OVERRIDE_GFX_VERSION=10.3.0\n"), "");
  EXPECT_THAT(dangers("rx6800xt", "HSA_OVERRIDE_GFX_VERSION=gfx1030\n"), HasSubstr("not a version"));
  EXPECT_THAT(dangers("rx6800xt", "GPU_ENABLE_WGP_MODE=0\n"), HasSubstr("single compute units"));
  EXPECT_THAT(dangers("rx6800xt", "GPU_ENABLE_WAVE32_MODE=0\n"), HasSubstr("waves of 64"));
  EXPECT_EQ(dangers("mi300x8", "GPU_ENABLE_WAVE32_MODE=0\n"), "");  // waves of 64 are right for this chip
  EXPECT_THAT(
      dangers("rtx4090",
              "CUDA_VISIBLE_DEVICES=\n== /machine.toml\n[runtimes]\ncuda = \"the CUDA driver finds no "
              "device: CUDA_ERROR_NO_DEVICE (100)\"\n"),
      HasSubstr("hides NVIDIA GeForce RTX 4090 at 0000:01:00.0 from CUDA, OpenCL"));
  EXPECT_EQ(dangers("rtx4090", "CUDA_VISIBLE_DEVICES=\n"), "");  // CUDA lists it all the same
}

TEST_F(DetectTest, ShowsWhatTheUserSays) {
  const std::string file =
      "== /home/ada/.config/athanor/devices.toml\n[\"*6800 xt*\"]\ncompute_units = 60\nwave_width = 64\n";
  Detection found = detect_fixture("rx6800xt", file);
  EXPECT_EQ(found.devices[0].number("compute_units"), 72);  // the user's value does not change it
  EXPECT_THAT(said(found.devices[0], "compute_units"), HasSubstr("60 user for scheduling heuristics only"));
  ASSERT_EQ(found.dangers.size(), 1U);
  EXPECT_THAT(found.dangers[0].what, HasSubstr("'wave_width' of '*6800 xt*' is left out"));
  found = detect_fixture("rx6800xt", file + "== /proc/self/environ\nATHANOR_DEVICE_COMPUTE_UNITS=50\n");
  EXPECT_THAT(said(found.devices[0], "compute_units"), HasSubstr("50 user"));
  found = detect_fixture("rx6800xt", "== /home/ada/.config/athanor/devices.toml\n[[\n");
  ASSERT_EQ(found.dangers.size(), 1U);
  EXPECT_THAT(found.dangers[0].what, HasSubstr("devices.toml:1"));
}

TEST_F(DetectTest, IsWrittenAsJson) {
  const auto json = nlohmann::json::parse(to_json(detect_fixture("rx6800xt")).dump());
  EXPECT_EQ(json["schema"], 1);
  const auto& units = json["devices"][0]["properties"]["compute_units"];
  EXPECT_EQ(units["value"], 72);
  EXPECT_EQ(units["source"], "kfd");
  EXPECT_EQ(units["others"][0],
            (nlohmann::json{{"source", "hip"}, {"value", 36}, {"meaning", "work-group processors"}}));
  EXPECT_EQ(json["devices"][0]["backends"][1]["device"], "opencl:0");
}

// Answers of runtimes are checked like the contents of files.
TEST_F(DetectTest, AnswersForNonsense) {
  for (const char* answer : {"compute_units = -1", "compute_units = 9223372036854775807",
                             "memory_bytes = \"x\"", "pci = \"zz\"", "pci = \"0000:03:00.0\"", "name = 3",
                             "arch = \"gfx\"", "arch = \"gfx99999999999999999999\"", "kind = \"toaster\""})
    for (const char* runtime : {"opencl", "hip", "cuda", "nvml"}) {
      const Detection found = detect_fixture(
          "rx6800xt", fmt::format("== /machine.toml\n[[{0}]]\n{1}\n[[{0}]]\n", runtime, answer));
      EXPECT_GE(found.devices.size(), 2U) << answer;
      EXPECT_FALSE(to_json(found).dump().empty());
    }
}

TEST_F(DetectTest, SendsNothingToTheTerminalThatFilesSay) {
  const Detection found =
      detect_fixture("cpu-server", "== /proc/cpuinfo\nprocessor : 0\nmodel name : a\x1b[31mb\x07\n");
  EXPECT_EQ(found.devices.at(0).name, "a [31mb ");
}

TEST_F(DetectTest, AnswersForHostileFiles) {
  for (const char* text :
       {"", "simd_count", "simd_count 18446744073709551615\nsimd_per_cu 1\n", "simd_count -5\n",
        "simd_count 144\nsimd_per_cu 0\ngfx_target_version 18446744073709551615\n",
        "simd_count 1\nlocation_id 99999999999999999\ndomain 18446744073709551615\n"}) {
    const Detection found =
        detect_fixture("rx6800xt", std::string("== /sys/class/kfd/kfd/topology/nodes/1/properties\n") + text);
    EXPECT_GE(found.devices.size(), 2U);
  }
}

TEST(DetectHere, AnswersOnThisMachine) {
  const Detection found = detect(Machine());
  ASSERT_FALSE(found.devices.empty());
  EXPECT_EQ(found.devices.back().kind, "cpu");
}

// The folder shared/ beside the checkout has trees recorded from users' machines.
class RecordedTrees : public DetectTest {
 protected:
  Detection detect_tree(const std::string& name) {
    const fs::path tree = fs::path(ATHANOR_SOURCE_DIR) / "../shared/data/sysfs" / name;
    fs::remove_all(folder_ / "root");
    for (const auto& entry : fs::directory_iterator(tree)) {
      const std::string part = entry.path().filename();
      const fs::path to = folder_ / "root/sys/class" / (part == "kfd" ? "kfd" : "drm");
      fs::create_directories(to);
      if (entry.is_directory()) fs::copy(entry.path(), to / part, fs::copy_options::recursive);
    }
    return detect(Machine(folder_ / "root"));
  }
  void SetUp() override {
    if (!fs::exists(fs::path(ATHANOR_SOURCE_DIR) / "../shared/data/sysfs"))
      GTEST_SKIP() << "no recorded trees (shared/data/sysfs beside the checkout)";
  }
};

TEST_F(RecordedTrees, AreRead) {
  struct Expected {
    const char *tree, *name, *property, *said;
  };
  for (const Expected& one : {
           Expected{"amd/phoenix", "AMD Radeon 780M (Phoenix)", "compute_units", "12 kfd"},
           {"amd/phoenix", "AMD Radeon 780M (Phoenix)", "architecture", "gfx1103 kfd, gfx1103 amdgpu"},
           {"amd/phoenix", "AMD Radeon 780M (Phoenix)", "l2_cache_bytes", "2.00 MiB kfd"},
           {"amd/rx5700xt", "AMD Radeon RX 5600/5700 series", "clock_mhz", "1900 MHz amdgpu"},
           {"amd/rx580", "AMD Radeon RX 470/480/570/580", "memory_bytes", "4.00 GiB amdgpu"},
           {"amd/rx6600", "AMD Radeon RX 6600 series", "pcie_link", "8.0 GT/s x8 amdgpu, 16.0 GT/s x16 pci"},
           {"amd/rx7900xtx", "AMD Radeon RX 7900 series", "pci_address", "0000:03:00.0 pci"},
           {"amd/rx9070", "AMD Radeon RX 9070 series", "pcie_link",
            "16.0 GT/s x16 amdgpu, 32.0 GT/s x16 pci"},
           {"amd/vega56", "AMD Radeon RX Vega", "memory_bytes", "7.98 GiB amdgpu"},
           {"nvidia/rtx4080", "NVIDIA GeForce RTX 4080", "kernel_driver", "nvidia pci"},
           {"intel/b580", "Intel Arc B580", "clock_mhz", "2850 MHz xe"},
           {"intel/a380-xe", "Intel Arc A380", "clock_mhz", "2450 MHz xe"},
       }) {
    const Detection found = detect_tree(one.tree);
    ASSERT_EQ(count_of(found, "gpu"), 1) << one.tree;
    EXPECT_EQ(found.devices[0].name, one.name);
    EXPECT_EQ(said(found.devices[0], one.property), one.said) << one.tree;
  }
}

// A machine of which only a card's PCI id is known.
Detection detect_id(const fs::path& root, const std::string& vendor, const std::string& id) {
  fs::remove_all(root);
  const fs::path device = root / "sys/bus/pci/devices/0000:03:00.0";
  fs::create_directories(device);
  write_file_atomically(device / "class", "0x030000\n");
  write_file_atomically(device / "vendor", "0x" + vendor + "\n");
  write_file_atomically(device / "device", "0x" + id + "\n");
  return detect(Machine(root));
}

TEST_F(DetectTest, NamesCardsByTheirId) {
  struct Expected {
    const char *vendor, *id, *name, *arch;
    bool integrated;
  };
  for (const Expected& one : {
           Expected{"8086", "56a5", "Intel Arc A380", "acm-g11", false},
           {"8086", "e20c", "Intel Arc B-Series (Battlemage)", "bmg-g21", false},
           {"8086", "9a49", "Intel Iris Xe Graphics (Tiger Lake)", "tgllp", true},
           {"8086", "4680", "Intel UHD Graphics (Alder Lake)", "adl-s", true},
           {"8086", "64a0", "Intel Arc Graphics (Lunar Lake)", "lnl-m", true},
           {"1002", "164e", "AMD Radeon Graphics (Raphael)", "gfx1036", true},
           {"1002", "15bf", "AMD Radeon 780M (Phoenix)", "gfx1103", true},
           {"10de", "2684", "NVIDIA GeForce RTX 4090", "sm_89", false},
           {"10de", "1b02", "NVIDIA Pascal", "sm_61", false},
       }) {
    const Detection found = detect_id(folder_ / "root", one.vendor, one.id);
    ASSERT_EQ(count_of(found, "gpu"), 1) << one.id;
    const FoundDevice& card = found.devices[0];
    EXPECT_EQ(card.name, one.name);
    EXPECT_EQ(card.text("architecture"), one.arch);
    EXPECT_EQ(card.find("integrated") != nullptr, one.integrated) << one.name;
    const std::string note = one.integrated ? card.properties.at("integrated").note : "";
    EXPECT_EQ(note.find("unified memory") != std::string::npos, one.integrated) << one.name;
  }
  EXPECT_EQ(detect_id(folder_ / "root", "8086", "ffff").devices[0].name, "Intel GPU 8086:ffff");
}

// Even without runtimes, Windows' libcuda shows that the GPU is NVIDIA's.
TEST_F(DetectTest, SeesWhatWindowsShows) {
  const Detection asked = detect_fixture("wsl-rtx4090");
  ASSERT_EQ(count_of(asked, "gpu"), 1);
  EXPECT_TRUE(asked.devices[0].from_windows);
  const Detection silent = detect_fixture("wsl-rtx4090", "== /machine.toml\n");
  ASSERT_EQ(count_of(silent, "gpu"), 1);
  EXPECT_EQ(silent.devices[0].name, "NVIDIA GPU");
  EXPECT_EQ(count_of(detect_fixture("wsl-rtx4090", "== /machine.toml\n--- /dev/dxg\n"), "gpu"), 0);
}

// There is no driver, and no revision to decide which product with this id it is.
TEST_F(DetectTest, NamesWhatACardMayBe) {
  const std::string card = "/sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0";
  std::string more =
      "== /machine.toml\n--- /sys/class/kfd\n--- /sys/class/drm\n--- /usr/share/misc/pci.ids\n";
  for (const char* file : {"revision", "mem_info_vram_total", "driver", "drm", "uevent"})
    more += "--- " + card + "/" + file + "\n";
  const Detection found = detect_fixture("rx7900xtx", more);
  ASSERT_EQ(count_of(found, "gpu"), 1);
  EXPECT_EQ(found.devices[0].name, "AMD Radeon RX 7900 series");
  EXPECT_EQ(said(found.devices[0], "architecture"), "gfx1100 PCI id");
  EXPECT_EQ(said(found.devices[0], "possible_models"), "Radeon RX 7900 XT, Radeon RX 7900 XTX data sheet");
  EXPECT_THAT(note(found.devices[0], "possible_models"), HasSubstr("other products may have the id"));
}

}  // namespace
}  // namespace athanor::testing
