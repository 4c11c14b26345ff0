// What OpenCL reports about a device.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "athanor/backends/opencl/driver.h"
#include "athanor/backends/opencl/identity.h"
#include "athanor/backends/opencl/program.h"
#include "athanor/backends/opencl/units.h"
#include "athanor/base/text.h"

namespace athanor::opencl {
namespace {

// A number, or `otherwise` if the driver does not report it.
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

OpenClDriver::OpenClDriver(cl_platform_id platform, cl_device_id id, Device device)
    : platform_(platform), id_(id), recorder_(platform, id) {
  DeviceInfo& info = facts_.info;
  GpuTraits& traits = facts_.traits;
  info.device = device;
  info.name = device_text(id, CL_DEVICE_NAME);
  info.kind = kind_of(device_number<cl_device_type>(id, CL_DEVICE_TYPE, 0));
  info.memory_bytes = device_number<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE, 0);
  facts_.largest_buffer = device_number<cl_ulong>(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, info.memory_bytes);
  facts_.target = GpuTarget::opencl;
  facts_.shares_host_memory = info.kind == "cpu";
  facts_.unified_memory = device_number<cl_bool>(id, CL_DEVICE_HOST_UNIFIED_MEMORY, CL_FALSE) == CL_TRUE;
  facts_.spans_cost_nothing = true;      // every event has its times
  facts_.compiles_side_by_side = false;  // PoCL and others compile one kernel of a context at a time
  const auto has = [&](const char* name) { return has_extension(id, name); };
  facts_.waves = has("cl_khr_subgroups") || has("cl_intel_subgroups");
  traits.f64 =
      has("cl_khr_fp64") || device_number<cl_device_fp_config>(id, CL_DEVICE_DOUBLE_FP_CONFIG, 0) != 0;
  traits.f16 = has("cl_khr_fp16");
  traits.atomics_64 = has("cl_khr_int64_base_atomics");
  traits.grain = info.kind == "cpu" ? &coarse_grain : &fine_grain;
  traits.lanes_lead = false;
  if (info.kind == "gpu") facts_.units_to_try = units_to_try(id);
  traits.max_group_size =
      static_cast<int64_t>(std::max<size_t>(1, device_number<size_t>(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, 64)));
  std::array<size_t, 16> extents{};
  // Some devices allow fewer work-items along one dimension than in a group.
  if (api().GetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof extents, extents.data(), nullptr) ==
          CL_SUCCESS &&
      extents[0] > 0)
    traits.max_group_size = std::min(traits.max_group_size, static_cast<int64_t>(extents[0]));
  // A buffer takes two arguments, itself and an offset: see BUFFER in language/opencl.kernel.
  traits.max_buffers = static_cast<int64_t>(std::clamp<size_t>(
      device_number<size_t>(id, CL_DEVICE_MAX_PARAMETER_SIZE, 1024) / (sizeof(cl_mem) + sizeof(cl_ulong)), 8,
      256));
  traits.local_bytes = static_cast<int64_t>(device_number<cl_ulong>(id, CL_DEVICE_LOCAL_MEM_SIZE, 16384));
  const Identity identity = identity_of(id);
  const std::string driver = device_text(id, CL_DRIVER_VERSION),
                    version = platform_text(platform, CL_PLATFORM_VERSION);
  describe("OpenCL", compute_units_of(id),
           {{"platform", platform_text(platform, CL_PLATFORM_NAME)},
            {"driver", version + ", driver " + driver},
            {"vendor", device_text(id, CL_DEVICE_VENDOR)},
            {"architecture", identity.arch},
            {"PCI address", identity.pci},
            {"UUID", identity.uuid},
            {"largest buffer", format_bytes(facts_.largest_buffer)},
            {"f64", traits.f64 ? "yes" : "no"},
            {"f16 arithmetic", traits.f16 ? "yes" : "no: f16 is stored, and computed in f32"}});
  if (device_number<cl_bool>(id, CL_DEVICE_AVAILABLE, CL_TRUE) != CL_TRUE)
    facts_.unusable = "the driver says that it is not available";
  else if (device_number<cl_bool>(id, CL_DEVICE_COMPILER_AVAILABLE, CL_TRUE) != CL_TRUE)
    facts_.unusable = "its driver has no compiler";
  info.environment = {"driver"};
  facts_.fingerprint = fmt::format("{}|{}|{}|{}|{}", platform_text(platform, CL_PLATFORM_NAME), version,
                                   info.name, driver, compile_options);
}

std::vector<std::unique_ptr<gpu::Driver>> list_devices(uint8_t provider) {
  std::vector<std::unique_ptr<gpu::Driver>> all;
  for (const Listed& one : list())
    all.push_back(std::make_unique<OpenClDriver>(one.platform, one.device,
                                                 Device{provider, static_cast<uint8_t>(all.size())}));
  return all;
}

}  // namespace athanor::opencl
