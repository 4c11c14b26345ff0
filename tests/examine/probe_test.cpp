#include "athanor/examine/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>

#include "athanor/base/error.h"
#include "athanor/examine/memory_test.h"
#include "athanor/kernels/gpu/gpu_access.h"

namespace athanor::testing {
namespace {

using ::testing::HasSubstr;

FoundDevice card() {
  FoundDevice device{"AMD Radeon RX 6800 XT", "gpu", {}, {}, {}};
  const auto set = [&](const char* property, Value value, const char* source) {
    device.properties[property].in_use = {std::move(value), source, {}};
  };
  set("f32_tflops", 20.74, "data sheet");
  set("bandwidth_gb_s", 512.0, "data sheet");
  set("compute_units", int64_t{72}, "kfd");
  set("launch_mode", std::string("WGP"), "hip");
  set("pcie_link", std::string("8.0 GT/s x4"), "pci");
  set("pcie_link_best", std::string("16.0 GT/s x16"), "pci");
  return device;
}

TEST(Probe, NamesTheMatrixUnitsThatWereFound) {
  const Measurement found = matrix_units_found(matrix_units(GpuTarget::hip, "gfx1100"));
  EXPECT_GT(found.value, 1);
  EXPECT_THAT(found.how, HasSubstr("wmma 16x16x16 of f16, bf16"));
  EXPECT_EQ(found.missing, "");
  EXPECT_EQ(matrix_units_found({}).missing, "none is known, or none multiplied right when it was tried");
}

std::string shortfalls_with(const std::vector<Measurement>& measurements) {
  FoundDevice device = card();
  add_measurements(device, measurements, "probe");
  std::string all;
  for (const Shortfall& one : find_shortfalls(device)) {
    all += fmt::format("{} of {};", one.property, one.expected_by);
    EXPECT_FALSE(one.causes.empty());
  }
  return all;
}

TEST(Shortfalls, AreBelowSevenTenths) {
  EXPECT_EQ(shortfalls_with({{"f32_tflops", 15, "", ""}, {"bandwidth_gb_s", 400, "", ""}}), "");
  EXPECT_EQ(shortfalls_with({{"f32_tflops", 14, "", ""}, {"bandwidth_gb_s", 400, "", ""}}),
            "f32_tflops of data sheet;");
  EXPECT_EQ(shortfalls_with({{"bandwidth_gb_s", 0, "", "not measured"}}), "");
}

TEST(Shortfalls, CountWorkGroupProcessors) {
  EXPECT_EQ(shortfalls_with({{"concurrency", 35.5, "", ""}}), "");  // of 36: the 72 units are pairs
  EXPECT_EQ(shortfalls_with({{"concurrency", 18, "", ""}}), "concurrency of kfd;");
}

TEST(Shortfalls, SayWhyALinkIsSlow) {
  FoundDevice device = card();
  add_measurements(device, {{"to_device_gb_s", 3.1, "", ""}}, "probe");
  const auto all = find_shortfalls(device);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_NEAR(all[0].expected, 31.5, 0.1);
  EXPECT_THAT(all[0].causes[0], HasSubstr("runs at 8.0 GT/s x4, of 16.0 GT/s x16"));
}

TEST(Measurements, StandBesideWhatIsSaid) {
  FoundDevice device = card();
  add_measurements(device, {{"f32_tflops", 19, "", ""}, {"launch_us", 4, "", ""}, {"wave_width", 32, "", ""}},
                   "probe");
  EXPECT_EQ(std::get<double>(device.properties["f32_tflops"].in_use.value), 20.74);
  EXPECT_EQ(device.properties["f32_tflops"].others.at(0).source, "probe");
  EXPECT_EQ(device.properties["launch_us"].in_use.source, "probe");
  EXPECT_EQ(device.number("wave_width"), 32);
  EXPECT_EQ(device.properties["wave_width"].note, "");
  add_measurements(device, {{"wave_width", 64, "", ""}}, "probe");
  EXPECT_THAT(device.properties["wave_width"].note, HasSubstr("waves of 64"));
}

std::vector<Device> all_devices() {
  std::vector<Device> devices;
  for (const DeviceInfo& info : list_devices()) devices.push_back(info.device);
  return devices;
}

// Tests that probes run and return numbers. Their size is not tested.
TEST(Probe, MeasuresOrSaysWhyNot) {
  for (const Device device : all_devices()) {
    const auto nobody = [](const std::string&, const std::string&) {};
    std::vector<Measurement> all;
    for (const ProbePart& part : gpu_access(device) ? probe_parts_of_gpu(device) : probe_parts_of_cpu()) {
      const auto some = run_part(part, nobody);
      EXPECT_EQ(some.size(), part.properties.size()) << part.what;
      for (size_t i = 0; i < some.size(); ++i) EXPECT_EQ(some[i].property, part.properties.at(i));
      all.insert(all.end(), some.begin(), some.end());
    }
    EXPECT_GE(all.size(), 3U);
    for (const Measurement& one : all) {
      EXPECT_EQ(one.missing.empty(), one.value > 0) << one.property << " on " << to_string(device);
      EXPECT_TRUE(std::isfinite(one.value)) << one.property;
    }
    EXPECT_NE(all[0].value, 0) << all[0].missing;
  }
}

constexpr uint64_t some = 8 << 20;

TEST(MemoryTest, FindsNothingInGoodMemory) {
  for (const Device device : all_devices()) {
    const MemoryReport report = test_memory(device, {.seconds = 0.2, .most_bytes = some});
    EXPECT_EQ(report.bytes, some) << to_string(device);
    EXPECT_EQ(report.bytes_checked, report.bytes * static_cast<uint64_t>(report.passes));
    EXPECT_GE(report.passes, 1);
    EXPECT_EQ(report.wrong_words, 0U) << to_string(device);
  }
}

// One bit of one word is flipped while the test runs.
TEST(MemoryTest, FindsABitThatFlips) {
  for (const Device device : all_devices()) {
    constexpr size_t place = 1'234'568;
    MemoryTestOptions options{.seconds = 0, .most_bytes = some};
    options.disturb = [](const auto& blocks) {
      uint32_t word = 0;
      blocks.at(0)->read(&word, place, sizeof word);
      word ^= 1U << 13;
      blocks.at(0)->write(&word, place, sizeof word);
    };
    const MemoryReport report = test_memory(device, options);
    EXPECT_EQ(report.wrong_words, 1U) << to_string(device);
    ASSERT_EQ(report.errors.size(), 1U);
    EXPECT_EQ(report.errors[0].offset, place);
    EXPECT_EQ(report.errors[0].expected ^ report.errors[0].found, 1U << 13);
    EXPECT_NE(report.errors[0].address, 0U);
  }
}

// A word's number has more bits than the word. Once, values that are 16 GiB apart were the same.
TEST(MemoryTest, FindsBrokenAddressLinesOfLargeMemories) {
  for (const Device device : all_devices()) {
    const auto first_values = [&](uint64_t first) {
      std::vector<uint32_t> values;
      MemoryTestOptions options{.seconds = 60, .most_bytes = 4096, .first_word = first};
      options.disturb = [&](const auto& blocks) { blocks.at(0)->read(&values.emplace_back(), 0, 4); };
      options.progress = [&](const std::string&, double) {
        if (values.size() == 7) throw Error(ErrorCode::value, "each pattern was written");
      };
      EXPECT_THROW(test_memory(device, options), Error);
      return values;
    };
    const auto zero = first_values(0);
    for (const int bit : {20, 31, 32, 35, 40}) {
      const auto apart = first_values(uint64_t{1} << bit);
      for (size_t pattern = 4; pattern < 7; ++pattern)
        EXPECT_NE(apart.at(pattern), zero.at(pattern)) << to_string(device) << ", bit " << bit;
    }
  }
}

TEST(MemoryTest, CountsWhatItDoesNotList) {
  for (const Device device : all_devices()) {
    MemoryTestOptions options{.seconds = 0, .most_bytes = some};
    options.disturb = [](const auto& blocks) {
      const std::vector<uint32_t> words(1000, 7);
      blocks.at(0)->write(words.data(), 4096, words.size() * 4);
    };
    const MemoryReport report = test_memory(device, options);
    EXPECT_EQ(report.wrong_words, 1000U) << to_string(device);
    EXPECT_EQ(report.errors.size(), 64U);
  }
}

}  // namespace
}  // namespace athanor::testing
