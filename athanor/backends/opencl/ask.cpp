// What the OpenCL library says about each device. It only queries and creates nothing. See device/runtimes.h.
#include "athanor/backends/opencl/api.h"  // first: it sets the version of OpenCL

#include <fmt/format.h>

#include <CL/cl_ext.h>
#include <nlohmann/json.hpp>

#include "athanor/backends/opencl/identity.h"
#include "athanor/base/os/limits.h"
#include "athanor/base/text.h"
#include "athanor/device/runtimes.h"

namespace athanor::opencl {
namespace {

using nlohmann::json;

template <class T>
bool get(cl_device_id id, cl_device_info what, T& value) {
  return api().GetDeviceInfo(id, what, sizeof value, &value, nullptr) == CL_SUCCESS;
}

template <class T>
void add_number(json& table, const char* name, cl_device_id id, cl_device_info what, uint64_t scale = 1) {
  T value{};
  if (get(id, what, value) && value > 0) table[name] = static_cast<uint64_t>(value) * scale;
}

json describe(cl_platform_id platform, cl_device_id id) {
  json table;
  const auto has = [&](const char* name) { return has_extension(id, name); };
  cl_device_type type = 0;
  get(id, CL_DEVICE_TYPE, type);
  table["kind"] = (type & CL_DEVICE_TYPE_GPU) != 0   ? "gpu"
                  : (type & CL_DEVICE_TYPE_CPU) != 0 ? "cpu"
                                                     : "accelerator";
  const std::string name = device_text(id, CL_DEVICE_NAME);
  table["name"] = name;
  table["vendor"] = device_text(id, CL_DEVICE_VENDOR);
  table["platform"] = platform_text(platform, CL_PLATFORM_NAME);
  table["driver"] = device_text(id, CL_DRIVER_VERSION);
  table["version"] = device_text(id, CL_DEVICE_VERSION);
  const Identity identity = identity_of(id);
  if (!identity.pci.empty()) table["pci"] = identity.pci;
  if (!identity.uuid.empty()) table["uuid"] = identity.uuid;
  if (!identity.arch.empty()) table["arch"] = identity.arch;
  add_number<cl_uint>(table, "compute_units", id, CL_DEVICE_MAX_COMPUTE_UNITS);
  add_number<cl_uint>(table, "clock_mhz", id, CL_DEVICE_MAX_CLOCK_FREQUENCY);
  add_number<cl_ulong>(table, "memory_bytes", id, CL_DEVICE_GLOBAL_MEM_SIZE);
  add_number<cl_ulong>(table, "local_memory_bytes", id, CL_DEVICE_LOCAL_MEM_SIZE);
  table["f16"] = has("cl_khr_fp16");
  table["f64"] = has("cl_khr_fp64");
  if (has("cl_amd_device_attribute_query")) {
    add_number<cl_uint>(table, "wave_width", id, CL_DEVICE_WAVEFRONT_WIDTH_AMD);
    if (const std::string board = device_text(id, CL_DEVICE_BOARD_NAME_AMD); !board.empty())
      table["name"] = board;
  }
  if (has("cl_nv_device_attribute_query"))
    add_number<cl_uint>(table, "wave_width", id, CL_DEVICE_WARP_SIZE_NV);
  return table;
}

json ask() {
  if (!api().missing.empty()) return {{"error", api().missing}};
  cl_uint count = 0;
  const cl_int code = api().GetPlatformIDs(0, nullptr, &count);
  if (code != CL_SUCCESS || count == 0) {
    std::string error =
        "the OpenCL library has no driver to load (" + error_name(code) + "): see /etc/OpenCL/vendors";
    if (const auto most = os::address_space_limit())
      error += fmt::format(", or raise the limit of {} that a program may take ('ulimit -v')",
                           format_bytes(*most));
    return {{"error", error}};
  }
  std::vector<std::string> names;
  for (cl_platform_id platform : list_platforms()) {
    const std::string version = platform_text(platform, CL_PLATFORM_VERSION);
    // PoCL lists how it was built after two spaces.
    names.push_back(fmt::format("{}, {}", platform_text(platform, CL_PLATFORM_NAME),
                                version.substr(0, version.find("  "))));
  }
  if (names.empty()) return {{"error", "it lists no platform"}};
  json devices = json::array();
  for (const Listed& one : list()) devices.push_back(describe(one.platform, one.device));
  return {{"version", join(names, "; ")}, {"devices", devices}};
}

[[maybe_unused]] const bool registered = register_runtime({"opencl", "opencl", ask});

}  // namespace
}  // namespace athanor::opencl
