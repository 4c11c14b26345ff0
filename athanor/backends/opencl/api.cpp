#include "athanor/backends/opencl/api.h"

#include <fmt/format.h>

#ifdef __linux__
#include <sched.h>
#include <sys/sysinfo.h>
#endif

#include <cstdlib>

#include "athanor/base/os/library.h"
#include "athanor/base/text.h"

namespace athanor::opencl {
namespace {

std::vector<std::string> library_names() {
  // For tests with a library that fails on purpose, and for systems with the library in another place.
  if (const char* name = std::getenv("ATHANOR_OPENCL_LIBRARY"); name != nullptr && *name != 0) return {name};
#ifdef _WIN32
  return {"OpenCL.dll"};
#elif defined(__APPLE__)
  return {"/System/Library/Frameworks/OpenCL.framework/OpenCL"};
#else
  return {"libOpenCL.so.1", "libOpenCL.so"};
#endif
}

// PoCL's own settings, unless the user has set them.
void set_up_pocl() {
#ifdef __linux__
  // Its threads sleep between kernels, and several may wake on one core: short kernels were measured to take
  // twice their time. Bound threads are used only if this process may run on all cores.
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) == get_nprocs_conf())
    setenv("POCL_AFFINITY", "1", 0);
  // PoCL generates code for the binary that is kept, and again, for the launch's sizes, when the kernel first
  // runs. The first code is as fast.
  setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 0);
#endif
}

Api load() {
  set_up_pocl();
  static const os::Library library(library_names());
  Api result;
  if (!library) {
    result.missing = "no OpenCL library: " + library.error();
    return result;
  }
#define ATHANOR_FIND(function)                                                                 \
  result.function = reinterpret_cast<decltype(result.function)>(library.find("cl" #function)); \
  if (result.function == nullptr)                                                              \
    result.missing = library.name() + " has no cl" #function " (OpenCL 1.2 or later is needed)";
  ATHANOR_OPENCL_FUNCTIONS(ATHANOR_FIND)
#undef ATHANOR_FIND
  return result;
}

// A driver that reports a longer text is wrong.
constexpr size_t longest_text = size_t{1} << 20;

// `get` is asked first for the size, then for the text.
template <class Get>
std::string text_of(Get get) {
  size_t size = 0;
  if (get(0, nullptr, &size) != CL_SUCCESS || size > longest_text) return {};
  std::string text(size, '\0');
  if (get(size, text.data(), nullptr) != CL_SUCCESS) return {};
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return trim(text);
}

}  // namespace

const Api& api() {
  static const Api instance = load();
  return instance;
}

std::string platform_text(cl_platform_id platform, cl_platform_info what) {
  return text_of([&](size_t size, char* text, size_t* needed) {
    return api().GetPlatformInfo(platform, what, size, text, needed);
  });
}

std::string device_text(cl_device_id id, cl_device_info what) {
  return text_of([&](size_t size, char* text, size_t* needed) {
    return api().GetDeviceInfo(id, what, size, text, needed);
  });
}

bool has_extension(cl_device_id id, const std::string& name) {
  return (" " + device_text(id, CL_DEVICE_EXTENSIONS) + " ").find(" " + name + " ") != std::string::npos;
}

std::string error_name(cl_int code) {
  switch (code) {
#define ATHANOR_NAME(name) \
  case name:               \
    return #name;
    ATHANOR_NAME(CL_DEVICE_NOT_FOUND)
    ATHANOR_NAME(CL_DEVICE_NOT_AVAILABLE)
    ATHANOR_NAME(CL_COMPILER_NOT_AVAILABLE)
    ATHANOR_NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE)
    ATHANOR_NAME(CL_OUT_OF_RESOURCES)
    ATHANOR_NAME(CL_OUT_OF_HOST_MEMORY)
    ATHANOR_NAME(CL_PROFILING_INFO_NOT_AVAILABLE)
    ATHANOR_NAME(CL_BUILD_PROGRAM_FAILURE)
    ATHANOR_NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
    ATHANOR_NAME(CL_INVALID_VALUE)
    ATHANOR_NAME(CL_INVALID_DEVICE)
    ATHANOR_NAME(CL_INVALID_CONTEXT)
    ATHANOR_NAME(CL_INVALID_COMMAND_QUEUE)
    ATHANOR_NAME(CL_INVALID_MEM_OBJECT)
    ATHANOR_NAME(CL_INVALID_BINARY)
    ATHANOR_NAME(CL_INVALID_BUILD_OPTIONS)
    ATHANOR_NAME(CL_INVALID_PROGRAM)
    ATHANOR_NAME(CL_INVALID_KERNEL_NAME)
    ATHANOR_NAME(CL_INVALID_KERNEL)
    ATHANOR_NAME(CL_INVALID_KERNEL_ARGS)
    ATHANOR_NAME(CL_INVALID_WORK_GROUP_SIZE)
    ATHANOR_NAME(CL_INVALID_WORK_ITEM_SIZE)
    ATHANOR_NAME(CL_INVALID_BUFFER_SIZE)
    ATHANOR_NAME(CL_INVALID_OPERATION)
    ATHANOR_NAME(CL_INVALID_GLOBAL_WORK_SIZE)
#undef ATHANOR_NAME
    default:
      return fmt::format("OpenCL error {}", code);
  }
}

// An installed loader without any driver says "platform not found": no devices, not an error.
std::vector<cl_platform_id> list_platforms() {
  cl_uint count = 0;
  if (!api().missing.empty() || api().GetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0)
    return {};
  std::vector<cl_platform_id> platforms(count);
  if (api().GetPlatformIDs(count, platforms.data(), nullptr) != CL_SUCCESS) return {};
  return platforms;
}

std::vector<Listed> list() {
  std::vector<Listed> all;
  for (cl_platform_id platform : list_platforms()) {
    cl_uint found = 0;
    if (api().GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &found) != CL_SUCCESS || found == 0)
      continue;
    std::vector<cl_device_id> ids(found);
    if (api().GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, found, ids.data(), nullptr) != CL_SUCCESS) continue;
    for (cl_device_id id : ids) all.push_back({platform, id});
  }
  return all;
}

}  // namespace athanor::opencl
