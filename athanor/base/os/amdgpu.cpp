#include "athanor/base/os/amdgpu.h"

#ifdef __linux__
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#endif

namespace athanor::os {

#ifdef __linux__
namespace {

// As in the kernel's include/uapi/drm/amdgpu_drm.h. Its structures may grow but do not change otherwise.
struct Question {
  uint64_t answer;
  uint32_t answer_bytes, query;
  std::array<uint32_t, 4> more;
};
static_assert(sizeof(Question) == 32);

struct DeviceInfo {
  uint32_t device, revision, external_revision, pci_revision, family, engines, arrays, counter_frequency;
  uint64_t engine_clock, memory_clock;
  uint32_t active_units, always_on_mask;
  std::array<uint32_t, 16> unit_bitmap;
  uint32_t pipes_mask, pipes, contexts, padding;
  uint64_t flags;
  uint64_t address_start, address_end;
  uint32_t alignment, fragment, page, constant_ram, memory_type, memory_bits, video, tessellation;
  std::array<uint64_t, 4> buffers;
  std::array<uint32_t, 4> buffer_sizes;
  uint32_t wave_width;
};
static_assert(offsetof(DeviceInfo, active_units) == 48 && offsetof(DeviceInfo, flags) == 136 &&
              offsetof(DeviceInfo, memory_bits) == 180 && offsetof(DeviceInfo, wave_width) == 240);

constexpr uint32_t device_info_query = 0x16;
constexpr uint64_t integrated_flag = 1;

}  // namespace

std::optional<AmdgpuInfo> amdgpu_info(const std::string& node) {
  const int file = open(node.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  DeviceInfo info{};
  Question question{reinterpret_cast<uintptr_t>(&info), sizeof info, device_info_query, {}};
  const int failed = ioctl(file, _IOW('d', 0x45, Question), &question);
  close(file);
  if (failed != 0) return std::nullopt;
  return AmdgpuInfo{info.active_units, info.wave_width, info.memory_bits,
                    (info.flags & integrated_flag) != 0};
}
#else
std::optional<AmdgpuInfo> amdgpu_info(const std::string&) { return std::nullopt; }
#endif

}  // namespace athanor::os
