#include "tests/support/candidates/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "athanor/base/file.h"
#include "athanor/kernels/gpu/gpu_access.h"
#include "athanor/kernels/gpu/opencl_units.h"

namespace athanor {
namespace {

/// The units of an OpenCL device with sub-groups of 8 or 16 lanes, or of an architecture.
std::span<const MatrixUnit> units_of_opencl(std::string_view of) {
  static std::vector<MatrixUnit> units;
  units = opencl_units({.least_wave = of == "8"    ? 8
                                      : of == "16" ? 16
                                                   : 0,
                        .amd = of.starts_with("gfx"),
                        .nvidia = of.starts_with("sm_")});
  const auto target = of.starts_with("gfx") ? GpuTarget::hip : GpuTarget::cuda;
  const auto native = matrix_units(target, of);
  std::erase_if(units, [&](const MatrixUnit& unit) {
    return unit.form != MatrixUnit::Form::dpas &&
           std::ranges::count(native, unit.instruction, &MatrixUnit::instruction) == 0;
  });
  return units;
}

}  // namespace

Writer::Writer(std::filesystem::path folder, GpuTarget target, std::string_view architecture, bool first_only)
    : folder_(std::move(folder)),
      target_(target),
      first_only_(first_only),
      traits_(gpu_access(parse_device("offline")).value().traits),
      own_(traits_) {
  if (architecture.empty()) return;
  add_architecture(traits_, target, architecture);
  own_ = traits_;
  if (target == GpuTarget::opencl) {
    own_.local_bytes = traits_.local_bytes = (architecture.starts_with("sm_") ? 48 : 64) * 1024;
    own_.matrix_units = traits_.matrix_units = units_of_opencl(architecture);
    return;
  }
  set_driver_facts(own_, target, architecture);
  traits_.compute_units = own_.compute_units;
}

bool Writer::takes_f32(bool tf32) const {
  return std::ranges::any_of(units(), [&](const MatrixUnit& unit) {
    return unit.input == DType::f32 && unit.tf32 == tf32 && !unit.reads_local();
  });
}

void Writer::add(const char* op, const Attrs& attrs, DType dtype, const std::vector<Shape>& inputs,
                 const Shape& output, const std::vector<std::string>& with, const std::string& title,
                 ComputeType compute) {
  const auto desc = [&](const Shape& shape) {
    // Attention has one f32 number for each query.
    const bool number = shape.rank() == 3 && std::string_view(op).starts_with("attention");
    return whole({number ? DType::f32 : dtype, shape, {}});
  };
  KernelRequest request{&find_op(op), attrs, {}, {desc(output)}, {}};
  if (request.op->name == "wide_batch_matmul")
    request.outputs[0].dtype = dtype == DType::i8 ? DType::i32 : DType::f32;
  request.compute = compute;
  for (const Shape& input : inputs) request.inputs.push_back(desc(input));
  use_layouts(request, own_);
  for (const std::string& other : with) {
    request.with.push_back(&find_op(other));
    request.outputs.push_back(desc(output));
  }
  if (!with.empty() && !gpu_computes_together(request, own_)) return;
  const bool all_memory = request.op->name.ends_with("batch_matmul") ||
                          request.op->name.find("attention") != std::string::npos || !title.empty();
  add(request, all_memory ? own_ : traits_, compute == ComputeType::tf32 ? "tf32" : to_string(dtype), title);
}

void Writer::add(const KernelRequest& request, std::string_view type, const std::string& title) {
  add(request, own_, type, title);
}

void Writer::add(const KernelRequest& request, const GpuTraits& traits, std::string_view type,
                 const std::string& title) {
  auto candidates = gpu_candidates(request, traits);
  if (!problem_.is_null()) {
    int64_t elements = request.output().shape.size();
    for (const OperandDesc& input : request.inputs) elements += input.shape.size();
    problem_["bytes"] = elements * static_cast<int64_t>(size_of(request.output().dtype));
  }
  if (first_only_) {
    // Of another kind than the first: with or without boxes, or all of attention's gradients in one kernel.
    const auto kind = [](const GpuCandidate& one) {
      return one.parameters.contains("boxes") || one.parameters.contains("parts");
    };
    const auto other = std::ranges::find(candidates, !kind(candidates.front()), kind);
    const bool several = other != candidates.end();
    if (several) candidates[1] = *other;
    candidates.resize(several ? 2 : 1);
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!problem_.is_null()) problem_["candidate"] = i;
    write(candidates[i], std::string(request.op->name), type, title);
  }
}

void Writer::add_computed(const KernelRequest& request) {
  const auto computes = [](const GpuCandidate& one) { return !one.name.starts_with("a loop"); };
  for (const GpuCandidate& candidate : gpu_candidates(request, own_) | std::views::filter(computes)) {
    write(candidate, request.op->name, to_string(request.output().dtype), "normalised: ");
    if (first_only_) break;
  }
}

void Writer::write(const GpuCandidate& candidate, const std::string& op, std::string_view type,
                   const std::string& title) {
  for (const GpuLaunch& launch : candidate.launches) {
    std::string source = render(launch, target_);
    if (!seen_.insert(source).second && problem_.is_null()) continue;
    const std::string name =
        fmt::format("{:03}_{}_{}.{}", list_.size() + 1, op, launch.name, name_of(target_).suffix);
    write_file_atomically((folder_ / name).string(), source);
    nlohmann::json entry = {{"file", name},
                            {"op", op},
                            {"kernel", title + candidate.name},
                            {"dtype", type},
                            {"compile_options", launch.compile_options},
                            {"group_size", launch.group_size},
                            {"local_bytes", launch.local_bytes}};
    if (!problem_.is_null()) {
      entry.update(problem_);
      entry["launch"] = launch.name;
      entry["groups"] = launch.groups[0] * launch.groups[1] * launch.groups[2];
      entry["scratch_bytes"] = candidate.scratch_bytes;
      entry["parameters"] = candidate.parameters;
    }
    list_.push_back(std::move(entry));
  }
}

void Writer::finish() { write_file_atomically((folder_ / "launches.json").string(), list_.dump(2) + "\n"); }

OperandDesc whole(const TensorType& type) {
  return {type.dtype, type.shape, {}, contiguous_strides(type.shape)};
}

void use_layouts(KernelRequest& request, const GpuTraits& traits) {
  std::vector<TensorType> types;
  for (const OperandDesc& input : request.inputs) types.push_back({input.dtype, input.shape, {}});
  const OperandDesc& output = request.output();
  const auto layouts =
      gpu_layouts(*request.op, types, {output.dtype, output.shape, {}}, request.attrs, traits);
  if (layouts.empty()) return;
  const auto use = [](OperandDesc& operand, Layout layout) {
    if (layout.is_channels_last()) operand.strides = channels_last_strides(operand.shape);
  };
  for (size_t i = 0; i < request.inputs.size(); ++i) use(request.inputs[i], layouts[i]);
  use(request.outputs[0], layouts.back());
}

void add_norm(KernelRequest& request, int64_t rows, int64_t columns, DType dtype) {
  for (const TensorType& type : std::vector<TensorType>{{DType::f32, {rows}, {}},
                                                        {DType::f32, {rows}, {}},
                                                        {dtype, {columns}, {}},
                                                        {dtype, {columns}, {}}})
    request.inputs.push_back(whole(type));
}

}  // namespace athanor
