#include "athanor/backends/opencl/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/device/overrides.h"
#include "athanor/kernels/launch_site.h"
#include "athanor/kernels/trace.h"

namespace athanor::opencl {
namespace {

// The distance between buffers, so that an address just past one does not belong to another.
constexpr uintptr_t guard = 4096;

// A number, or `otherwise` if the driver does not know it.
template <class T>
T device_number(cl_device_id id, cl_device_info what, T otherwise) {
  T value{};
  return api().GetDeviceInfo(id, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : otherwise;
}

std::string kind_of(cl_device_type type) {
  if ((type & CL_DEVICE_TYPE_GPU) != 0) return "gpu";
  if ((type & CL_DEVICE_TYPE_CPU) != 0) return "cpu";
  return (type & CL_DEVICE_TYPE_ACCELERATOR) != 0 ? "accelerator" : "other";
}

}  // namespace

ClDevice::ClDevice(cl_platform_id platform, cl_device_id id, Device device) : platform_(platform), id_(id) {
  info_.device = device;
  info_.name = device_text(id, CL_DEVICE_NAME);
  info_.kind = kind_of(device_number<cl_device_type>(id, CL_DEVICE_TYPE, 0));
  info_.memory_bytes = device_number<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE, 0);
  largest_buffer_ = device_number<cl_ulong>(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, info_.memory_bytes);
  const std::string extensions = " " + device_text(id, CL_DEVICE_EXTENSIONS) + " ";
  const auto has = [&](const char* name) {
    return extensions.find(fmt::format(" {} ", name)) != std::string::npos;
  };
  traits_.f64 =
      has("cl_khr_fp64") || device_number<cl_device_fp_config>(id, CL_DEVICE_DOUBLE_FP_CONFIG, 0) != 0;
  traits_.f16 = has("cl_khr_fp16");
  traits_.atomics_64 = has("cl_khr_int64_base_atomics");
  traits_.is_cpu = info_.kind == "cpu";
  traits_.max_group_size =
      static_cast<int64_t>(std::max<size_t>(1, device_number<size_t>(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, 64)));
  std::array<size_t, 16> extents{};
  // Some devices allow fewer work-items along one dimension than a group may have.
  if (api().GetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof extents, extents.data(), nullptr) ==
          CL_SUCCESS &&
      extents[0] > 0)
    traits_.max_group_size = std::min(traits_.max_group_size, static_cast<int64_t>(extents[0]));
  // A buffer takes two arguments, the buffer and an offset into it: see BUFFER in language/opencl.kernel.
  traits_.max_buffers = static_cast<int64_t>(std::clamp<size_t>(
      device_number<size_t>(id, CL_DEVICE_MAX_PARAMETER_SIZE, 1024) / (sizeof(cl_mem) + sizeof(cl_ulong)), 8,
      256));
  traits_.local_bytes = static_cast<int64_t>(device_number<cl_ulong>(id, CL_DEVICE_LOCAL_MEM_SIZE, 16384));
  // A driver may report zero or nonsense, but the heuristics need at least one.
  const cl_uint units = device_number<cl_uint>(id, CL_DEVICE_MAX_COMPUTE_UNITS, 1);
  traits_.compute_units = static_cast<int>(std::clamp<cl_uint>(units, 1, 4096));
  if (!traits_.is_cpu)  // a user's value changes only the choice of grids
    if (const auto said = Overrides(Machine()).find("compute_units", {info_.name, to_string(device)}))
      traits_.compute_units = static_cast<int>(std::clamp<int64_t>(*said, 1, 4096));
  const auto property = [&](const char* name, std::string value) {
    if (!value.empty()) info_.properties[name] = {std::move(value), "OpenCL"};
  };
  property("platform", platform_text(platform, CL_PLATFORM_NAME));
  property("driver",
           platform_text(platform, CL_PLATFORM_VERSION) + ", driver " + device_text(id, CL_DRIVER_VERSION));
  property("vendor", device_text(id, CL_DEVICE_VENDOR));
  property("compute units", std::to_string(units));
  property("memory", format_bytes(info_.memory_bytes));
  property("largest buffer", format_bytes(largest_buffer_));
  property("local memory", format_bytes(static_cast<uint64_t>(traits_.local_bytes)));
  property("work-items in a group", std::to_string(traits_.max_group_size));
  property("f64", traits_.f64 ? "yes" : "no");
  property("f16 arithmetic", traits_.f16 ? "yes" : "no: f16 is stored, and computed in f32");
  fingerprint_ = fmt::format("{}|{}|{}|{}", platform_text(platform, CL_PLATFORM_NAME),
                             platform_text(platform, CL_PLATFORM_VERSION), info_.name,
                             device_text(id, CL_DRIVER_VERSION));
}

void ClDevice::start() {
  const std::string doing = fmt::format("cannot use {} ({})", to_string(info_.device), info_.name);
  if (device_number<cl_bool>(id_, CL_DEVICE_AVAILABLE, CL_TRUE) == CL_FALSE)
    throw Error(ErrorCode::device, doing + ": the driver says that it is not available");
  if (device_number<cl_bool>(id_, CL_DEVICE_COMPILER_AVAILABLE, CL_TRUE) == CL_FALSE)
    throw Error(ErrorCode::device, doing + ": its driver has no compiler");
  cl_int code = CL_SUCCESS;
  const std::array<cl_context_properties, 3> properties = {
      CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(platform_), 0};
  context_ = api().CreateContext(properties.data(), 1, &id_, nullptr, nullptr, &code);
  check(code, doing);
  queue_ = api().CreateCommandQueue(context_, id_, CL_QUEUE_PROFILING_ENABLE, &code);
  check(code, doing);
  upload_queue_ = api().CreateCommandQueue(context_, id_, CL_QUEUE_PROFILING_ENABLE, &code);
  check(code, doing);
}

cl_context ClDevice::context() {
  std::call_once(started_, [&] { start(); });
  return context_;
}

cl_command_queue ClDevice::queue() {
  context();
  return queue_;
}

cl_command_queue ClDevice::upload_queue() {
  context();
  return upload_queue_;
}

void ClDevice::trace(cl_event event, const char* lane, std::string name) {
  if (Trace::active() == nullptr || event == nullptr) return;
  const std::scoped_lock lock(traces_mutex_);
  api().RetainEvent(event);
  traced_.push_back({event, fmt::format("{} {}", to_string(info_.device), lane), std::move(name)});
}

void ClDevice::finish_traces() {
  const std::scoped_lock lock(traces_mutex_);
  if (traced_.empty()) return;
  Trace* const trace = Trace::active();
  if (!clock_known_ && trace != nullptr) {
    // The device has its own clock: a marker that ends now tells how far it is from ours.
    cl_event marker = nullptr;
    cl_ulong end = 0;
    if (api().EnqueueMarkerWithWaitList(queue(), 0, nullptr, &marker) == CL_SUCCESS &&
        api().WaitForEvents(1, &marker) == CL_SUCCESS &&
        api().GetEventProfilingInfo(marker, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr) ==
            CL_SUCCESS) {
      clock_offset_ = trace_clock() - static_cast<double>(end) * 1e-9;
      clock_known_ = true;
    }
    if (marker != nullptr) api().ReleaseEvent(marker);
  }
  for (Traced& one : traced_) {
    cl_ulong start = 0, end = 0;
    if (trace != nullptr &&
        api().GetEventProfilingInfo(one.event, CL_PROFILING_COMMAND_START, sizeof start, &start, nullptr) ==
            CL_SUCCESS &&
        api().GetEventProfilingInfo(one.event, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr) ==
            CL_SUCCESS)
      trace->add({std::move(one.lane), std::move(one.name), static_cast<double>(start) * 1e-9 + clock_offset_,
                  static_cast<double>(end - start) * 1e-9});
    api().ReleaseEvent(one.event);
  }
  traced_.clear();
}

uintptr_t ClDevice::add_buffer(cl_mem buffer, size_t bytes) {
  const std::scoped_lock lock(addresses_mutex_);
  const uintptr_t address = next_address_;
  next_address_ += (bytes + 2 * guard - 1) / guard * guard;
  addresses_[address] = {buffer, bytes};
  return address;
}

void ClDevice::remove_buffer(uintptr_t address) {
  const std::scoped_lock lock(addresses_mutex_);
  addresses_.erase(address);
}

ClDevice::Place ClDevice::find(const void* address) {
  const std::scoped_lock lock(addresses_mutex_);
  const auto at = reinterpret_cast<uintptr_t>(address);
  auto after = addresses_.upper_bound(at);
  if (after != addresses_.begin()) {
    auto& [start, range] = *std::prev(after);
    if (at - start <= range.bytes) {
      range.launched = true;
      return {range.buffer, at - start};
    }
  }
  throw Error(ErrorCode::internal,
              fmt::format("a kernel was given an address that is not of {}", to_string(info_.device)));
}

bool ClDevice::was_launched_with(const void* address) {
  const std::scoped_lock lock(addresses_mutex_);
  return addresses_.at(reinterpret_cast<uintptr_t>(address)).launched;
}

cl_mem ClDevice::fault_buffer() {
  if (fault_buffer_ == nullptr) {
    cl_int code = CL_SUCCESS;
    std::array<cl_int, 4> zeros{};
    fault_buffer_ = api().CreateBuffer(context(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zeros,
                                       zeros.data(), &code);
    check(code, "cannot allocate the buffer for faults");
  }
  return fault_buffer_;
}

int ClDevice::fault_code(const FaultSite& site) {
  const std::scoped_lock lock(addresses_mutex_);
  fault_sites_.push_back(site);
  return static_cast<int>(fault_sites_.size());
}

void ClDevice::expect_faults(int code) {
  faults_possible_ = true;
  const LaunchSite* const now = LaunchSite::current();
  const std::scoped_lock lock(addresses_mutex_);
  FaultSite& site = fault_sites_.at(static_cast<size_t>(code - 1));
  site.step = now == nullptr ? std::string() : now->step() + ": ";
  site.where = now == nullptr ? std::string() : now->where();
}

void ClDevice::wait() {
  const std::scoped_lock lock(mutex);
  check(api().Finish(queue()), fmt::format("{} failed", to_string(info_.device)));
  finish_traces();
  if (!faults_possible_) return;
  faults_possible_ = false;
  std::array<cl_int, 4> fault{};
  check(api().EnqueueReadBuffer(queue(), fault_buffer(), CL_TRUE, 0, sizeof fault, fault.data(), 0, nullptr,
                                nullptr),
        "cannot read back what kernels reported");
  if (fault[0] == 0) return;
  const std::array<cl_int, 4> zeros{};
  check(api().EnqueueWriteBuffer(queue(), fault_buffer(), CL_TRUE, 0, sizeof zeros, zeros.data(), 0, nullptr,
                                 nullptr),
        "cannot clear what kernels reported");
  const FaultSite& site = fault_sites_.at(static_cast<size_t>(fault[0] - 1));
  const int64_t index = static_cast<int64_t>(static_cast<uint32_t>(fault[1])) | static_cast<int64_t>(fault[2])
                                                                                    << 32;
  throw Error(
      ErrorCode::value,
      fmt::format("{}{}: index {} is outside an axis of extent {}", site.step, site.op, index, site.extent),
      site.where, "Indices must be at least 0 and below the extent.");
}

const std::vector<std::unique_ptr<ClDevice>>& devices(uint8_t provider) {
  // Never destroyed: storage may outlive it, and some drivers fail if they are called while the program ends.
  static const auto* const all = new auto([&] {
    std::vector<std::unique_ptr<ClDevice>> list;
    cl_uint count = 0;
    // An installed loader without a driver says "platform not found": this means no devices, not an error.
    if (!api().missing.empty() || api().GetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0)
      return list;
    std::vector<cl_platform_id> platforms(count);
    if (api().GetPlatformIDs(count, platforms.data(), nullptr) != CL_SUCCESS) return list;
    for (cl_platform_id platform : platforms) {
      cl_uint found = 0;
      if (api().GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &found) != CL_SUCCESS || found == 0)
        continue;
      std::vector<cl_device_id> ids(found);
      if (api().GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, found, ids.data(), nullptr) != CL_SUCCESS)
        continue;
      for (cl_device_id id : ids)
        list.push_back(
            std::make_unique<ClDevice>(platform, id, Device{provider, static_cast<uint8_t>(list.size())}));
    }
    return list;
  }());
  return *all;
}

}  // namespace athanor::opencl
