// Whether there is room for what people want to install: on the disk, in main memory, in the GPU's memory.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "athanor/doctor/compatibility.h"
#include "athanor/doctor/facts.h"

namespace athanor::doctor {

/// The room of a machine for one goal; none if it cannot be seen.
struct RoomHere {
  std::string folder;                          // where the goal is installed: the home, or /opt
  std::optional<uint64_t> disk, memory, vram;  // bytes: free; available; of the largest of the GPUs
};

enum class RoomKind { disk, memory, vram };

struct Shortage {
  RoomKind kind = RoomKind::disk;
  uint64_t needed = 0, there = 0;  // bytes
};

/// For Python environments, which are in the user's home; with `rocm` for ROCm itself.
RoomHere room_here(const Facts& facts, const std::vector<const Gpu*>& gpus, bool rocm = false);

/// The resources that do not suffice. Only known sizes count; if only the size of the download is known, that
/// one.
std::vector<Shortage> shortages(const Compatibility::Room& need, const RoomHere& here);

/// "5.08 GiB on the disk, 2.79 GiB to download": the known sizes; "" for none.
Text room_text(const Compatibility::Room& need);

/// The row for a framework on these GPUs ("pytorch", "cuda"); nullptr if nothing is known.
const Compatibility::Room* room_needed(const Facts& facts, const std::string& goal,
                                       const std::vector<const Gpu*>& gpus);

}  // namespace athanor::doctor
