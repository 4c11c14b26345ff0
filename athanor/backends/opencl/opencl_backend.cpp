#include "athanor/backends/opencl/opencl_backend.h"

#include <algorithm>

#include "athanor/backends/opencl/launch.h"
#include "athanor/backends/opencl/memory.h"
#include "athanor/kernels/gpu/gpu_access.h"

namespace athanor {
namespace {

bool has_sub_groups(cl_device_id id) {
  std::string extensions(size_t{1} << 16, '\0');
  size_t size = 0;
  const cl_int code =
      opencl::api().GetDeviceInfo(id, CL_DEVICE_EXTENSIONS, extensions.size(), extensions.data(), &size);
  return code == CL_SUCCESS && (extensions.find("cl_khr_subgroups") != std::string::npos ||
                                extensions.find("cl_intel_subgroups") != std::string::npos);
}

[[maybe_unused]] const bool registered = [] {
  auto backend = std::make_unique<OpenClBackend>();
  OpenClBackend& opencl = *backend;
  opencl.provider_id = register_provider(std::move(backend));
  register_gpu_access(opencl.provider_id, [id = opencl.provider_id](int index) {
    opencl::ClDevice& device = *opencl::devices(id).at(static_cast<size_t>(index));
    return GpuAccess{device.traits(), device.largest_buffer(), has_sub_groups(device.id()),
                     [&device](GpuCandidate candidate) {
                       return opencl::make_candidate(device, std::move(candidate), {});
                     }};
  });
  return true;
}();

// For ops whose indices come from a tensor: the bound that indices must stay below.
int64_t indexed_extent(const KernelRequest& request) {
  if (!request.attrs.has("axis")) return 0;
  const Shape& shape = request.op->prim == Prim::scatter_add ? request.output.shape : request.inputs[0].shape;
  const int64_t axis = request.attrs.integer("axis");
  return shape.rank() == 0 ? 0 : shape[static_cast<int>(axis)];
}

}  // namespace

opencl::ClDevice& OpenClBackend::at(int index) {
  return *opencl::devices(provider_id).at(static_cast<size_t>(index));
}

std::vector<DeviceInfo> OpenClBackend::devices() {
  std::vector<DeviceInfo> all;
  for (const auto& device : opencl::devices(provider_id)) all.push_back(device->info());
  return all;
}

std::shared_ptr<Storage> OpenClBackend::allocate(int index, size_t bytes) {
  return opencl::allocate_memory(at(index), bytes);
}

std::vector<Candidate> OpenClBackend::candidates(int device, const KernelRequest& request) {
  std::vector<Candidate> all;
  for (GpuCandidate& candidate : gpu_candidates(request, at(device).traits()))
    all.push_back(opencl::make_candidate(at(device), std::move(candidate),
                                         {request.op->name, indexed_extent(request)}));
  return all;
}

bool OpenClBackend::has_kernel(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                               const Attrs& attrs) {
  return gpu_has_kernel(op, inputs, output, attrs);
}

Candidate OpenClBackend::loop_kernel(int device, const LoopProgram& program) {
  return opencl::make_candidate(at(device), gpu_loop_candidates(program, at(device).traits()).front(), {});
}

void OpenClBackend::synchronize(int device) { at(device).wait(); }

double OpenClBackend::timed(int device, const std::function<void()>& launches) {
  opencl::ClDevice& d = at(device);
  d.wait();
  std::vector<cl_event> events;
  d.recorded = &events;
  try {
    launches();
  } catch (...) {
    d.recorded = nullptr;
    for (cl_event event : events) opencl::api().ReleaseEvent(event);
    throw;
  }
  d.recorded = nullptr;
  d.wait();
  cl_ulong first = 0, last = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    cl_ulong start = 0, end = 0;
    opencl::check(opencl::api().GetEventProfilingInfo(events[i], CL_PROFILING_COMMAND_START, sizeof start,
                                                      &start, nullptr),
                  "no time of a kernel");
    opencl::check(
        opencl::api().GetEventProfilingInfo(events[i], CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr),
        "no time of a kernel");
    first = i == 0 ? start : std::min(first, start);
    last = std::max(last, end);
    opencl::api().ReleaseEvent(events[i]);
  }
  return static_cast<double>(last - first) * 1e-9;
}

}  // namespace athanor
