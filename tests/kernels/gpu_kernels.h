// Helpers for tests of GPU templates: they run every candidate of a request, in the shapes for CPUs and for
// GPUs, on every device under test, and compare it with the op's reference.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "athanor/backends/gpu/backend.h"
#include "athanor/backends/gpu/kernel.h"
#include "athanor/kernels/gpu/templates/gemm.h"
#include "tests/backends/cpu_kernels.h"
#include "tests/support/gpu_devices.h"
#include "tests/support/matches.h"
#include "tests/support/reduced.h"
#include "tests/support/tile_traits.h"

namespace athanor::testing {

/// A view with the given strides, and the values that it reads. Strides of 0 repeat elements.
inline TestOperand view(DType dtype, const Shape& shape, unsigned seed, const Ints& strides = {}) {
  TestOperand value = random_value(dtype, shape, seed, {}, strides);
  HostArray seen(dtype, shape);
  const size_t element = size_of(dtype);
  for (int64_t i = 0; i < shape.size(); ++i)
    std::memcpy(
        seen.bytes.data() + static_cast<size_t>(i) * element,
        static_cast<std::byte*>(value.address()) + offset_of(value.desc, i) * static_cast<int64_t>(element),
        element);
  value.values = to_doubles(seen);
  return value;
}

/// The first of three results that lie side by side: [..., own rows, 3, heads, features] in memory.
inline OperandDesc part_of_three(DType dtype, const Shape& shape) {
  const int64_t heads = shape.rank() > 2 ? shape[-3] : 1, row = 3 * heads * shape[-1];
  Ints strides = contiguous_strides(shape);
  for (int axis = 0; axis + 3 < shape.rank(); ++axis) strides[static_cast<size_t>(axis)] *= 3;
  if (shape.rank() > 2) strides[strides.size() - 3] = shape[-1];
  strides[strides.size() - 2] = row;
  return {dtype, shape, {}, strides};
}

/// The result of the op's reference, with the epilogue.
inline std::vector<double> reference_of(const KernelRequest& request,
                                        const std::vector<TestOperand>& inputs) {
  std::vector<RefArray> arrays;
  std::vector<void*> others;
  for (const TestOperand& input : inputs) {
    if (arrays.size() == request.own_inputs()) {
      others.push_back(const_cast<TestOperand&>(input).address());
      continue;
    }
    arrays.emplace_back(input.desc.shape);
    arrays.back().data = input.values;
  }
  std::vector<double> want = request.op->reference(arrays, request.attrs).data;
  const Shape& shape = request.output().shape;
  if (request.has_epilogue()) want = finished(request.epilogue, want, others);
  if (!is_float(request.output().dtype)) want = to_doubles(from_doubles(request.output().dtype, shape, want));
  return want;
}

/// The memory of an output. Only its padding may be written beside its elements.
inline size_t bytes_of(const OperandDesc& output) {
  return static_cast<size_t>(output.reach()) * size_of(output.dtype);
}

/// Checks that kernels are straight code for their problem: no branches of the preprocessor, and names for
/// constants only in some texts that are not contractions.
inline void expect_straight(const GpuCandidate& candidate) {
  for (const GpuLaunch& launch : candidate.launches) {
    const std::string& source = launch.source;
    EXPECT_EQ(source.find("#if"), std::string::npos) << launch.name << " has branches that are not used";
    const auto is_of = [&](const auto&... begins) { return (launch.name.starts_with(begins) || ...); };
    const bool may_define = is_of("csr_", "ctc_", "grid_sample", "recurrent", "roi_align");
    for (const Match& define : matches(source, R"(#\s*define\s+(\w+))")) {
      const std::string& name = define[1];
      // How OpenCL's units multiply, for which C has no function.
      if (name == "MULTIPLY_ADD" || name == "WAVE_ATTRIBUTE") continue;
      EXPECT_TRUE(may_define) << launch.name << " defines " << name;
    }
  }
}

/// The candidates of a request, each straight.
inline std::vector<GpuCandidate> candidates_for(const KernelRequest& request, const GpuTraits& traits) {
  std::vector<GpuCandidate> all = gpu_candidates(request, traits);
  std::ranges::for_each(all, expect_straight);
  return all;
}

/// The same request for a result with channels last in memory.
inline KernelRequest with_channels_last(KernelRequest request) {
  const Shape& shape = request.output().shape;
  const Ints rows = contiguous_strides(shape);
  request.outputs[0].strides = channels_last_strides(shape);
  for (LoopOperand& operand : request.epilogue.operands)
    if (operand.buffer == 0 || operand.buffer + 1 == request.epilogue.buffers) {
      EXPECT_EQ(operand.strides, rows);
      operand.strides = request.outputs[0].strides;
    }
  return request;
}

/// The outputs of a candidate after two runs, on poisoned output and scratch memory: the first launch must
/// not leave anything that changes the second.
inline std::vector<std::vector<double>> outputs_on(gpu::GpuDevice& device, const GpuCandidate& generated,
                                                   const std::vector<TestOperand>& inputs,
                                                   const std::vector<OperandDesc>& outputs) {
  constexpr size_t margin = 64;
  const Candidate candidate = gpu::make_candidate(device, generated, {});
  std::vector<std::shared_ptr<Storage>> storage;
  std::vector<Binding> buffers;
  const auto add = [&](const void* data, size_t size, size_t offset) {
    storage.push_back(allocate(device.id(), std::max<size_t>(1, size)));
    storage.back()->write(data, 0, size);
    buffers.push_back({storage.back().get(), static_cast<int64_t>(offset)});
  };
  // NaNs follow inputs and scratch memory, so that a kernel that reads beyond them is noticed.
  constexpr size_t behind = 4096;
  for (const TestOperand& input : inputs) {
    std::vector<std::byte> memory(input.memory.size() + behind, std::byte{0xff});
    std::ranges::copy(input.memory, memory.begin());
    add(memory.data(), memory.size(), input.offset);
  }
  for (const OperandDesc& output : outputs) {
    const std::vector<std::byte> poison(bytes_of(output) + margin, std::byte{0x7f});
    add(poison.data(), poison.size(), 0);
  }
  std::vector<std::byte> scratch(candidate.scratch_bytes + behind, std::byte{0xff});
  std::fill_n(scratch.begin(), candidate.scratch_bytes, std::byte{0x7f});
  add(scratch.data(), scratch.size(), 0);
  for (int launch = 0; launch < 2; ++launch) candidate.kernel->enqueue(device.kernels(), buffers);
  device.kernels().finish();
  std::vector<std::vector<double>> results;
  for (size_t o = 0; o < outputs.size(); ++o) {
    const OperandDesc& output = outputs[o];
    std::vector<std::byte> memory(bytes_of(output) + margin);
    storage[inputs.size() + o]->read(memory.data(), 0, memory.size());
    EXPECT_TRUE(std::all_of(memory.end() - margin, memory.end(), [](auto b) { return b == std::byte{0x7f}; }))
        << generated.name << " wrote beyond output " << o;
    HostArray host(output.dtype, output.shape);
    const size_t size = size_of(output.dtype);
    for (int64_t i = 0; i < output.shape.size(); ++i) {
      const auto place = memory.begin() + static_cast<std::ptrdiff_t>(offset_of(output, i) * size);
      std::copy_n(place, size, host.bytes.begin() + static_cast<std::ptrdiff_t>(i * size));
      std::fill_n(place, size, std::byte{0x7f});
    }
    EXPECT_TRUE(output.padding > 0 ||
                std::all_of(memory.begin(), memory.end(), [](auto b) { return b == std::byte{0x7f}; }))
        << generated.name << " wrote between the elements of output " << o;
    results.push_back(to_doubles(host));
  }
  return results;
}

inline std::vector<double> run_on(gpu::GpuDevice& device, const GpuCandidate& generated,
                                  const std::vector<TestOperand>& inputs, const OperandDesc& output) {
  return outputs_on(device, generated, inputs, {output}).front();
}

/// Whether candidate `i` of `count` runs: one in `every`, at least one, starting with a different one in each
/// call, because each must be compiled. With ATHANOR_TEST_EVERYTHING, all of them run.
inline bool is_due(size_t i, size_t count, size_t every) {
  static size_t calls = 0;
  if (i == 0) ++calls;
  return i % every == calls % std::min(every, count) || std::getenv("ATHANOR_TEST_EVERYTHING") != nullptr;
}

/// One of the candidates: in each call the next one.
inline std::vector<GpuCandidate> next_of(std::vector<GpuCandidate> candidates) {
  static size_t calls = 0;
  if (candidates.empty()) return candidates;
  return {candidates[calls++ % candidates.size()]};
}

/// All candidates, or only one if tests are reduced.
inline std::vector<GpuCandidate> reduced(std::vector<GpuCandidate> candidates) {
  return is_reduced() ? next_of(std::move(candidates)) : candidates;
}

/// Checks one of the op's candidates on every device, in each call the next one, of those for the device and
/// for a small device of the other kind. `only`: checks every second candidate whose name starts with this,
/// at least one. If tests are reduced: the first of each kind, only in shapes for devices of this kind,
/// because compilers for GPUs take minutes for kernels that suit a CPU.
inline void check_candidates(const std::string& op, const Attrs& attrs, std::vector<TestOperand> inputs,
                             const Shape& shape, double tolerance, const Epilogue& epilogue = {},
                             std::string_view only = {}, const Ints& output_strides = {}) {
  const auto value =  // indices may come first
      std::ranges::find_if(inputs, [](const TestOperand& input) { return is_float(input.desc.dtype); });
  const DType dtype = (value == inputs.end() ? inputs[0] : *value).desc.dtype;
  KernelRequest request = request_of(find_op(op), attrs, inputs, dtype, shape, {}, epilogue);
  if (!output_strides.empty()) request.outputs[0].strides = output_strides;
  const std::vector<double> want = reference_of(request, inputs);
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    GpuTraits gpu = device.facts().traits;
    if (!is_reduced()) gpu.grain = other_grain(gpu.grain);
    gpu.max_group_size = std::min<int64_t>(256, gpu.max_group_size);
    gpu.compute_units = 4;
    std::vector<GpuCandidate> all;
    for (const GpuTraits& traits : {device.facts().traits, gpu}) {
      auto candidates = candidates_for(request, traits);
      EXPECT_FALSE(candidates.empty()) << request.key();
      EXPECT_LE(candidates.size(), 8U) << "each is compiled and timed: " << request.key();
      for (GpuCandidate& one : candidates)
        if (one.name.starts_with(only)) all.push_back(std::move(one));
    }
    std::vector<Run> runs;
    for (size_t i = 0; i < all.size(); ++i)
      if (is_reduced() ? is_first_of_kind(op, dtype, all[i].name)
                       : is_due(i, all.size(), only.empty() ? all.size() : 2))
        runs.push_back({all[i].name, run_on(device, all[i], inputs, request.output())});
    EXPECT_TRUE(!runs.empty() || is_reduced()) << request.key();
    expect_all_near(runs, want, tolerance, request.key());
    if (::testing::Test::HasFatalFailure()) return;
  }
}

/// The dtypes whose products may have overlapping tiles; only one if tests are reduced.
inline std::vector<DType> types_with_tiles() {
  return is_reduced() ? std::vector{DType::f32} : std::vector{DType::f32, DType::f16, DType::bf16};
}

/// `value` without the first elements along each axis.
inline TestOperand part_of(TestOperand value, const Ints& first) {
  for (int axis = 0; axis < value.desc.shape.rank(); ++axis) {
    const auto at = static_cast<size_t>(axis);
    value.offset += static_cast<size_t>(first[at] * value.desc.strides[at]) * size_of(value.desc.dtype);
    value.desc.shape = value.desc.shape.with(axis, value.desc.shape[axis] - first[at]);
  }
  return value;
}

/// The last tile of a kernel may be moved inside the result, so that two groups store elements of two tiles.
/// Both must store the same bits. So this compares a result with that of a smaller problem, in which each
/// element has another place in its tile: `part` gives the result without its `first` elements on each axis.
/// Compares every fourth candidate for which `may_overlap` is true and that both problems have. Returns the
/// number of compared elements.
template <class RequestFor, class MayOverlap>
inline int64_t compare_with_part(const RequestFor& request_for, const std::vector<TestOperand>& whole,
                                 const std::vector<TestOperand>& part, const Ints& first,
                                 const MayOverlap& may_overlap) {
  int64_t compared = 0;
  const KernelRequest request = request_for(whole), smaller = request_for(part);
  const Shape &shape = request.output().shape, &small = smaller.output().shape;
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    for (const Grain* grain : {&fine_grain, &coarse_grain}) {
      GpuTraits traits = device.facts().traits;
      traits.grain = grain;
      const auto others = candidates_for(smaller, traits);
      std::vector<std::pair<GpuCandidate, GpuCandidate>> pairs;
      for (const GpuCandidate& candidate : candidates_for(request, traits)) {
        const auto same = std::ranges::find_if(others, [&](const GpuCandidate& other) {
          return other.name == candidate.name && other.parameters == candidate.parameters;
        });
        if (!may_overlap(candidate) || same == others.end()) continue;
        // With fine grain, only these overlap: other tiles are staged, and an item has one Winograd tile.
        if (grain == &fine_grain && !candidate.name.starts_with("dot")) continue;
        pairs.emplace_back(candidate, *same);
      }
      for (size_t p = 0; p < pairs.size(); ++p) {
        if (!is_due(p, pairs.size(), 4)) continue;
        const GpuCandidate& candidate = pairs[p].first;
        const std::vector<double> want = run_on(device, candidate, whole, request.output()),
                                  got = run_on(device, pairs[p].second, part, smaller.output());
        for (int64_t i = 0; i < small.size(); ++i, ++compared) {
          int64_t at = 0, below = 1, rest = i;
          for (int axis = small.rank(); axis-- > 0; rest /= small[axis], below *= shape[axis])
            if (small[axis] > 0) at += (rest % small[axis] + first[static_cast<size_t>(axis)]) * below;
          const double one = got[static_cast<size_t>(i)], other = want[static_cast<size_t>(at)];
          if (one == other) continue;
          ADD_FAILURE() << candidate.name << " of " << request.key() << " and " << smaller.key()
                        << ", element " << i << ": " << one << " and " << other;
          return compared;
        }
      }
    }
  }
  return compared;
}

/// Whether a product reads a matrix directly from memory, or makes dot products. Others store nothing twice.
inline bool may_overlap(const GpuCandidate& candidate) {
  if (candidate.name.starts_with("dot")) return true;
  const auto direct = [&](const char* source) {
    const auto found = candidate.parameters.find(source);
    return found != candidate.parameters.end() &&
           found->second == static_cast<int64_t>(gpu::GemmSource::direct);
  };
  return direct("a") || direct("b");
}

}  // namespace athanor::testing
