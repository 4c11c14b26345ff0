#include "athanor/device/data_sheet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/base/embedded.h"
#include "tests/support/expect_error.h"

namespace athanor::testing {
namespace {

std::string sheet_of(const DeviceTraits& device) {
  const DataSheet* sheet = find_data_sheet(device);
  return sheet == nullptr ? "" : sheet->name;
}

TEST(DataSheets, AreBuiltInAndWhole) {
  EXPECT_GE(data_sheets().size(), 50U);
  for (const DataSheet& sheet : data_sheets()) {
    EXPECT_GT(sheet.compute_units, 0) << sheet.name;
    EXPECT_GT(sheet.f32_tflops.value_or(0), 0) << sheet.name;
    EXPECT_GT(sheet.bandwidth_gb_s.value_or(0), 0) << sheet.name;
    EXPECT_FALSE(sheet.source.empty()) << sheet.name;
  }
}

TEST(DataSheets, EveryPciIdNamesOne) {
  const auto table = parse_table(embedded_file("data/pci_gpus.csv"), "data/pci_gpus.csv");
  for (size_t i = 1; i < table.size(); ++i) {
    bool known = false;
    for (const DataSheet& sheet : data_sheets()) known = known || sheet.name == table[i][3];
    EXPECT_TRUE(known) << table[i][3];
  }
}

TEST(DataSheets, AreFoundByPciId) {
  EXPECT_EQ(sheet_of({.pci_vendor = 0x1002, .pci_device = 0x73bf, .pci_revision = 0xc1}),
            "Radeon RX 6800 XT");
  EXPECT_EQ(sheet_of({.pci_vendor = 0x1002, .pci_device = 0x73bf, .pci_revision = 0xc3}), "Radeon RX 6800");
  EXPECT_EQ(sheet_of({.pci_vendor = 0x10de, .pci_device = 0x2684}), "GeForce RTX 4090");
  // If several products have the id, only the units or the memory can decide; otherwise none is chosen.
  EXPECT_EQ(sheet_of({.pci_vendor = 0x1002, .pci_device = 0x744c}), "");
  EXPECT_EQ(sheet_of({.pci_vendor = 0x1002, .pci_device = 0x744c, .compute_units = 96}),
            "Radeon RX 7900 XTX");
  EXPECT_EQ(sheet_of({.pci_vendor = 0x1002, .pci_device = 0x744c, .memory_bytes = 20ULL << 30}),
            "Radeon RX 7900 XT");
  EXPECT_EQ(sheet_of({.pci_vendor = 0x1002, .pci_device = 0x731f}), "");  // or an RX 5700, or 5600 XT
  EXPECT_EQ(
      sheet_of(
          {.pci_vendor = 0x1002, .pci_device = 0x67df, .pci_revision = 0xe7, .memory_bytes = 4ULL << 30}),
      "");
  EXPECT_EQ(sheet_of({.pci_vendor = 0x1002, .pci_device = 0xffff, .arch = "gfx1030", .compute_units = 72}),
            "");
}

TEST(DataSheets, AreFoundByName) {
  EXPECT_EQ(sheet_of({.name = "AMD Radeon RX 6800 XT"}), "Radeon RX 6800 XT");
  EXPECT_EQ(sheet_of({.name = "AMD Radeon(TM) RX 6800 Graphics"}), "Radeon RX 6800");
  EXPECT_EQ(sheet_of({.name = "NVIDIA GeForce RTX 4090"}), "GeForce RTX 4090");
  EXPECT_EQ(sheet_of({.name = "NVIDIA GeForce RTX 4090 Laptop GPU"}), "");
  EXPECT_EQ(sheet_of({.name = "NVIDIA GeForce RTX 3080 Ti"}), "");
  EXPECT_EQ(sheet_of({.name = "NVIDIA A100-SXM4-80GB", .memory_bytes = 85'000'000'000}), "A100 SXM4 80GB");
  EXPECT_EQ(sheet_of({.name = "NVIDIA L4"}), "L4");
  EXPECT_EQ(sheet_of({.name = "llvmpipe"}), "");
  EXPECT_EQ(sheet_of({}), "");
}

TEST(DataSheets, AreFoundByArchitectureAndUnits) {
  EXPECT_EQ(sheet_of({.name = "gfx1030", .arch = "gfx1030", .compute_units = 72}), "Radeon RX 6800 XT");
  EXPECT_EQ(sheet_of({.name = "gfx1030", .arch = "gfx1030", .compute_units = 71}), "");
}

TEST(DataSheets, RefuseWhatIsNoTable) {
  expect_error(ErrorCode::format, {"x:1", "no column"}, [] { parse_data_sheets("a,b\n1,2\n", "x:1"); });
  expect_error(ErrorCode::format, {"x:3", "3 values", "2 columns"},
               [] { parse_table("# c\na,b\n1,2,3\n", "x"); });
  expect_error(ErrorCode::format, {"no columns"}, [] { parse_table("\n# only this\n", "x"); });
  std::string text(embedded_file("data/gpus.csv"));
  text.replace(text.find("sm_75,40,"), 9, "sm_75,1e99,");
  expect_error(ErrorCode::format, {"1e99", "Tesla T4"}, [&] { parse_data_sheets(text, "x"); });
}

TEST(GraphicsCores, HaveTargets) {
  EXPECT_EQ(gfx_of_graphics_core("11.0.1"), "gfx1103");
  EXPECT_EQ(gfx_of_graphics_core("10.3.4"), "gfx1032");
  EXPECT_EQ(gfx_of_graphics_core("99.0.0"), "");
  EXPECT_EQ(gfx_of_graphics_core("gc"), "");
}

TEST(DataSheets, AreOfSeveralProductsWhereTheRevisionIsMissing) {
  const auto names = [](const DeviceTraits& device) {
    std::vector<std::string> all;
    for (const DataSheet* sheet : possible_data_sheets(device)) all.push_back(sheet->name);
    return all;
  };
  DeviceTraits card{.pci_vendor = 0x1002, .pci_device = 0x744c};
  EXPECT_EQ(find_data_sheet(card), nullptr);
  EXPECT_THAT(names(card), ::testing::UnorderedElementsAre("Radeon RX 7900 XT", "Radeon RX 7900 XTX"));
  card.compute_units = 42;
  EXPECT_THAT(names(card), ::testing::IsEmpty());
  card.compute_units = 0;
  card.pci_revision = 0xce;  // a product that the table lacks
  EXPECT_THAT(names(card), ::testing::IsEmpty());
}

}  // namespace
}  // namespace athanor::testing
