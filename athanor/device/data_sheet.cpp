#include "athanor/device/data_sheet.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "athanor/base/embedded.h"
#include "athanor/base/error.h"
#include "athanor/base/text.h"

namespace athanor {
namespace {

std::optional<double> number_from(const std::string& text, const std::string& where) {
  if (text.empty()) return std::nullopt;
  double value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size() || !std::isfinite(value) || value < 0 ||
      value > 1e9)
    throw Error(ErrorCode::format, "'" + text + "' is not a number that a device can have", where,
                "Leave out what is not known");
  return value;
}

struct PciRow {
  uint32_t vendor, device;
  std::optional<uint32_t> revision;
  std::string name;
};

std::optional<uint32_t> hexadecimal(const std::string& text) {
  uint32_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return !text.empty() && end.ptr == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

const std::vector<PciRow>& pci_rows() {
  static const std::vector<PciRow> rows = [] {
    std::vector<PciRow> all;
    const auto table = parse_table(embedded_file("data/pci_gpus.csv"), "data/pci_gpus.csv");
    for (size_t i = 1; i < table.size(); ++i)
      all.push_back({hexadecimal(table[i][0]).value_or(0), hexadecimal(table[i][1]).value_or(0),
                     hexadecimal(table[i][2]), table[i][3]});
    return all;
  }();
  return rows;
}

// "AMD Radeon(TM) RX 6800 XT" -> {radeon, rx, 6800, xt}
std::set<std::string> words_of(std::string_view name) {
  std::set<std::string> words;
  std::string word;
  const auto end_word = [&] {
    // Vendors' names and other words that only some drivers write.
    static const std::set<std::string> fillers = {
        "amd", "nvidia", "intel", "r", "tm", "graphics", "geforce", "gpu", "tesla", "corporation", "series"};
    if (!word.empty() && !fillers.contains(word)) words.insert(word);
    word.clear();
  };
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z')
      word += static_cast<char>(c - 'A' + 'a');
    else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
      word += c;
    else
      end_word();
  }
  end_word();
  return words;
}

bool is_memory_size(const std::string& word) {
  return word.size() > 2 && word.ends_with("gb") &&
         std::all_of(word.begin(), word.end() - 2, [](char c) { return c >= '0' && c <= '9'; });
}

// Whether a driver's name for a device means the product `sheet`: it has all of the product's words, and no
// word that would make it another product.
bool same_name(const std::string& sheet, const std::string& device) {
  static const std::set<std::string> others = {
      "xt", "xtx", "gre",  "ti",   "super", "m",   "s",  "laptop", "mobile", "max", "pcie", "sxm",
      "d",  "pro", "sxm2", "sxm4", "sxm5",  "nvl", "xl", "le",     "oem",    "vf",  "hf"};
  const auto known = words_of(sheet), said = words_of(device);
  for (const std::string& word : known)
    if (!is_memory_size(word) && !said.contains(word)) return false;
  for (const std::string& word : said)
    if (others.contains(word) && !known.contains(word)) return false;
  return !known.empty();
}

// Sheets count 1e9 or 2^30 bytes, and drivers reserve some memory.
bool memory_fits(const DataSheet& sheet, const DeviceTraits& device) {
  if (device.memory_bytes == 0 || !sheet.memory_gb || sheet.host_link.starts_with("SoC")) return true;
  const double gb = static_cast<double>(device.memory_bytes) / (1 << 30);
  return gb > 0.85 * *sheet.memory_gb && gb < 1.1 * *sheet.memory_gb;
}

// The product, if compute units and memory allow only one. If the device may be none of the products (not
// `certain`), at least one of the two values must be known.
const DataSheet* decide(std::vector<const DataSheet*> sheets, const DeviceTraits& device, bool certain) {
  std::erase_if(sheets, [&](const DataSheet* sheet) { return !memory_fits(*sheet, device); });
  if (device.compute_units > 0 && (!certain || sheets.size() > 1))
    std::erase_if(sheets,
                  [&](const DataSheet* sheet) { return sheet->compute_units != device.compute_units; });
  if (!certain && device.compute_units == 0 && device.memory_bytes == 0) return nullptr;
  return sheets.size() == 1 ? sheets[0] : nullptr;
}

}  // namespace

std::vector<std::vector<std::string>> parse_table(std::string_view text, const std::string& where) {
  std::vector<std::vector<std::string>> table;
  int line_number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++line_number;
    if (trim(line).empty() || line.starts_with('#')) continue;
    table.push_back(split(trim(line), ','));
    if (table.back().size() != table.front().size())
      throw Error(ErrorCode::format,
                  fmt::format("{} values, where there are {} columns", table.back().size(), table[0].size()),
                  fmt::format("{}:{}", where, line_number), "A line has a value for each column");
  }
  if (table.empty()) throw Error(ErrorCode::format, "no columns", where, "The first line names the columns");
  return table;
}

std::vector<DataSheet> parse_data_sheets(std::string_view text, const std::string& where) {
  const auto table = parse_table(text, where);
  const auto column = [&](const char* name) {
    const auto found = std::find(table[0].begin(), table[0].end(), name);
    if (found == table[0].end())
      throw Error(ErrorCode::format, fmt::format("no column '{}'", name), where,
                  "data/gpus.csv has them all");
    return static_cast<size_t>(found - table[0].begin());
  };
  const size_t name = column("name"), vendor = column("vendor"), family = column("arch"),
               arch = column("arch_id"), units = column("compute_units"), wave = column("wave_width"),
               f32 = column("fp32_tflops"), f16 = column("fp16_vector_tflops"),
               f16_matrix = column("fp16_matrix_tflops_dense_fp32acc"),
               bf16_matrix = column("bf16_matrix_tflops_dense"), memory = column("memory_gb"),
               bandwidth = column("bandwidth_gb_s"), watts = column("tdp_w"), host = column("host_link"),
               peer = column("peer_link"), source = column("source");
  std::vector<DataSheet> sheets;
  for (size_t i = 1; i < table.size(); ++i) {
    const auto& row = table[i];
    const std::string here = where + ", " + row[name];
    const auto number = [&](size_t at) { return number_from(row[at], here); };
    sheets.push_back({row[name], row[vendor], row[family], row[arch],
                      static_cast<int>(number(units).value_or(0)), row[wave], number(f32), number(f16),
                      number(f16_matrix), number(bf16_matrix), number(memory), number(bandwidth),
                      number(watts), row[host], row[peer], row[source]});
  }
  return sheets;
}

const std::vector<DataSheet>& data_sheets() {
  static const auto sheets = parse_data_sheets(embedded_file("data/gpus.csv"), "data/gpus.csv");
  return sheets;
}

const DataSheet* find_data_sheet(const DeviceTraits& device) {
  std::vector<const DataSheet*> found;
  const auto collect = [&](auto fits) {
    for (const DataSheet& sheet : data_sheets())
      if (fits(sheet)) found.push_back(&sheet);
  };
  // If the revision is not known, the device may also be a product with the same id that the table lacks.
  for (const bool exact : {true, false}) {
    for (const PciRow& row : pci_rows())
      if (row.vendor == device.pci_vendor && row.device == device.pci_device &&
          (!row.revision || (exact ? row.revision == device.pci_revision : !device.pci_revision)))
        collect([&](const DataSheet& sheet) {
          return sheet.name == row.name && std::find(found.begin(), found.end(), &sheet) == found.end();
        });
    if (!found.empty()) return decide(std::move(found), device, exact);
  }
  if (!device.name.empty())
    collect([&](const DataSheet& sheet) { return same_name(sheet.name, device.name); });
  // Notebooks' GPUs may have the name of a card with other units.
  if (!found.empty()) return decide(std::move(found), device, device.compute_units == 0);
  // Products with the same chip differ in the number of units, because some are disabled, so that number must
  // match. If the device has an id that the table lacks, the table does not have the product.
  if (device.arch.empty() || device.compute_units == 0 || device.pci_device != 0) return nullptr;
  collect([&](const DataSheet& sheet) { return sheet.arch == device.arch; });
  return decide(std::move(found), device, false);
}

std::vector<const DataSheet*> possible_data_sheets(const DeviceTraits& device) {
  std::vector<const DataSheet*> found;
  if (device.pci_revision) return found;
  for (const PciRow& row : pci_rows())
    for (const DataSheet& sheet : data_sheets())
      if (row.vendor == device.pci_vendor && row.device == device.pci_device && sheet.name == row.name &&
          std::find(found.begin(), found.end(), &sheet) == found.end() && memory_fits(sheet, device) &&
          (device.compute_units == 0 || device.compute_units == sheet.compute_units))
        found.push_back(&sheet);
  return found;
}

std::string gfx_of_graphics_core(std::string_view version) {
  static const auto table = parse_table(embedded_file("data/amd_gc.csv"), "data/amd_gc.csv");
  for (const auto& row : table)
    if (row[0] == version && row[0] != "gc") return row[1];
  return {};
}

}  // namespace athanor
