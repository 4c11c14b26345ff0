// max_pool2d, avg_pool2d and their gradients: problems and candidates.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates.h"
#include "athanor/kernels/gpu/templates/pool_kernel.h"

namespace athanor::gpu {
namespace {

/// `x`, `y`: of the forward op, or gradients with the same layout.
PoolProblem pool_problem(const KernelRequest& request, const OperandDesc& x, const OperandDesc& y) {
  PoolProblem p;
  p.max = request.op->name.starts_with("max");
  p.dtype = request.output().dtype;
  p.planes = x.shape[0] * x.shape[1];
  p.channels = x.shape[1];
  p.image = {x.shape[2], x.shape[3]};
  p.out = {y.shape[2], y.shape[3]};
  p.kernel = request.attrs.ints("kernel");
  p.stride = request.attrs.ints("stride");
  p.padding = request.attrs.ints("padding");
  p.channels_last = !request.output().dense();
  p.padded = p.padding[0] > 0 || p.padding[1] > 0;
  p.counts_padding = !p.padded || (!p.max && request.attrs.flag("count_include_pad"));
  return p;
}

GpuCandidate candidate_of(const std::string& name, std::string source, int64_t all_items, int64_t items,
                          int64_t run, const std::vector<GpuLaunch::Argument>& arguments) {
  GpuLaunch launch{.name = name,
                   .source = std::move(source),
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

/// Kernels for `elements` results in rows of `row`: neighbouring elements are items of a group, or an item
/// does several whole rows.
void add(std::vector<GpuCandidate>& candidates, const PoolProblem& p, int64_t elements, int64_t row,
         const GpuTraits& traits, const std::vector<GpuLaunch::Argument>& arguments) {
  const auto candidate = [&](int64_t run, int64_t runs, int64_t items) {
    candidates.push_back(
        candidate_of(p.gradient ? "pool_grad" : "pool_forward",
                     p.gradient ? pool_grad_kernel(p, run, runs) : pool_forward_kernel(p, run, runs),
                     ceil_div(elements, run * runs), items, run * runs, arguments));
  };
  const int64_t least = traits.grain->pool_elements;
  if (least > 1 && !p.channels_last) candidate(row, ceil_div(least, row), 1);
  candidate(1, 1, group_items(traits));
}

/// A kernel for vectors of channels, if all operands have them.
void add_channels(std::vector<GpuCandidate>& candidates, const PoolProblem& p, const KernelRequest& request,
                  const GpuTraits& traits, const std::vector<GpuLaunch::Argument>& arguments) {
  constexpr int64_t most_results = 64, most_bytes = INT32_MAX;  // of an item, in registers; of an image
  const int64_t size = static_cast<int64_t>(size_of(p.dtype)), lanes = 16 / size;
  if (!traits.registers || !p.channels_last || size > 4 || p.channels % lanes != 0) return;
  if (p.gradient && (p.stride[0] * p.stride[1] * lanes > most_results || p.padding[0] >= p.kernel[0] ||
                     p.padding[1] >= p.kernel[1]))
    return;
  const auto has_vectors = [&](const OperandDesc& operand) {
    return operand.channels_last() && operand.alignment % OperandDesc::whole_vectors == 0 &&
           operand.shape.size() * size < most_bytes;
  };
  if (!std::ranges::all_of(request.inputs, has_vectors) || !has_vectors(request.output())) return;
  const int64_t items = group_items(traits);
  candidates.push_back(candidate_of(p.gradient ? "pool_grad_channels" : "pool_channels",
                                    pool_channels_kernel(p), pool_channels_items(p), items, lanes,
                                    arguments));
}

/// Kernels for windows that tile the image, whose results are [rows, columns].
void add_windows(std::vector<GpuCandidate>& candidates, const PoolProblem& p, int64_t rows, int64_t columns,
                 const GpuTraits& traits, const std::vector<GpuLaunch::Argument>& arguments) {
  const auto candidate = [&](int64_t r, int64_t c, int64_t items) {
    candidates.push_back(candidate_of("pool_windows", pool_windows_kernel(p, r, c), rows * columns / (r * c),
                                      items, r * c, arguments));
  };
  if (const int64_t least = traits.grain->pool_elements; least > 1) {
    int64_t several = std::min(rows, ceil_div(least / 2, columns));
    while (rows % several != 0) --several;
    candidate(several, columns, 1);
  }
  candidate(1, 1, group_items(traits));
}

/// Kernels for blocks of gradients, if windows overlap and items of a group run side by side.
void add_blocks(std::vector<GpuCandidate>& candidates, const PoolProblem& p, const KernelRequest& request,
                const GpuTraits& traits, const std::vector<GpuLaunch::Argument>& arguments) {
  const Ints &kernel = p.kernel, &stride = p.stride, &padding = p.padding;
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
    GpuCandidate candidate = candidate_of(
        "pool_grad_blocks", pool_blocks_kernel(p, h, w, blocks >= INT32_MAX / 2, vectors ? row / 4 : 0),
        blocks, group_items(traits), h.elements * w.elements, arguments);
    candidate.name = fmt::format("pool_grad_blocks {}x{} by {}", h.elements, w.elements, group_items(traits));
    candidates.push_back(std::move(candidate));
    ++offered;
  }
}

}  // namespace

static std::vector<GpuCandidate> pool2d(const KernelRequest& request, const GpuTraits& traits) {
  const int64_t elements = request.output().shape.size();
  if (elements == 0) return {{.name = "nothing"}};
  PoolProblem p = pool_problem(request, request.inputs[0], request.output());
  p.gradient = false;
  p.x = request.inputs[0].strides;
  std::vector<GpuCandidate> candidates;
  const int64_t columns = request.output().shape[3];
  add_channels(candidates, p, request, traits, {{0}, {1}});
  if (p.tiles() && !p.channels_last)
    add_windows(candidates, p, elements / columns, columns, traits, {{0}, {1}});
  add(candidates, p, elements, columns, traits, {{0}, {1}});
  return candidates;
}

static std::vector<GpuCandidate> pool2d_grad(const KernelRequest& request, const GpuTraits& traits) {
  const int64_t elements = request.output().shape.size();
  if (elements == 0) return {{.name = "nothing"}};
  const OperandDesc& dy = request.inputs.back();
  PoolProblem p = pool_problem(request, request.output(), dy);
  p.gradient = true;
  p.dy = dy.strides;
  std::vector<GpuLaunch::Argument> arguments = {{0}, {1}};
  if (p.max) {
    p.x = request.inputs[0].strides;
    arguments.push_back({2});
  }
  std::vector<GpuCandidate> candidates;
  add_channels(candidates, p, request, traits, arguments);
  if (p.tiles() && !p.channels_last)
    add_windows(candidates, p, dy.shape.size() / dy.shape[3], dy.shape[3], traits, arguments);
  if (!p.channels_last) add_blocks(candidates, p, request, traits, arguments);
  add(candidates, p, elements, request.output().shape[3], traits, arguments);
  return candidates;
}

namespace {

/// As convolutions take them.
std::vector<Layout> layouts(std::span<const TensorType> inputs, const TensorType& output, const Attrs&,
                            const GpuTraits& traits) {
  return std::vector<Layout>(inputs.size() + 1, layout_of_images(output, traits));
}

[[maybe_unused]] const bool pool2d_registered = register_template(
    {.ops = {"max_pool2d", "avg_pool2d"}, .candidates = pool2d, .serves = serves_floats, .layouts = layouts});
[[maybe_unused]] const bool pool2d_grad_registered =
    register_template({.ops = {"max_pool2d_grad", "avg_pool2d_grad"},
                       .candidates = pool2d_grad,
                       .serves = serves_floats,
                       .layouts = layouts});

}  // namespace

}  // namespace athanor::gpu
