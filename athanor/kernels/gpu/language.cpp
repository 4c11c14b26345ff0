#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>

#include "athanor/base/embedded.h"
#include "athanor/base/text.h"
#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor {
namespace {

std::string_view text_of(const std::string& file) { return embedded_file("athanor/kernels/gpu/" + file); }

std::string extents_of(const GpuLaunch& launch) {
  std::string text;
  for (size_t d = 0; d < launch.group_size.size(); ++d)
    text += fmt::format("#define GROUP_EXTENT_{} {}\n", d, launch.group_size[d]);
  return text;
}

// What a launch's source declares for the whole file. Templates begin these lines in the first column.
struct Declared {
  std::set<std::string> names;   // functions, types, tables
  std::set<std::string> macros;  // also those of its extents
};
Declared declared_in(const std::string& source) {
  static const std::regex macro(R"(\s*#\s*define (\w+).*)"),
      function(R"((?:DEVICE|KERNEL) .*?\b([a-z]\w*)\(.*)"), type(R"((?:typedef\b.*|\}) (\w+);.*)"),
      table(R"(CONSTANT \w+ (\w+)\[.*)");
  Declared declared;
  std::smatch found;
  for (const std::string& line : split(source, '\n'))
    if (std::regex_match(line, found, macro))
      declared.macros.insert(found[1]);
    else if (std::regex_match(line, found, function) || std::regex_match(line, found, type) ||
             std::regex_match(line, found, table))
      declared.names.insert(found[1]);
  return declared;
}

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

std::string language_header(GpuTarget target) {
  std::string text;
  const std::string_view amd = text_of("language/amd.kernel");
  if (target == GpuTarget::hip) text = amd;
  if (target == GpuTarget::opencl) text = fmt::format("#ifdef AMD_UNITS\n{}#endif\n", amd);
  text += text_of(fmt::format("language/{}.kernel", to_string(target)));
  return text += text_of("language/common.kernel");
}

std::string render_for_reading(const GpuLaunch& launch) {
  const std::string needs =
      launch.compile_options.empty() ? "" : fmt::format("// Compile it with {}\n", launch.compile_options);
  return fmt::format("{}{}#include \"{}\"\n\n{}", needs, extents_of(launch), language_header_name,
                     launch.source);
}

std::string render(const GpuLaunch& launch, GpuTarget target) {
  return extents_of(launch) + language_header(target) + launch.source;
}

std::string name_together(const GpuLaunch& launch, size_t number) {
  return fmt::format("{}_{}", launch.name, number);
}

std::string render_together(std::span<const GpuLaunch* const> launches, GpuTarget target) {
  std::string source = language_header(target);
  for (size_t i = 0; i < launches.size(); ++i) {
    const std::string own = extents_of(*launches[i]) + launches[i]->source;
    const Declared declared = declared_in(own);
    for (const std::string& name : declared.names) source += fmt::format("#define {0} {0}_{1}\n", name, i);
    source += own + '\n';
    for (const std::string& name : declared.names) source += fmt::format("#undef {}\n", name);
    for (const std::string& name : declared.macros) source += fmt::format("#undef {}\n", name);
  }
  return source;
}

std::string_view template_text(std::string_view name) {
  return text_of(fmt::format("templates/{}.kernel", name));
}

Defines& Defines::set(std::string_view name, int64_t value) {
  // Extents that do not fit 32 bits are rare, and are written as 64-bit numbers.
  const bool wide = value > INT32_MAX || value < INT32_MIN;
  return set(name, value < 0 || wide ? fmt::format("({}{})", value, wide ? "L" : "") : std::to_string(value));
}

Defines& Defines::set(std::string_view name, std::string_view value) {
  lines_.push_back({std::string(name), std::string(value)});
  return *this;
}

std::string Defines::before(const std::string& source) const {
  const auto of_word = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
  std::set<std::string_view> words;
  for (const char *at = source.data(), *end = at + source.size(); at != end;) {
    at = std::find_if(at, end, of_word);
    const char* const behind = std::find_if_not(at, end, of_word);
    words.emplace(at, static_cast<size_t>(behind - at));
    at = behind;
  }
  std::string text;
  for (const Line& line : lines_)
    if (words.contains(line.name)) text += fmt::format("#define {} {}\n", line.name, line.value);
  return text + source;
}

Defines& Defines::set_dtype(std::string_view name, DType dtype) { return set(name, language_name(dtype)); }

std::string_view language_name(DType dtype) { return dtype == DType::b8 ? "b8" : to_string(dtype); }

}  // namespace athanor
