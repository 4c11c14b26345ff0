// The fuzzers' entry points, one function for each reader. tests/formats/fuzz_replay_test.cpp runs the same
// functions on the corpus.
//
// Each function takes any bytes and returns. The readers may throw Error(format), and nothing else. What they
// read must be consistent.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/device/data_sheet.h"
#include "athanor/device/detect.h"
#include "athanor/formats/cifar.h"
#include "athanor/formats/csv.h"
#include "athanor/formats/idx.h"
#include "athanor/formats/image.h"
#include "athanor/formats/npy.h"
#include "athanor/formats/npz.h"
#include "athanor/formats/safetensors.h"
#include "athanor/formats/tar.h"

namespace athanor::fuzz {

/// Ends the program unless `ok`, so that the fuzzer notices.
inline void require(bool ok) {
  if (!ok) std::abort();
}

inline void require_sound(const HostArray& array) {
  require(array.bytes.size() == static_cast<size_t>(array.size()) * size_of(array.dtype));
}

/// Runs `read`, which may throw only Error(format), with all its parts.
template <class Read>
void only_format_errors(Read read) {
  try {
    read();
  } catch (const Error& error) {
    require(error.code() == ErrorCode::format && error.where().starts_with("input") && !error.hint().empty());
  }
}

inline void idx(Bytes data) {
  only_format_errors([&] { require_sound(parse_idx(data, "input")); });
}

inline void npy(Bytes data) {
  only_format_errors([&] { require_sound(parse_npy(data, "input")); });
}

inline void npz(Bytes data) {
  only_format_errors([&] {
    for (const auto& [name, array] : parse_npz(data, "input")) require_sound(array);
  });
}

/// Members must lie inside the archive.
inline void tar(Bytes data) {
  only_format_errors([&] {
    const auto read = [&](uint64_t offset, std::span<std::byte> out) {
      const Bytes part = data.subspan(std::min<size_t>(offset, data.size()));
      return static_cast<size_t>(
          std::ranges::copy(part.first(std::min(part.size(), out.size())), out.begin()).in - part.begin());
    };
    for (const TarMember& member : parse_tar_members(read, data.size(), "input"))
      require(member.offset <= data.size() && member.size <= data.size() - member.offset);
  });
}

inline void csv(Bytes data) {
  only_format_errors([&] {
    const CsvTable table = parse_csv({reinterpret_cast<const char*>(data.data()), data.size()}, "input");
    require(!table.rows.empty());
    for (const auto& row : table.rows) require(row.size() == table.columns.size());
  });
}

/// An even number of bytes is read as CIFAR-100.
inline void cifar(Bytes data) {
  only_format_errors([&] {
    const CifarBatch batch = parse_cifar(data, data.size() % 2 == 0 ? Cifar::hundred : Cifar::ten, "input");
    require_sound(batch.images);
    require_sound(batch.labels);
    require(batch.images.shape[0] == batch.labels.shape[0]);
  });
}

/// What was read must be the same after it is written and read again.
inline void safetensors(Bytes data) {
  only_format_errors([&] {
    const SafeTensors content = parse_safetensors(data, "input");
    for (const auto& [name, array] : content.tensors) require_sound(array);
    const SafeTensors again = parse_safetensors(format_safetensors(content), "again");
    require(again.metadata == content.metadata && again.tensors.size() == content.tensors.size());
    for (const auto& [name, array] : content.tensors) {
      const HostArray& other = again.tensors.at(name);
      require(other.dtype == array.dtype && other.shape == array.shape && other.bytes == array.bytes);
    }
  });
}

inline void image(Bytes data) {
  only_format_errors([&] {
    const HostArray picture = parse_image(data, "input");
    require_sound(picture);
    require(picture.dtype == DType::u8 && picture.shape.rank() == 3 && picture.size() > 0 &&
            (picture.shape[2] == 1 || picture.shape[2] == 3));
  });
}

/// A machine with one file of arbitrary content. The first byte chooses the file ('a': the first one), the
/// rest is its content. 'A' reads the rest as a table of data sheets.
inline void machine(Bytes data) {
  static constexpr const char* files[] = {"machine.toml",
                                          "sys/class/kfd/kfd/topology/nodes/1/properties",
                                          "sys/class/kfd/kfd/topology/nodes/1/caches/0/properties",
                                          "sys/class/drm/card0/device/uevent",
                                          "sys/class/drm/card0/device/pp_dpm_sclk",
                                          "sys/class/drm/card0/device/current_link_speed",
                                          "sys/class/drm/card0/device/ip_discovery/die/0/11/0/major",
                                          "sys/class/drm/card0/device/mem_info_vram_total",
                                          "proc/cpuinfo",
                                          "proc/meminfo",
                                          "proc/driver/nvidia/version",
                                          "proc/driver/nvidia/gpus/0000:01:00.0/information",
                                          "proc/self/status",
                                          "proc/self/environ",
                                          "etc/passwd",
                                          "root/.config/athanor/devices.toml",
                                          "usr/share/libdrm/amdgpu.ids",
                                          "usr/share/misc/pci.ids",
                                          "sys/devices/system/cpu/cpu0/cache/index0/size"};
  namespace fs = std::filesystem;
  if (data.empty()) return;
  const std::string_view rest(reinterpret_cast<const char*>(data.data()) + 1, data.size() - 1);
  const auto which = static_cast<size_t>(data[0]);
  if (which == 'A') return only_format_errors([&] { (void)parse_data_sheets(rest, "input"); });
  const size_t index = (which - 'a') % std::size(files);
  static const struct OwnFolder {
    fs::path path = fs::temp_directory_path() / ("athanor-fuzz-" + std::to_string(getpid()));
    ~OwnFolder() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } folder;
  static const fs::path& root = folder.path;
  // Files that cause the chosen file to be read.
  static const bool made = [] {
    for (const char* file : files) fs::create_directories((root / file).parent_path());
    const auto put = [](const char* file, const char* text) { std::ofstream(root / file) << text; };
    put("etc/passwd", "root:x:0:0:root:/root:/bin/bash\n");
    put("sys/class/drm/card0/device/uevent",
        "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID=1002:15BF\nPCI_SLOT_NAME=0000:64:00.0\n");
    put("sys/class/drm/card0/device/current_link_width", "16\n");
    put("sys/class/drm/card0/device/ip_discovery/die/0/11/0/minor", "0\n");
    put("sys/class/drm/card0/device/ip_discovery/die/0/11/0/revision", "1\n");
    put("sys/class/kfd/kfd/topology/nodes/1/properties",
        "simd_count 24\nsimd_per_cu 2\ngfx_target_version 110003\nlocation_id 25600\n");
    put("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n");
    return true;
  }();
  require(made);
  const fs::path file = root / files[index];
  const std::string before = fs::exists(file) ? read_text_file(file) : "";
  std::ofstream(file, std::ios::binary) << rest;
  try {
    const Detection found = detect(Machine(root));
    require(!found.devices.empty() &&
            !to_json(found).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).empty());
    for (const FoundDevice& device : found.devices) require(!device.kind.empty());
  } catch (const Error& error) {
    require(error.code() == ErrorCode::format && index == 0);
  }
  if (before.empty())
    fs::remove(file);
  else
    std::ofstream(file, std::ios::binary) << before;
}

}  // namespace athanor::fuzz
