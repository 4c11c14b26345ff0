// Copies images for convolutions by shifted runs of pixels.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/conv.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {
namespace {

/// The image's row of the copy's row `row`, which is row `low` + y of the image. Every step-th row lies
/// together, and columns do the same.
std::string image_row(const ShiftedCopy& copy) {
  const std::string row =
      copy.step.height == 1 && copy.step.width == 1
          ? "row"
          : fmt::format("{} + row / {}", times(fmt::format("row % {}", copy.lines), copy.step.height),
                        copy.lines * copy.step.width);
  return plus(row, copy.low.height);
}

/// Of the image's columns, the first of the copy's row `row`.
std::string first_column(const ShiftedCopy& copy) {
  if (copy.step.width == 1) return fmt::format("{}", copy.low.width);
  return plus(fmt::format("row / {} % {}", copy.lines, copy.step.width), copy.low.width);
}

/// An item copies `each` planes, row by row.
void write_copy_of_planes(Code& code, const OperandDesc& image, const ShiftedCopy& copy, int64_t each,
                          int64_t planes) {
  const int64_t step = copy.step.width;
  code.open(fmt::format("for (int plane = {0}; plane < MIN({1}, {2}); ++plane)", times("GROUP_ID(0)", each),
                        times("(GROUP_ID(0) + 1)", each), planes));
  code.line(
      fmt::format("GLOBAL const {} *const from = images + (plane / {} * (i64){} + plane % {} * (i64){});",
                  stored(image.dtype), image.shape[1], image.strides[0], image.shape[1], image.strides[1]));
  code.line(fmt::format("GLOBAL {} *to = copy + plane * (i64){};", stored(image.dtype), copy.plane()));
  code.open(fmt::format("for (int row = 0; row < {}; ++row, to += {})", copy.plane() / copy.line, copy.line));
  code.line(fmt::format("const int y = {}, x = {};", image_row(copy), first_column(copy)));
  code.line("// The columns of the image from `left` up to `right`, exclusive.");
  const auto steps = [&](const std::string& columns) {
    return step == 1 ? columns : fmt::format("({} + {}) / {}", columns, step - 1, step);
  };
  code.line(fmt::format("const int left = MIN({}, x < 0 ? {} : 0);", copy.line, steps("-x")));
  code.line(fmt::format("const int right = (u32)y < {} && x < {} ? MIN({}, {}) : 0;", image.shape[2],
                        image.shape[3], copy.line, steps(fmt::format("{} - x", image.shape[3]))));
  code.line(fmt::format("GLOBAL const {} *const line = from + (y * (i32){} + x * (i32){});",
                        stored(image.dtype), image.strides[2], image.strides[3]));
  code.open("if (right <= left)");
  code.line(fmt::format("for (int j = 0; j < {}; ++j) to[j] = 0;", copy.line));
  code.line("continue;");
  code.close();
  code.line("for (int j = 0; j < left; ++j) to[j] = 0;");
  code.line(fmt::format("PARALLEL for (int j = left; j < right; ++j) to[j] = line[j * (i32){}];",
                        step * image.strides[3]));
  code.line(fmt::format("for (int j = right; j < {}; ++j) to[j] = 0;", copy.line));
  code.close();
  code.close();
}

/// An item copies one element.
void write_copy_of_element(Code& code, const OperandDesc& image, const ShiftedCopy& copy, int64_t planes) {
  code.line("const i64 item = GLOBAL_ID(0);");
  code.line(fmt::format("if (item >= {}) return;", planes * copy.plane()));
  code.line(fmt::format("const int plane = (int)(item / {0}), e = (int)(item % {0}), row = e / {1};",
                        copy.plane(), copy.line));
  code.line(fmt::format("const int y = {}, x = {} + {};", image_row(copy), first_column(copy),
                        times(fmt::format("e % {}", copy.line), copy.step.width)));
  code.line(fmt::format("const i64 at = {};",
                        affine(0, image.strides,
                               {fmt::format("(i64)(plane / {})", image.shape[1]),
                                fmt::format("(i64)(plane % {})", image.shape[1]), "(i64)y", "(i64)x"})));
  code.line(fmt::format("copy[item] = (u32)y < {} && (u32)x < {} ? images[at] : 0;", image.shape[2],
                        image.shape[3]));
}

}  // namespace

GpuLaunch shifted_copy(const OperandDesc& image, const ShiftedCopy& copy, int buffer, GpuLaunch::Argument to,
                       const GpuTraits& traits) {
  const int64_t planes = image.shape[0] * image.shape[1];
  const int64_t items = traits.grain->items;
  const int64_t each = std::max<int64_t>(std::min(traits.grain->copied_elements / copy.plane(), planes), 1);
  Code code;
  open_kernel(code, "conv_shifted_copy",
              {{"images", "const " + stored(image.dtype)}, {"copy", stored(image.dtype)}}, false);
  if (items == 1)
    write_copy_of_planes(code, image, copy, each, planes);
  else
    write_copy_of_element(code, image, copy, planes);
  code.close();
  return {.name = "conv_shifted_copy",
          .source = code.text(),
          .groups = {items == 1 ? ceil_div(planes, each) : ceil_div(planes * copy.plane(), items), 1, 1},
          .group_size = {items, 1, 1},
          .arguments = {{buffer}, to}};
}

}  // namespace athanor::gpu
