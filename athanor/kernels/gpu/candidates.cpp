#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "athanor/base/error.h"
#include "athanor/base/startup_registry.h"
#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/loop_behind.h"
#include "athanor/kernels/gpu/operand_prologue.h"
#include "athanor/kernels/gpu/templates.h"
#include "athanor/kernels/prologue.h"

namespace athanor {
namespace {

// The templates by op.
using Templates = std::map<std::string, gpu::Template, std::less<>>;
StartupRegistry<Templates>& templates() {
  static StartupRegistry<Templates> all;
  return all;
}

const gpu::Template* template_of(const Op& op) {
  const Templates& all = templates().list();
  const auto found = all.find(op.name);
  return found == all.end() ? nullptr : &found->second;
}

// Whether the device has room for each of its groups.
bool fits(const GpuCandidate& candidate, const GpuTraits& traits) {
  return std::ranges::all_of(candidate.launches, [&](const GpuLaunch& launch) {
    const auto& [x, y, z] = launch.group_size;
    return x * y * z <= traits.max_group_size &&
           launch.local_bytes <= (launch.local_at_launch ? traits.most_local_bytes() : traits.local_bytes);
  });
}

std::vector<GpuCandidate> made_by(const gpu::Template& one, const KernelRequest& request,
                                  const GpuTraits& traits) {
  auto candidates = one.candidates(request, traits);
  std::erase_if(candidates, [&](const GpuCandidate& candidate) { return !fits(candidate, traits); });
  return candidates;
}

}  // namespace

bool gpu::register_template(const Template& one) {
  templates().add([&](Templates& all) {
    for (const std::string& op : one.ops)
      if (!all.emplace(op, one).second)
        throw Error(ErrorCode::internal, fmt::format("two templates are for the op '{}'", op));
  });
  return true;
}

std::vector<std::string> gpu::ops_with_templates() {
  std::vector<std::string> names;
  for (const auto& [name, found] : templates().list()) names.push_back(name);
  return names;
}

std::vector<GpuCandidate> gpu_candidates(const KernelRequest& request, const GpuTraits& traits) {
  const gpu::Template* found = template_of(*request.op);
  const bool answers = found != nullptr && (request.compute == ComputeType::by_dtypes || found->tf32);
  if (!answers) return {};
  const auto needs_f64 = [](const OperandDesc& operand) { return operand.dtype == DType::f64; };
  if (!traits.f64 && (needs_f64(request.output()) || std::ranges::any_of(request.inputs, needs_f64)))
    throw Error(ErrorCode::device, fmt::format("{}: this device has no f64 arithmetic", request.op->name), {},
                "Use f32, or another device");
  if (request.prologue) {
    // Computing elements when they are read may be slower, as each group computes them again. So it is timed,
    // but not the best guess. Each candidate takes time to compile: there are as many as for other requests.
    constexpr size_t most_plain = 5, most_computing = 3;
    auto candidates = gpu_candidates(without_prologue(request), traits);
    if (candidates.size() > most_plain) candidates.resize(most_plain);
    for (GpuCandidate& plain : candidates) plain = gpu::with_loop_before(std::move(plain), request, traits);
    auto computing = made_by(*found, request, traits);
    if (computing.size() > most_computing) computing.resize(most_computing);
    candidates.insert(candidates.begin() + (candidates.empty() ? 0 : 1),
                      std::make_move_iterator(computing.begin()), std::make_move_iterator(computing.end()));
    return candidates;
  }
  auto candidates = made_by(*found, request, traits);
  if (!has_further_results(request)) return candidates;
  // A kernel without the epilogue, followed by a loop, may still be faster than one that computes both. It is
  // the better guess if it multiplies less often.
  constexpr size_t most_others = 2;
  auto others = made_by(*found, without_epilogue(request), traits);
  if (others.size() > most_others) others.resize(most_others);
  const bool lead = !others.empty() && others.front().fewer_products;
  for (GpuCandidate& other : others) other = gpu::with_loop_behind(std::move(other), request, traits);
  candidates.insert(lead ? candidates.begin() : candidates.end(), std::make_move_iterator(others.begin()),
                    std::make_move_iterator(others.end()));
  return candidates;
}

bool gpu_takes_epilogue(const KernelRequest& request, const GpuTraits& traits) {
  const gpu::Template* found = template_of(*request.op);
  if (found == nullptr || !found->finishes) return false;
  if (!has_further_results(request)) return true;
  if (!found->further) {  // only tile kernels compute further results
    const auto plain = made_by(*found, without_epilogue(request), traits);
    if (plain.empty() || !plain.front().parameters.contains("tile_m")) return false;
  }
  return !made_by(*found, request, traits).empty();
}

bool gpu_takes_prologue(const KernelRequest& request, const GpuTraits& traits) {
  const gpu::Template* found = template_of(*request.op);
  return found != nullptr && found->prologues && !made_by(*found, request, traits).empty();
}

bool gpu_takes_strides(const Op& op) {
  const gpu::Template* found = template_of(op);
  return found != nullptr && found->strided;
}

bool gpu_computes_together(const KernelRequest& request, const GpuTraits& traits) {
  const gpu::Template* found = template_of(*request.op);
  return found != nullptr && found->together != nullptr && found->together(request, traits);
}

bool gpu_has_kernel(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                    const Attrs& attrs, const GpuTraits& traits) {
  const gpu::Template* found = template_of(op);
  return found != nullptr && (found->serves == nullptr || found->serves(inputs, output, attrs, traits));
}

std::vector<Layout> gpu_layouts(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                                const Attrs& attrs, const GpuTraits& traits) {
  const gpu::Template* found = template_of(op);
  if (found == nullptr || found->layouts == nullptr) return {};
  return found->layouts(inputs, output, attrs, traits);
}

}  // namespace athanor
