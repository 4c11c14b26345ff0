// Copies images with channels last for the products of conv_taps.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/conv.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {
namespace {

/// A group copies one row of an image.
class PaddedCopy {
 public:
  PaddedCopy(const OperandDesc& image, Pair extent, Pair first)
      : image_(image), extent_(extent), first_(first), channels_(image.shape[1]) {}

  std::string text(int64_t items) {
    const std::string type = stored(image_.dtype);
    open_kernel(code_, "conv_channels_last", {{"images", "const " + type}, {"copy", type}}, false);
    code_.line(fmt::format("const int y = {}, image = GROUP_ID(0) / {};",
                           plus(fmt::format("GROUP_ID(0) % {}", extent_.height), first_.height),
                           extent_.height));
    code_.line(fmt::format("GLOBAL const {} *const from = images + (image * (i64){} + y * (i64){});", type,
                           image_.strides[0], image_.strides[2]));
    code_.line(
        fmt::format("GLOBAL {} *const to = copy + (i64)GROUP_ID(0) * {};", type, extent_.width * channels_));
    if (items == 1)
      copy_by_blocks();
    else
      copy_elements(items);
    code_.close();
    return code_.text();
  }

 private:
  std::string element(const std::string& channel, const std::string& x) const {
    return fmt::format("from[{} * (i32){} + {} * (i32){}]", channel, image_.strides[1], x, image_.strides[3]);
  }
  std::string inside() const {
    return fmt::format("(u32)y < {} && (u32)x < {}", image_.shape[2], image_.shape[3]);
  }

  void copy_elements(int64_t items) {
    code_.open(fmt::format("for (int e = LOCAL_ID(0); e < {}; e += {})", extent_.width * channels_, items));
    code_.line(fmt::format("const int c = e % {0}, x = {1};", channels_,
                           plus(fmt::format("e / {}", channels_), first_.width)));
    code_.line(fmt::format("to[e] = {} ? {} : 0;", inside(), element("c", "x")));
    code_.close();
  }

  // Through small blocks, so that both memories are accessed in runs.
  void copy_by_blocks() {
    code_.open(fmt::format("for (int c0 = 0; c0 < {}; c0 += {})", channels_, side));
    if (some_part()) code_.line(fmt::format("const int channels = MIN({}, {} - c0);", side, channels_));
    code_.open(fmt::format("for (int x0 = 0; x0 < {}; x0 += {})", extent_.width, side));
    code_.line(fmt::format("{} block[{}];", stored(image_.dtype), side * side));
    const std::string x = plus("x0", first_.width);
    if (some_whole()) {
      code_.open(fmt::format("if ((u32)y < {} && {} >= 0 && {} <= {}{})", image_.shape[2], x,
                             plus("x0", first_.width + side), image_.shape[3],
                             some_part() ? fmt::format(" && channels == {}", side) : ""));
      open_loops("i", side, "j", side);
      code_.line(fmt::format("block[i * {} + j] = {};", side, element("(c0 + i)", "(" + x + " + j)")));
      close_loops();
      code_.close();
      code_.open("else");
    }
    open_loops("i", side, "j", side);
    code_.line(fmt::format("const int x = {} + j;", x));
    code_.line(fmt::format("block[i * {} + j] = {}{} ? {} : 0;", side, inside(),
                           some_part() ? " && i < channels" : "", element("(c0 + i)", "x")));
    close_loops();
    if (some_whole()) code_.close();
    code_.line(fmt::format("const int columns = MIN({}, {} - x0);", side, extent_.width));
    const bool both = some_whole() && some_part();
    if (both) code_.open(fmt::format("if (channels == {})", side));
    if (some_whole()) store_block(fmt::format("{}", side));
    if (both) code_.close(), code_.open("else");
    if (some_part()) store_block("channels");
    if (both) code_.close();
    code_.close();
    code_.close();
  }
  void store_block(const std::string& channels) {
    open_loops("j", "columns", "i", channels);
    code_.line(fmt::format("to[(x0 + j) * {} + c0 + i] = block[i * {} + j];", channels_, side));
    close_loops();
  }

  template <typename Outer, typename Inner>
  void open_loops(const char* outer, const Outer& outer_count, const char* inner, const Inner& inner_count) {
    code_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", outer, outer_count));
    code_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", inner, inner_count));
  }
  void close_loops() { code_.close(), code_.close(); }

  // Whether some blocks have as many channels as fit them, and whether some have fewer.
  bool some_whole() const { return channels_ >= side; }
  bool some_part() const { return channels_ % side != 0; }

  static constexpr int64_t side = 16;
  Code code_;
  const OperandDesc& image_;
  Pair extent_, first_;
  int64_t channels_;
};

}  // namespace

GpuLaunch padded_copy(const OperandDesc& image, Pair extent, Pair first, GpuLaunch::Argument from,
                      GpuLaunch::Argument to, const GpuTraits& traits) {
  const int64_t items = std::min(traits.grain->items, traits.max_group_size);
  return {.name = "conv_channels_last",
          .source = PaddedCopy(image, extent, first).text(items),
          .groups = {image.shape[0] * extent.height, 1, 1},
          .group_size = {items, 1, 1},
          .arguments = {from, to}};
}

}  // namespace athanor::gpu
