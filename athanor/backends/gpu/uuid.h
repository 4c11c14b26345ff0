// How NVML, /proc and CUDA's variables write a GPU's UUID.
#pragma once
#include <fmt/format.h>

#include <array>
#include <string>

namespace athanor::gpu {

/// "GPU-1b2c3d4e-..."
inline std::string nvidia_uuid(const std::array<unsigned char, 16>& bytes) {
  std::string text = "GPU-";
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

}  // namespace athanor::gpu
