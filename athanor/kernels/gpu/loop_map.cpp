// Fused loops without reductions: one work-item for each element, for some neighbours, or for several rows.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/loop_kernels.h"
#include "athanor/kernels/gpu/loop_vectors.h"

namespace athanor::gpu {
namespace {

constexpr int64_t max_groups = 65535;  // along the second and third dimension, on CUDA and HIP

class MapKernel : LoopKernels {
 public:
  using LoopKernels::LoopKernels;

  GpuCandidate run() {
    Code code;
    GpuLaunch launch;
    const int rank = static_cast<int>(program_.space.size());
    const bool rows = rank > 1 && extent(rank - 1) >= 16;
    begin_kernel(code, "map");
    if (choose_vectors())
      map_vectors(code, launch);
    else if (rows && traits_.grain->loop_elements > 1)
      map_rows(code, launch);
    else if (rows)
      map_neighbours(code, launch);
    else
      map_flat(code, launch);
    code.close();
    launch.name = "map";
    launch.source = code.text();
    launch.arguments = arguments(false);
    result_.name = "loop";
    if (kept_size_ > 0) result_.launches.push_back(std::move(launch));
    return std::move(result_);
  }

 private:
  void map_flat(Code& code, GpuLaunch& launch) const {
    const int64_t wide = std::min(std::min<int64_t>(group_limit(), 1024), power_of_two(2 * kept_size_ - 1));
    launch.group_size = {wide, 1, 1};
    launch.groups = {ceil_div(kept_size_, wide), 1, 1};
    code.line(fmt::format("const {} flat = ({})GLOBAL_ID(0);", index_type(), index_type()));
    code.line(fmt::format("if (flat >= {}) return;", kept_size_));
    Names index(program_.space.size());
    unfold(code, "flat", kept_, index);
    compute(code, index);
  }

  // Work-items along the innermost dimension: the compiler sees that neighbours are neighbours, and no
  // element needs a division.
  void map_neighbours(Code& code, GpuLaunch& launch) const {
    const int64_t inner = program_.space.back(), outer = kept_size_ / inner;
    int64_t wide = std::min(group_limit(), power_of_two(2 * inner - 1));
    wide = ceil_div(inner, ceil_div(inner, wide));  // even shares
    wide = std::min<int64_t>(ceil_div(wide, 16) * 16, group_limit());
    const int64_t high = std::max<int64_t>(1, group_limit() / wide);
    const int64_t rows = ceil_div(outer, high), z = ceil_div(rows, max_groups);
    launch.group_size = {wide, high, 1};
    launch.groups = {ceil_div(inner, wide), ceil_div(rows, z), z};
    code.line(fmt::format("const {} x = ({})GLOBAL_ID(0);", index_type(), index_type()));
    code.line(fmt::format("const {} outer = ({})GLOBAL_ID(1) + ({})GLOBAL_ID(2) * {};", index_type(),
                          index_type(), index_type(), launch.groups[1] * high));
    code.line(fmt::format("if (x >= {} || outer >= {}) return;", inner, outer));
    Names index(program_.space.size());
    unfold(code, "outer", outer_kept(), index);
    index.back() = "x";
    compute(code, index);
  }

  // Chooses the longest vectors that leave enough items.
  bool choose_vectors() {
    if (kept_size_ == 0) return false;
    for (VectorRows& rows : vector_rows(program_, traits_)) {
      items_ = kept_size_ / program_.space.back() * rows.blocks;
      if (items_ < traits_.grain->loop_filling * traits_.compute_units) continue;
      vectors_ = std::move(rows);
      return true;
    }
    return false;
  }

  // An item computes a vector of neighbours along the innermost dimension.
  void map_vectors(Code& code, GpuLaunch& launch) const {
    launch.group_size = {group_limit(), 1, 1};
    launch.groups = {ceil_div(items_, group_limit()), 1, 1};
    code.line(fmt::format("const {} flat = ({})GLOBAL_ID(0);", index_type(), index_type()));
    code.line(fmt::format("if (flat >= {}) return;", items_));
    Names index(program_.space.size());
    std::string block = "flat";
    if (index.size() > 1) {
      code.line(fmt::format("const {} outer = flat / {};", index_type(), vectors_.blocks));
      unfold(code, "outer", outer_kept(), index);
      block = fmt::format("flat % {}", vectors_.blocks);
    }
    write_block(code, program_, vectors_, index_type(), index, block);
  }

  // An item takes some rows, or a piece of a long row. (On CPUs, using the items of a group for neighbours
  // takes twice as long: starting a group takes as long as some thousand elements.)
  void map_rows(Code& code, GpuLaunch& launch) const {
    const int64_t inner = program_.space.back(), outer = kept_size_ / inner;
    const int64_t least = traits_.grain->loop_elements;
    const int64_t piece = ceil_div(inner, ceil_div(inner, least));
    const int64_t rows = std::clamp<int64_t>(outer / (4L * traits_.compute_units), 1, ceil_div(least, inner));
    launch.groups = {ceil_div(inner, piece), ceil_div(outer, rows), 1};
    code.line(fmt::format("const {0} from = ({0})GLOBAL_ID(0) * {1}, first = ({0})GLOBAL_ID(1) * {2};",
                          index_type(), piece, rows));
    code.open(fmt::format("for ({} outer = first; outer < MIN(first + {}, {}); ++outer)", index_type(), rows,
                          outer));
    Names index(program_.space.size());
    unfold(code, "outer", outer_kept(), index);
    code.open(
        fmt::format("PARALLEL for ({} x = from; x < MIN(from + {}, {}); ++x)", index_type(), piece, inner));
    index.back() = "x";
    compute(code, index);
    code.close();
    code.close();
  }

  VectorRows vectors_;
  int64_t items_ = 0;  // each computes a vector
};

}  // namespace

GpuCandidate map_kernel(const LoopProgram& program, const GpuTraits& traits) {
  return MapKernel(program, traits).run();
}

}  // namespace athanor::gpu
