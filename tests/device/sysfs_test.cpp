// Files of /sys that are padded with NULs, and files of one card that contradict each other.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "athanor/device/detect.h"
#include "tests/doctor/fixture.h"

namespace athanor::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* card = "/sys/class/drm/card1/device/";

// A card of which only /sys was recorded.
std::map<std::string, std::string> card_with(const std::string& driver, const std::string& id,
                                             const std::map<std::string, std::string>& files) {
  std::map<std::string, std::string> all = {
      {std::string(card) + "uevent",
       fmt::format("DRIVER={}\nPCI_CLASS=30000\nPCI_ID={}\nPCI_SLOT_NAME=0000:03:00.0\n", driver, id)}};
  for (const auto& [name, text] : files) all[card + name] = text;
  return all;
}

FoundDevice detect_card(const std::map<std::string, std::string>& files) {
  const UnpackedMachine machine(files);
  const Detection found = detect(*machine);
  return found.devices.empty() ? FoundDevice{} : found.devices.front();
}

const Fact& fact(const FoundDevice& device, const std::string& property) {
  static const Fact none;
  const auto found = device.properties.find(property);
  return found == device.properties.end() ? none : found->second;
}

std::string text_of(const Reading& reading) {
  const auto* text = std::get_if<std::string>(&reading.value);
  return text == nullptr ? to_text("", reading.value) : *text;
}

TEST(Sysfs, IsReadUpToItsNuls) {
  const std::string nuls(4095, '\0');
  const UnpackedMachine machine(std::map<std::string, std::string>{
      {"/sys/a", "3" + nuls}, {"/sys/b", nuls}, {"/sys/c", "two\nlines\n" + nuls}});
  EXPECT_EQ(machine->read_line("/sys/a"), "3");
  EXPECT_EQ(machine->read_number("/sys/a"), 3);
  EXPECT_EQ(machine->read_line("/sys/b"), "");
  EXPECT_EQ(machine->read("/sys/c"), "two\nlines\n");
  EXPECT_EQ(machine->read_bytes("/sys/a")->size(), 4096U);
}

TEST(Sysfs, NamesNoCardByBlanks) {
  for (const std::string& name : {std::string(), std::string("Radeon RX 6600")}) {
    const FoundDevice device = detect_card(card_with("amdgpu", "1002:73FF",
                                                     {{"product_name", name + std::string(4095, '\0')},
                                                      {"vbios_version", "113-X" + std::string(4090, '\0')}}));
    EXPECT_LT(device.name.size(), 200U);
    EXPECT_EQ(device.name.find("  "), std::string::npos) << device.name;
    EXPECT_EQ(device.text("vbios"), "113-X");
  }
}

// The values of an RX 6600 in a slot of PCIe 3. PCI's files describe the link inside the card.
TEST(Sysfs, SaysBothLinksWhereTheyContradict) {
  const FoundDevice device =
      detect_card(card_with("amdgpu", "1002:73FF",
                            {{"current_link_speed", "16.0 GT/s PCIe\n"},
                             {"current_link_width", "16\n"},
                             {"pp_dpm_pcie", "0: 2.5GT/s, x1 81Mhz \n1: 8.0GT/s, x8 619Mhz *\n"}}));
  EXPECT_EQ(device.text("pcie_link"), "8.0 GT/s x8");
  EXPECT_EQ(fact(device, "pcie_link").in_use.source, "amdgpu");
  ASSERT_EQ(fact(device, "pcie_link").others.size(), 1U);
  EXPECT_EQ(text_of(fact(device, "pcie_link").others[0]), "16.0 GT/s x16");
  EXPECT_THAT(fact(device, "pcie_link").note, HasSubstr("contradict"));
  EXPECT_EQ(device.text("pcie_link_best"), "8.0 GT/s x8");
  EXPECT_THAT(fact(device, "pcie_link_best").note, HasSubstr("PCI contradicts"));
}

TEST(Sysfs, BelievesTheDriversLinkOnlyWhereOneIsMarked) {
  const auto link = [](const char* lines) {
    return detect_card(card_with("amdgpu", "1002:73FF", {{"pp_dpm_pcie", lines}})).text("pcie_link");
  };
  EXPECT_EQ(link("0: 8.0GT/s, x16 *\n1: 8.0GT/s, x16 *\n"), "8.0 GT/s x16");
  EXPECT_EQ(link("0: 2.5GT/s, x8 *\n1: 8.0GT/s, x8 *\n"), "");
  EXPECT_EQ(link("0: 2.5GT/s, x8 \n"), "");
  EXPECT_EQ(link("1: fast, x8 *\n2: 8.0GT/s, x999 *\n: *\n"), "");
  const FoundDevice agreeing = detect_card(card_with("amdgpu", "1002:687F",
                                                     {{"current_link_speed", "8.0 GT/s PCIe\n"},
                                                      {"current_link_width", "16\n"},
                                                      {"pp_dpm_pcie", "0: 8.0GT/s, x16 *\n"}}));
  EXPECT_EQ(fact(agreeing, "pcie_link").note, "");
}

// The values of an RX 7900 XTX.
TEST(Sysfs, SaysBothClocksWhereTheyContradict) {
  const std::string allowed = "OD_SCLK:\n0: 500Mhz\n1: 2735Mhz\nOD_MCLK:\n0: 97Mhz\n1: 1250MHz\n";
  const FoundDevice device =
      detect_card(card_with("amdgpu", "1002:744C",
                            {{"pp_dpm_sclk", "0: 500Mhz\n1: 31Mhz *\n2: 2219Mhz\n"},
                             {"pp_dpm_mclk", "0: 96Mhz \n3: 1249Mhz *\n"},
                             {"pp_od_clk_voltage", allowed + std::string(1500, '\0')}}));
  const Fact& clock = fact(device, "clock_mhz");
  EXPECT_EQ(device.number("clock_mhz"), 2219);
  EXPECT_EQ(clock.in_use.meaning, "by pp_dpm_sclk");
  ASSERT_EQ(clock.others.size(), 1U);
  EXPECT_EQ(std::get<int64_t>(clock.others[0].value), 2735);
  EXPECT_THAT(clock.note, HasSubstr("contradict"));
  // 1249 and 1250 MHz count as equal.
  EXPECT_TRUE(fact(device, "memory_clock_mhz").others.empty());
  EXPECT_EQ(fact(device, "memory_clock_mhz").note, "");
}

TEST(Sysfs, TakesNoLinkInsideAnArcForTheSlots) {
  std::map<std::string, std::string> files;
  for (const char* which : {"current", "max"}) {
    files[fmt::format("{}_link_speed", which)] = "2.5 GT/s PCIe\n";
    files[fmt::format("{}_link_width", which)] = "1\n";
  }
  const FoundDevice device = detect_card(card_with("xe", "8086:E20B", files));
  EXPECT_EQ(device.text("pcie_link"), "");
  EXPECT_EQ(device.text("pcie_link_best").find("GT/s"), std::string::npos);  // only the data sheet's value
  EXPECT_EQ(device.text("pcie_link_inside"), "2.5 GT/s x1");
  EXPECT_THAT(fact(device, "pcie_link_inside").note, HasSubstr("bridge"));
}

// Names and values of variables are printed, and names are put into commands that unset them.
TEST(Dangers, NameNoVariableThatIsNone) {
  auto files = card_with("amdgpu", "1002:73FF", {});
  files["/proc/self/environ"] =
      std::string("HSA_OVERRIDE_GFX_VERSION;reboot=x") + '\0' + "HSA_OVERRIDE_GFX_VERSION_0=\x1b[2J" + '\0';
  const UnpackedMachine machine(files);
  const Detection found = detect(*machine);
  ASSERT_EQ(found.dangers.size(), 1U);
  EXPECT_EQ(found.dangers[0].fix, "unset HSA_OVERRIDE_GFX_VERSION_0");
  EXPECT_EQ(found.dangers[0].setting, "HSA_OVERRIDE_GFX_VERSION_0= [2J");
}

TEST(Sysfs, DoesNotMissWhatWasNotRecorded) {
  const UnpackedMachine machine(card_with("amdgpu", "1002:73FF", {}));
  EXPECT_TRUE(machine->covers("/sys/nothing"));
  EXPECT_FALSE(machine->covers("/dev/kfd"));
  EXPECT_FALSE(machine->covers_libraries());
  for (const FoundDevice& device : detect(*machine).devices)
    for (const BackendUse& use : device.backends)
      EXPECT_EQ(use.reason.find("there is no /dev"), std::string::npos) << use.reason;
}

}  // namespace
}  // namespace athanor::testing
