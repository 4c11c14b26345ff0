// The kernel language's headers and templates as text, put into the library by cmake/kernel_texts.cmake.
#pragma once
#include <span>
#include <string_view>

namespace athanor {

struct GpuText {
  std::string_view file;  // "templates/gemm.kernel"
  std::string_view content;
};
std::span<const GpuText> gpu_texts();

}  // namespace athanor
