// Data sheets (data/gpus.csv), and how to find the one of a device.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

struct DataSheet {
  std::string name;    // "Radeon RX 6800 XT"
  std::string vendor;  // "AMD"
  std::string family;  // "RDNA2 Navi21"
  std::string arch;    // "gfx1030", "sm_89"
  int compute_units = 0;
  std::string wave_width;  // "32", or "8/16/32" if kernels can choose
  // 1e12 operations a second, without sparsity. 0 if the chip has no such unit; none if not known.
  std::optional<double> f32_tflops, f16_vector_tflops, f16_matrix_tflops, bf16_matrix_tflops;
  std::optional<double> memory_gb, bandwidth_gb_s, watts;
  std::string host_link, peer_link, source;
};

/// What is known about a device. Every part may be missing ("" or 0).
struct DeviceTraits {
  uint32_t pci_vendor = 0, pci_device = 0;
  std::optional<uint32_t> pci_revision;
  std::string name, arch;
  int64_t compute_units = 0;
  uint64_t memory_bytes = 0;
};

/// Reads data in the format of data/gpus.csv: lines that start with '#' are comments, the first other line
/// names the columns; no value contains a comma. Throws Error(format).
std::vector<DataSheet> parse_data_sheets(std::string_view text, const std::string& where);

/// The rows of such a table, each as long as the first, which names the columns. Throws Error(format).
std::vector<std::vector<std::string>> parse_table(std::string_view text, const std::string& where);

/// The sheets that are built in.
const std::vector<DataSheet>& data_sheets();

/// The sheet of a device, by PCI id (data/pci_gpus.csv), else by name, else by architecture. If several
/// products are possible, compute units and memory decide; nullptr if they cannot.
const DataSheet* find_data_sheet(const DeviceTraits& device);

/// The products that a device may be, if its revision is not known: those with its PCI id that its memory and
/// compute units allow. There may be others with this id that the table does not have.
std::vector<const DataSheet*> possible_data_sheets(const DeviceTraits& device);

/// "gfx1103" for the graphics core "11.0.1" of ip_discovery; "" for an unknown one.
std::string gfx_of_graphics_core(std::string_view version);

}  // namespace athanor
