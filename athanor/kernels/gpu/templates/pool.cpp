// max_pool2d, avg_pool2d and their gradients. Each result gathers its terms, so no atomics are needed.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/kernels/gpu/templates.h"

#include "athanor/base/ceil_div.h"

namespace athanor::gpu {
namespace {

struct Pool {
  bool max;
  bool tiles;  // every element of the image lies in exactly one window
  const OperandDesc *image, *result;
  std::string text;  // constants, and what the templates share

  /// `x`, `y`: of the forward op, or gradients with the same layout.
  Pool(const KernelRequest& request, const OperandDesc& x, const OperandDesc& y)
      : max(request.op->name.starts_with("max")), image(&x), result(&y) {
    const Ints &kernel = request.attrs.ints("kernel"), &stride = request.attrs.ints("stride"),
               &padding = request.attrs.ints("padding");
    const bool padded = padding[0] > 0 || padding[1] > 0;
    tiles = !padded && stride == kernel && y.shape[2] * kernel[0] == x.shape[2] &&
            y.shape[3] * kernel[1] == x.shape[3];
    const bool counts_padding = !padded || (!max && request.attrs.flag("count_include_pad"));
    Defines defines;
    defines.set_dtype("DTYPE", request.output().dtype)
        .set("INDEX", "i64")
        .set("IS_MAX", max)
        .set("COUNTS_PADDING", counts_padding)
        .set("PADDED", padded)
        .set("PLANES", x.shape[0] * x.shape[1])
        .set("CHANNELS", x.shape[1])
        .set("IMAGE_H", x.shape[2])
        .set("IMAGE_W", x.shape[3])
        .set("OUT_H", y.shape[2])
        .set("OUT_W", y.shape[3])
        .set("KERNEL_H", kernel[0])
        .set("KERNEL_W", kernel[1])
        .set("STRIDE_H", stride[0])
        .set("STRIDE_W", stride[1])
        .set("PADDING_H", padding[0])
        .set("PADDING_W", padding[1]);
    text = defines.text() + std::string(template_text("pool"));
  }
};

std::string strides_text(std::string_view name, const OperandDesc& x) {
  const std::string prefix(name);
  Defines defines;
  defines.set(prefix + "_N", x.strides[0])
      .set(prefix + "_C", x.strides[1])
      .set(prefix + "_ROW", x.strides[2])
      .set(prefix + "_COLUMN", x.strides[3]);
  return defines.text();
}

GpuCandidate candidate_of(const std::string& name, const Defines& defines, const std::string& text,
                          int64_t all_items, int64_t items, int64_t run,
                          const std::vector<GpuLaunch::Argument>& arguments) {
  GpuLaunch launch{.name = name,
                   .source = defines.text() + text + std::string(template_text(name)),
                   .groups = {ceil_div(all_items, items), 1, 1},
                   .group_size = {items, 1, 1},
                   .arguments = arguments};
  return {.name = fmt::format("{} {} by {}", name, run, items),
          .parameters = {{"run", run}, {"items", items}},
          .launches = {std::move(launch)}};
}

int64_t group_items(const GpuTraits& traits) {
  return std::min(traits.max_group_size, traits.grain->pool_items);
}

/// Launches of the template for `elements` results in rows of `row`: neighbouring elements are items of a
/// group, or an item does several whole rows.
void add(std::vector<GpuCandidate>& candidates, const std::string& name, const std::string& text,
         int64_t elements, int64_t row, const GpuTraits& traits,
         const std::vector<GpuLaunch::Argument>& arguments) {
  const auto candidate = [&](int64_t run, int64_t runs, int64_t items) {
    candidates.push_back(candidate_of(name, Defines().set("RUN", run).set("RUNS", runs), text,
                                      ceil_div(elements, run * runs), items, run * runs, arguments));
  };
  const int64_t least = traits.grain->pool_elements;
  if (least > 1) candidate(row, ceil_div(least, row), 1);
  candidate(1, 1, group_items(traits));
}

/// Launches of pool_windows for results [rows, columns].
void add_windows(std::vector<GpuCandidate>& candidates, const std::string& text, int64_t rows,
                 int64_t columns, const GpuTraits& traits,
                 const std::vector<GpuLaunch::Argument>& arguments) {
  const auto candidate = [&](int64_t r, int64_t c, int64_t items) {
    candidates.push_back(candidate_of("pool_windows", Defines().set("ROWS", r).set("COLUMNS", c), text,
                                      rows * columns / (r * c), items, r * c, arguments));
  };
  if (const int64_t least = traits.grain->pool_elements; least > 1) {
    int64_t several = std::min(rows, ceil_div(least / 2, columns));
    while (rows % several != 0) --several;
    candidate(several, columns, 1);
  }
  candidate(1, 1, group_items(traits));
}

/// A block of an image along an axis: its number of elements, and of the windows in which they lie.
struct PoolBlock {
  int64_t elements, windows, offset;  // rows from the first window's first to the block's first
  int64_t patch;                      // rows of all these windows
  PoolBlock(int64_t strides, int64_t kernel, int64_t stride, int64_t padding) : elements(strides * stride) {
    // The first window that reaches the block which begins at 0.
    const int64_t first = -((kernel - 1 - padding) / stride);
    windows = (elements - 1 + padding) / stride - first + 1;
    offset = padding - first * stride;
    patch = (windows - 1) * stride + kernel;
  }
};

/// Launches of pool_grad_blocks, if windows overlap and items of a group run side by side.
void add_blocks(std::vector<GpuCandidate>& candidates, const std::string& text, const KernelRequest& request,
                const GpuTraits& traits, const std::vector<GpuLaunch::Argument>& arguments) {
  const Ints &kernel = request.attrs.ints("kernel"), &stride = request.attrs.ints("stride"),
             &padding = request.attrs.ints("padding");
  const bool overlap = kernel[0] > stride[0] || kernel[1] > stride[1];
  if (traits.grain->pool_elements > 1 || !overlap || padding[0] >= kernel[0] || padding[1] >= kernel[1])
    return;
  const OperandDesc& dx = request.output();
  const auto size = static_cast<int64_t>(size_of(dx.dtype));
  constexpr int64_t most_held = 64, most_elements = 16;  // in registers
  size_t offered = 0;
  for (const auto& [down, across] : {std::pair{1, 2}, {2, 2}, {1, 1}}) {
    if (offered == 2) break;
    const PoolBlock h(down, kernel[0], stride[0], padding[0]), w(across, kernel[1], stride[1], padding[1]);
    if (h.patch * w.patch * ceil_div(size, 4) > most_held || h.elements * w.elements > most_elements)
      continue;
    const int64_t blocks =
        dx.shape[0] * dx.shape[1] * ceil_div(dx.shape[2], h.elements) * ceil_div(dx.shape[3], w.elements);
    const int64_t row = w.elements * size;
    const bool vectors =
        traits.registers && dx.shape[3] % w.elements == 0 && (row == 4 || row == 8 || row == 16);
    Defines defines;
    defines.set("ITEM", blocks < INT32_MAX / 2 ? "i32" : "i64")
        .set("BLOCK_H", h.elements)
        .set("BLOCK_W", w.elements)
        .set("WINDOWS_H", h.windows)
        .set("WINDOWS_W", w.windows)
        .set("OFFSET_H", h.offset)
        .set("OFFSET_W", w.offset)
        .set("ROW_REGISTERS", std::to_string(vectors ? row / 4 : 0))
        .set("ROW_VECTOR", row == 4 ? "u32 together[1]" : fmt::format("u32x{} together", row / 4))
        .set("WRITTEN", row == 4 ? "together[0]" : "together");
    GpuCandidate candidate = candidate_of("pool_grad_blocks", defines, text, blocks, group_items(traits),
                                          h.elements * w.elements, arguments);
    candidate.name = fmt::format("pool_grad_blocks {}x{} by {}", h.elements, w.elements, group_items(traits));
    candidates.push_back(std::move(candidate));
    ++offered;
  }
}

}  // namespace

static std::vector<GpuCandidate> pool2d(const KernelRequest& request, const GpuTraits& traits) {
  const int64_t elements = request.output().shape.size();
  if (elements == 0) return {{.name = "nothing"}};
  const Pool pool(request, request.inputs[0], request.output());
  std::vector<GpuCandidate> candidates;
  const std::string text =
      Defines().set("GRADIENT", false).text() + pool.text + strides_text("X", request.inputs[0]);
  const int64_t columns = request.output().shape[3];
  if (pool.tiles) add_windows(candidates, text, elements / columns, columns, traits, {{0}, {1}});
  add(candidates, "pool_forward", text, elements, columns, traits, {{0}, {1}});
  return candidates;
}

static std::vector<GpuCandidate> pool2d_grad(const KernelRequest& request, const GpuTraits& traits) {
  const int64_t elements = request.output().shape.size();
  if (elements == 0) return {{.name = "nothing"}};
  const OperandDesc& dy = request.inputs.back();
  const Pool pool(request, request.output(), dy);
  Defines defines;
  defines.set("GRADIENT", true)
      .set("X_PARAMETER", pool.max ? "BUFFER(const STORED(DTYPE), x)," : "")
      .set("X_BIND", pool.max ? "BIND(const STORED(DTYPE), x);" : "");
  std::string text = pool.text + defines.text() + strides_text("DY", dy);
  std::vector<GpuLaunch::Argument> arguments = {{0}, {1}};
  if (pool.max) {
    text += strides_text("X", request.inputs[0]);
    arguments.push_back({2});
  }
  std::vector<GpuCandidate> candidates;
  if (pool.tiles)
    add_windows(candidates, text, dy.shape.size() / dy.shape[3], dy.shape[3], traits, arguments);
  add_blocks(candidates, text, request, traits, arguments);
  add(candidates, "pool_grad", text, elements, request.output().shape[3], traits, arguments);
  return candidates;
}

namespace {

[[maybe_unused]] const bool pool2d_registered =
    register_template({{"max_pool2d", "avg_pool2d"}, pool2d, serves_floats});
[[maybe_unused]] const bool pool2d_grad_registered =
    register_template({{"max_pool2d_grad", "avg_pool2d_grad"}, pool2d_grad, serves_floats});

}  // namespace

}  // namespace athanor::gpu
