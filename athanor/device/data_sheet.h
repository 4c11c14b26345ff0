// What vendors say of their devices: data/gpus.csv, and which of its rows a device is.
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
  std::string wave_width;  // "32", or "8/16/32" where kernels choose
  // Per second, in 1e12: without sparsity, 0 where there is no such unit; none where it is not known.
  std::optional<double> f32_tflops, f16_vector_tflops, f16_matrix_tflops, bf16_matrix_tflops;
  std::optional<double> memory_gb, bandwidth_gb_s, watts;
  std::string host_link, peer_link, source;
};

/// What is known of a device; every part may be missing ("" or 0).
struct DeviceTraits {
  uint32_t pci_vendor = 0, pci_device = 0;
  std::optional<uint32_t> pci_revision;
  std::string name, arch;
  int64_t compute_units = 0;
  uint64_t memory_bytes = 0;
};

/// Reads data of the form of data/gpus.csv: lines of '#' are comments, the first other line names the
/// columns; no value has a comma. Throws Error(format).
std::vector<DataSheet> parse_data_sheets(std::string_view text, const std::string& where);

/// The rows of a table like those: each as long as the first, which names the columns. Throws Error(format).
std::vector<std::vector<std::string>> parse_table(std::string_view text, const std::string& where);

/// Those that are built in.
const std::vector<DataSheet>& data_sheets();

/// The sheet of a device, by PCI id (data/pci_gpus.csv), else by name, else by architecture. Where several
/// products come into question, compute units and memory decide; nullptr when they do not.
const DataSheet* find_data_sheet(const DeviceTraits& device);

/// The products that a device may be whose PCI revision is not known, though several share its id: those that
/// its memory and compute units do not rule out. Others that the table lacks may have the same id.
std::vector<const DataSheet*> possible_data_sheets(const DeviceTraits& device);

/// "gfx1103" for the graphics core "11.0.1" of ip_discovery; "" for one that is not known.
std::string gfx_of_graphics_core(std::string_view version);

}  // namespace athanor
