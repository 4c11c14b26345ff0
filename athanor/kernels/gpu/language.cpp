#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/embedded.h"
#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor {
namespace {

std::string_view text_of(const std::string& file) { return embedded_file("athanor/kernels/gpu/" + file); }

}  // namespace

std::span<const GpuTargetName> gpu_targets() {
  static constexpr GpuTargetName all[] = {{GpuTarget::opencl, "opencl", "cl", false},
                                          {GpuTarget::cuda, "cuda", "cu", true},
                                          {GpuTarget::hip, "hip", "hip", true}};
  return all;
}

const GpuTargetName& name_of(GpuTarget target) {
  return *std::ranges::find(gpu_targets(), target, &GpuTargetName::target);
}

std::string_view to_string(GpuTarget target) { return name_of(target).name; }

std::string render(const GpuLaunch& launch, GpuTarget target) {
  std::string source;
  for (size_t d = 0; d < launch.group_size.size(); ++d)
    source += fmt::format("#define GROUP_EXTENT_{} {}\n", d, launch.group_size[d]);
  source += text_of(fmt::format("language/{}.kernel", to_string(target)));
  source += text_of("language/common.kernel");
  return source + launch.source;
}

std::string_view template_text(std::string_view name) {
  return text_of(fmt::format("templates/{}.kernel", name));
}

Defines& Defines::set(std::string_view name, int64_t value) {
  // Extents that do not fit 32 bits are rare, and are written as 64-bit numbers.
  const bool wide = value > INT32_MAX || value < INT32_MIN;
  text_ += fmt::format("#define {} ({}{})\n", name, value, wide ? "L" : "");
  return *this;
}

Defines& Defines::set(std::string_view name, std::string_view value) {
  text_ += fmt::format("#define {} {}\n", name, value);
  return *this;
}

Defines& Defines::set_dtype(std::string_view name, DType dtype) { return set(name, language_name(dtype)); }

std::string_view language_name(DType dtype) { return dtype == DType::b8 ? "b8" : to_string(dtype); }

}  // namespace athanor
