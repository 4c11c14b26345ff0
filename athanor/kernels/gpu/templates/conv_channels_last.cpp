#include "athanor/kernels/gpu/templates/conv_channels_last.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"

namespace athanor::gpu {

int64_t padded_channels(int64_t channels, DType type) {
  const int64_t chunk = 16 / static_cast<int64_t>(size_of(type));
  if (channels > chunk / 2) return ceil_div(channels, chunk) * chunk;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(channels)));
}

namespace {

/// The parameters of a copy, without its arguments.
std::vector<Parameter> parameters_of(const char* from, const std::string& read, const std::string& written,
                                     const OperandPrologue* computed) {
  std::vector<Parameter> all = {{from, "const " + read}};
  if (computed != nullptr) std::ranges::move(computed->elements.parameters(), std::back_inserter(all));
  all.push_back({"to", written});
  return all;
}

std::vector<GpuLaunch::Argument> arguments_of(GpuLaunch::Argument from, GpuLaunch::Argument to,
                                              const OperandPrologue* computed) {
  std::vector<GpuLaunch::Argument> all = {computed != nullptr ? computed->memory : from};
  if (computed != nullptr)
    for (const Parameter& extra : computed->elements.parameters()) all.push_back(extra.argument);
  all.push_back(to);
  return all;
}

/// What elements become, one by one or in runs of `count`.
std::string functions_of(const OperandPrologue* computed, int64_t count = 1) {
  if (computed == nullptr) return {};
  const ResultEpilogue& elements = computed->elements;
  return elements.function(count > 1 ? elements.vectors(count) : std::vector<ResultEpilogue::Vector>{});
}

/// An element as an expression.
std::string element_at(const char* memory, DType read, const OperandPrologue* computed, const std::string& at,
                       const std::string& channel) {
  const std::string x = fmt::format("LOAD({}, {}, {})", language_name(read), memory, at);
  return computed == nullptr ? x : computed->elements.call(x, at, channel, "0");
}

}  // namespace

bool ChannelsLast::has_vectors() const {
  const auto chunk = static_cast<int64_t>(16 / size_of(type));
  const Ints& strides = images.strides;
  const int64_t alignment = computed != nullptr ? computed->alignment : images.alignment;
  return groups == 1 && channels == images.shape[1] && channels % chunk == 0 && read() == type &&
         strides[1] == 1 && alignment % 16 == 0 && strides[0] % chunk == 0 && strides[2] % chunk == 0 &&
         strides[3] % chunk == 0;
}

// An item copies 16 bytes of a pixel.
GpuLaunch ChannelsLast::copy_vectors(GpuLaunch::Argument from, GpuLaunch::Argument to,
                                     const GpuTraits& traits) const {
  const auto size = static_cast<int64_t>(size_of(type)), of_pixel = channels * size / 16, chunk = 16 / size;
  const int64_t vectors = elements() * size / 16, items = std::min<int64_t>(256, traits.max_group_size);
  Code code;
  open_kernel(code, "pad_images", parameters_of("from", "u8", "u8", computed), false);
  code.line("const int vector = GLOBAL_ID(0);");
  code.open(fmt::format("if (vector < {})", vectors));
  code.line(fmt::format("const int pixel = vector / {}, row = pixel / {};", of_pixel, extent.width));
  code.line(fmt::format("const int y = {}, x = {};",
                        plus(times(remainder("row", extent.height), step.height), low.height),
                        plus(times(remainder("pixel", extent.width), step.width), low.width)));
  code.line("u32x4 held = (u32x4)(0u);");
  const std::string element =
      affine(0, {images.strides[0], images.strides[2], images.strides[3], chunk},
             {fmt::format("(row / {})", extent.height), "y", "x", fmt::format("(vector % {})", of_pixel)});
  code.line(fmt::format("u32 at = (u32)(({}) * {});", element, size));
  const std::string inside = fmt::format("if ((u32)y < {} && (u32)x < {})", images.shape[2], images.shape[3]);
  if (computed == nullptr) {
    code.line(inside + " READ_GLOBAL(4, held, 0, from, at);");
  } else {
    code.open(inside);
    code.line("READ_GLOBAL(4, held, 0, from, at);");
    code.line(fmt::format("const int batch = 0, first = {}, channel = vector % {} * {};", element, of_pixel,
                          chunk));
    declare_ready(
        code, computed->elements,
        {.count = chunk,
         .at = "first",
         .row = "channel",
         .column = "0",
         .row_step = 1,
         .element = [&](int64_t e) { return fmt::format("ELEMENT({}, held, {})", language_name(type), e); }});
    pack_ready(code, type, chunk);
    code.line("held = ready;");
    code.close();
  }
  code.line("WRITE_GLOBAL(4, to + (i64)vector * 16, held);");
  code.close();
  code.close();
  return {.name = "pad_images",
          .source = functions_of(computed, chunk) + code.text(),
          .groups = {ceil_div(vectors, items), 1, 1},
          .group_size = {items, 1, 1},
          .arguments = arguments_of(from, to, computed)};
}

// A block of pixels and channels goes through local memory: neighbouring items read neighbouring pixels and
// write neighbouring channels.
GpuLaunch ChannelsLast::launch(GpuLaunch::Argument from, GpuLaunch::Argument to,
                               const GpuTraits& traits) const {
  if (has_vectors()) return copy_vectors(from, to, traits);
  const int64_t in_group = images.shape[1] / groups, pixels = extent.height * extent.width;
  const int64_t wide =
      std::clamp<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(column()))), 4, 64);
  const int64_t high = std::min<int64_t>(4096 / wide, 256);
  const int64_t items = std::min<int64_t>(256, traits.max_group_size);
  const int64_t pitch = high + 4 / static_cast<int64_t>(size_of(type));  // other banks for the next channel
  const int64_t pixel_blocks = ceil_div(pixels, high), channel_blocks = ceil_div(column(), wide);
  Code code;
  open_kernel(code, "channels_last", parameters_of("from", stored(read()), stored(type), computed), false);
  if (computed != nullptr) code.line("const int batch = 0;");
  code.line(fmt::format("LOCAL {} block[{}];", stored(type), wide * pitch));
  code.line(fmt::format("const int first_pixel = {}, first_channel = {};",
                        times(remainder("GROUP_ID(0)", pixel_blocks), high),
                        times(remainder(divided("GROUP_ID(0)", pixel_blocks), channel_blocks), wide)));
  code.line(fmt::format("const int image = GROUP_ID(0) / {};", pixel_blocks * channel_blocks));
  code.open(fmt::format("for (int e = LOCAL_ID(0); e < {}; e += {})", wide * high, items));
  code.line(
      fmt::format("const int pixel = first_pixel + e % {}, channel = first_channel + e / {};", high, high));
  code.line(fmt::format("const int y = {}, x = {};",
                        plus(times(divided("pixel", extent.width), step.height), low.height),
                        plus(times(remainder("pixel", extent.width), step.width), low.width)));
  std::string inside =
      fmt::format("pixel < {} && (u32)y < {} && (u32)x < {}", pixels, images.shape[2], images.shape[3]);
  std::string channel = "channel";
  if (channels == in_group) {
    inside += fmt::format(" && channel < {}", column());
  } else {
    inside += fmt::format(" && channel < {} && channel % {} < {}", column(), channels, in_group);
    if (groups > 1) channel = fmt::format("(channel / {0} * {1} + channel % {0})", channels, in_group);
  }
  code.line(fmt::format("const bool inside = {};", inside));
  const std::string at = affine(0, images.strides, {"image", channel, "y", "x"});
  const std::string place = fmt::format("e / {} * {} + e % {}", high, pitch, high);
  const std::string value =
      fmt::format("inside ? {} : 0.0f", element_at("from", read(), computed, at, channel));
  // In OpenCL, STORE writes f16 to global memory alone.
  code.line(type == DType::f16 ? fmt::format("block[{}] = f16_of({});", place, value)
                               : fmt::format("STORE({}, block, {}, {});", language_name(type), place, value));
  code.close();
  code.line("BARRIER();");
  code.open(fmt::format("for (int e = LOCAL_ID(0); e < {}; e += {})", wide * high, items));
  code.line(
      fmt::format("const int pixel = first_pixel + e / {}, channel = first_channel + e % {};", wide, wide));
  code.line(
      fmt::format("if (pixel < {0} && channel < {1}) to[(image * {0} + pixel) * {1} + channel] = block[e % "
                  "{2} * {3} + e / {2}];",
                  pixels, column(), wide, pitch));
  code.close();
  code.close();
  return {.name = "channels_last",
          .source = functions_of(computed) + code.text(),
          .groups = {pixel_blocks * channel_blocks * images.shape[0], 1, 1},
          .group_size = {items, 1, 1},
          .local_bytes = wide * pitch * static_cast<int64_t>(size_of(type)),
          .arguments = arguments_of(from, to, computed)};
}

GpuLaunch PackedWeights::launch(GpuLaunch::Argument weights, GpuLaunch::Argument to,
                                const GpuTraits& traits) const {
  const DType read = computed != nullptr ? computed->dtype : from;
  auto parameters = parameters_of("weights", stored(read), stored(type), computed);
  const auto arguments = arguments_of(weights, to, computed);
  for (size_t i = 0; i < arguments.size(); ++i) parameters[i].argument = arguments[i];
  ElementKernel kernel("pack_weights", {groups, m, taps.height, taps.width, padded}, parameters, traits);
  const std::string at = affine(
      first, {group_stride, m_stride, tap_stride.height, tap_stride.width, channel_stride}, kernel.index());
  if (computed != nullptr) kernel.code().line("const int batch = 0;");
  std::string value = element_at("weights", read, computed, at, "0");
  if (padded != channels) value = fmt::format("dim4 < {} ? {} : 0.0f", channels, value);
  kernel.code().line(fmt::format("STORE({}, to, flat, {});", language_name(type), value));
  GpuLaunch launch = kernel.finish();
  launch.source = functions_of(computed) + launch.source;
  return launch;
}

}  // namespace athanor::gpu
