// Indices that come from tensors.
#pragma once
#include <cstdint>
#include <string>

#include "athanor/base/error.h"

namespace athanor::cpu {

/// Returns `index` if it lies in [0, extent); else throws Error(value).
inline int64_t checked_index(int64_t index, int64_t extent, const char* op) {
  if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(extent)) [[unlikely]]
    throw Error(ErrorCode::value,
                std::string(op) + ": index " + std::to_string(index) + " is outside an axis of extent " +
                    std::to_string(extent),
                {}, "Indices must be at least 0 and below the extent.");
  return index;
}

}  // namespace athanor::cpu
