#include "athanor/backends/gpu/backend.h"

#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "athanor/backends/gpu/kernel.h"
#include "athanor/backends/gpu/program.h"
#include "athanor/backends/gpu/storage.h"
#include "athanor/base/memory_hint.h"
#include "athanor/base/os/child.h"
#include "athanor/base/os/limits.h"
#include "athanor/kernels/compile_apart.h"
#include "athanor/kernels/trust.h"

namespace athanor::gpu {
namespace {

// The bound that indices from a tensor must stay below, for ops that take such indices; else 0.
int64_t indexed_extent(const KernelRequest& request) {
  if (request.op->group_ends) return request.inputs[0].shape[0];
  if (!request.attrs.has("axis")) return 0;
  const Shape& shape =
      request.op->prim == Prim::scatter_add ? request.output().shape : request.inputs[0].shape;
  const int64_t axis = request.attrs.integer("axis");
  return shape.rank() == 0 ? 0 : shape[static_cast<int>(axis)];
}

// Drivers that get no memory may end the program that asks for their devices (PoCL does). If memory is
// limited, a copy of this process asks first.
bool ends_who_asks(const std::string& backend, ListDevices list) {
  if (!os::address_space_limit()) return false;
  constexpr double patience = 30;
  const os::ChildAnswer answer = os::Child([=] { return std::to_string(list(0).size()); }).wait(patience);
  if (answer.problem.empty()) return false;
  std::fprintf(stderr,
               "athanor: note: the devices of '%s' are left out: the program that asked for them %s. %s\n",
               backend.c_str(), answer.problem.c_str(), memory_hint("stop other programs").c_str());
  return true;
}

}  // namespace

const std::vector<std::unique_ptr<GpuDevice>>& GpuBackend::all() {
  std::call_once(listed_, [&] {
    devices_ = new std::vector<std::unique_ptr<GpuDevice>>;
    if (ends_who_asks(name_, list_)) return;
    for (auto& driver : list_(provider_id))
      devices_->push_back(std::make_unique<GpuDevice>(std::move(driver)));
  });
  return *devices_;
}

GpuDevice& GpuBackend::at(int index) { return *all().at(static_cast<size_t>(index)); }

std::vector<DeviceInfo> GpuBackend::devices() {
  std::vector<DeviceInfo> infos;
  for (const auto& device : all()) infos.push_back(device->facts().info);
  return infos;
}

std::shared_ptr<Storage> GpuBackend::allocate(int index, size_t bytes) {
  return std::make_shared<GpuStorage>(at(index), at(index).pool.take(bytes), bytes);
}

std::vector<Candidate> GpuBackend::candidates(int device, const KernelRequest& request) {
  std::vector<Candidate> candidates;
  for (GpuCandidate& candidate : gpu_candidates(request, at(device).traits()))
    candidates.push_back(
        make_candidate(at(device), std::move(candidate),
                       {request.op->name, indexed_extent(request), request.op->group_ends.has_value()}));
  // Our own first guess stays first, because deterministic runs take it; libraries are tried before the rest.
  auto theirs = at(device).libraries.candidates(request);
  candidates.insert(candidates.begin() + (candidates.empty() ? 0 : 1),
                    std::make_move_iterator(theirs.begin()), std::make_move_iterator(theirs.end()));
  return candidates;
}

std::vector<std::string> GpuBackend::libraries(int device) { return at(device).libraries.found(); }
std::vector<LeftOut> GpuBackend::left_out(int device, const KernelRequest& request) {
  return at(device).libraries.left_out(request);
}

bool GpuBackend::has_kernel(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                            const Attrs& attrs) {
  return gpu_has_kernel(op, inputs, output, attrs, at(output.device.index).facts().traits);
}

Candidate GpuBackend::loop_kernel(int device, const LoopProgram& program) {
  return make_candidate(at(device), gpu_loop_candidates(program, at(device).facts().traits).front(), {});
}

void GpuBackend::unload_unused_kernels(int device) {
  // PoCL's programs stay: they take the host's memory, not a GPU's, and load slowly.
  if (!at(device).facts().shares_host_memory) unload_unused_programs(at(device));
}

Queue& GpuBackend::queue(int device) { return at(device).kernels(); }
Queue& GpuBackend::copies_in(int device) { return at(device).copies_in(); }
Queue& GpuBackend::copies_out(int device) { return at(device).copies_out(); }
std::optional<uint64_t> GpuBackend::free_memory(int device) { return at(device).driver().free_bytes(); }

void GpuBackend::compile_together(int index, std::span<const Kernel* const> kernels) {
  GpuDevice& device = at(index);
  if (device.facts().compiles_side_by_side) return;
  // Measured with PoCL, which takes 0.3 s to begin a program. A GPU's driver may let threads compile kernels
  // of different programs at the same time.
  if (!device.facts().shares_host_memory && !examining()) return;
  std::vector<const GpuLaunch*> launches;
  for (const Kernel* kernel : kernels)
    if (const GpuCandidate* const generated = kernel->generated())
      for (const GpuLaunch& launch : generated->launches) launches.push_back(&launch);
  gpu::compile_together(device, launches);
}

GpuAccess GpuBackend::access(int index) {
  GpuDevice& device = at(index);
  const Facts& facts = device.facts();
  GpuAccess access{device.traits(), facts.largest_buffer, facts.waves, [&device](GpuCandidate candidate) {
                     return make_candidate(device, std::move(candidate), {});
                   }};
  if (facts.tells_resources)
    access.resources = [&device](const GpuCandidate& candidate) { return resources_of(device, candidate); };
  return access;
}

bool register_backend(const std::string& name, ListDevices list, bool native) {
  auto backend = std::make_unique<GpuBackend>(name, list, native);
  GpuBackend& gpu = *backend;
  gpu.provider_id = register_provider(std::move(backend));
  register_compiler(driver_compiler(name), [&gpu](const std::string& target, const std::string& source,
                                                  const std::string& kernel) {
    const auto index = static_cast<size_t>(std::atoi(target.c_str()));
    return index < gpu.devices().size()
               ? compile_for_another_process(gpu.at(static_cast<int>(index)), target, source, kernel)
               : "";
  });
  return true;
}

GpuDevice& gpu_device(Device device) {
  return dynamic_cast<GpuBackend&>(provider_of(device)).at(device.index);
}

}  // namespace athanor::gpu
