// An OpenCL library that fails on purpose, for tests: ATHANOR_OPENCL_LIBRARY loads it in place of the real
// one, which it calls. ATHANOR_FAULT lists the faults, separated by ';':
//   alloc:BYTES   buffers cannot take more than BYTES in all
//   buffer:CODE   buffers of 1 MiB or more are refused with this error
//   build         nothing compiles
//   behind        building with the lowest priority, as background threads and their processes do, adds
//                 a line to the file $ATHANOR_FAULT_NOTES and never returns
//   lost:N        the device is lost after N launches
//   units:N       CL_DEVICE_MAX_COMPUTE_UNITS is N
//   say:WHAT=N    this query of a device (a number in cl.h, 0x4043) returns N, in as many bytes as asked for
//   text:TEXT     its name, its driver's version and its extensions are TEXT; "huge" means 4 GiB of text
//   abort         asking for platforms ends the process, like PoCL if /sys is missing
//   hang          asking for platforms never returns
//   kill:NAME     launching a kernel whose name starts with NAME ends the process
//   wrong:NAME    after a kernel whose name starts with NAME, the first number of its last buffer is wrong
//   stall:NAME    launching a kernel whose name starts with NAME never returns
// Functions that are not defined here are those of the library with which this one is linked.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>

namespace {

// The text after "name:" if that fault is asked for; nullptr otherwise.
const char* fault(const char* name) {
  static const std::map<std::string, std::string> all = [] {
    std::map<std::string, std::string> faults;
    const char* text = std::getenv("ATHANOR_FAULT");
    std::istringstream asked(text == nullptr ? "" : text);
    for (std::string one; std::getline(asked, one, ';');) {
      const size_t colon = std::min(one.find(':'), one.size());
      faults[one.substr(0, colon)] = one.substr(std::min(colon + 1, one.size()));
    }
    return faults;
  }();
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second.c_str();
}

template <class F>
F* real(const char* name) {
  static void* const library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<F*>(dlsym(library, name));
}

// The last buffer argument of a kernel, and the offset in it at which the kernel starts: see BUFFER in the
// kernel language.
struct LastBuffer {
  cl_uint place = 0;
  cl_mem buffer = nullptr;
  cl_ulong start = 0;
};
std::map<cl_kernel, LastBuffer> last_buffers;  // without a lock: launches come one after another

bool is_named(cl_kernel kernel, const char* start) {
  char name[256] = {};
  clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name - 1, name, nullptr);
  return start != nullptr && std::string(name).starts_with(start);
}

std::atomic<size_t> allocated{0};
std::atomic<long> launches{0};

bool yields_to_others() {
  constexpr int lowest = 19;
  return ::getpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid))) == lowest;
}

bool lost() {
  const char* after = fault("lost");
  return after != nullptr && launches >= std::atol(after);
}

}  // namespace

extern "C" {

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void* host, cl_int* code) {
  if (const char* most = fault("alloc");
      most != nullptr && (allocated += size) > std::strtoull(most, nullptr, 10)) {
    allocated -= size;
    if (code != nullptr) *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return nullptr;
  }
  if (const char* why = fault("buffer"); why != nullptr && size >= size_t{1} << 20) {
    if (code != nullptr) *code = std::atoi(why);
    return nullptr;
  }
  return real<decltype(clCreateBuffer)>("clCreateBuffer")(context, flags, size, host, code);
}

cl_int clReleaseMemObject(cl_mem buffer) {
  size_t size = 0;
  if (fault("alloc") != nullptr &&
      clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof size, &size, nullptr) == CL_SUCCESS)
    allocated -= size;
  return real<decltype(clReleaseMemObject)>("clReleaseMemObject")(buffer);
}

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id* devices, const char* options,
                      void(CL_CALLBACK* notify)(cl_program, void*), void* data) {
  if (fault("build") != nullptr) return CL_BUILD_PROGRAM_FAILURE;
  if (fault("behind") != nullptr && yields_to_others()) {
    if (const char* notes = std::getenv("ATHANOR_FAULT_NOTES"))
      if (std::FILE* file = std::fopen(notes, "a")) {
        std::fputs("the compiler hangs\n", file);
        std::fclose(file);
      }
    for (;;) pause();
  }
  return real<decltype(clBuildProgram)>("clBuildProgram")(program, count, devices, options, notify, data);
}

cl_int clGetPlatformIDs(cl_uint count, cl_platform_id* platforms, cl_uint* found) {
  if (fault("abort") != nullptr) {
    std::fputs("POCL: no /sys here\n", stderr);
    std::abort();
  }
  while (fault("hang") != nullptr) pause();
  return real<decltype(clGetPlatformIDs)>("clGetPlatformIDs")(count, platforms, found);
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void* value, size_t* needed) {
  if (const char* said = fault("say"); said != nullptr && value != nullptr) {
    char* rest = nullptr;
    const unsigned long about = std::strtoul(said, &rest, 0);
    const unsigned long long number = *rest == '=' ? std::strtoull(rest + 1, nullptr, 0) : 0;
    if (about == what && size <= sizeof number) {
      std::memcpy(value, &number, size);
      return CL_SUCCESS;
    }
  }
  if (const char* text = fault("text");
      text != nullptr &&
      (what == CL_DEVICE_NAME || what == CL_DRIVER_VERSION || what == CL_DEVICE_EXTENSIONS)) {
    const size_t length = std::strcmp(text, "huge") == 0 ? size_t{1} << 32 : std::strlen(text);
    if (needed != nullptr) *needed = length;
    if (value != nullptr) std::memcpy(value, text, std::min(size, std::strlen(text)));  // and no NUL
    return CL_SUCCESS;
  }
  const char* units = fault("units");
  if (units != nullptr && what == CL_DEVICE_MAX_COMPUTE_UNITS && value != nullptr) {
    const auto number = static_cast<cl_uint>(std::strtoul(units, nullptr, 10));
    std::memcpy(value, &number, sizeof number);
    return CL_SUCCESS;
  }
  return real<decltype(clGetDeviceInfo)>("clGetDeviceInfo")(device, what, size, value, needed);
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint place, size_t size, const void* value) {
  if (fault("wrong") != nullptr && size == sizeof(cl_ulong) && value != nullptr) {
    LastBuffer& last = last_buffers[kernel];
    if (place % 2 == 0 && place >= last.place) {
      last.place = place;
      std::memcpy(&last.buffer, value, size);
    } else if (place == last.place + 1) {
      std::memcpy(&last.start, value, size);
    }
  }
  return real<decltype(clSetKernelArg)>("clSetKernelArg")(kernel, place, size, value);
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint rank, const size_t* offset,
                              const size_t* all, const size_t* group, cl_uint waits, const cl_event* wait,
                              cl_event* event) {
  if (lost()) return CL_OUT_OF_RESOURCES;
  ++launches;
  if (is_named(kernel, fault("kill"))) std::raise(SIGKILL);
  while (is_named(kernel, fault("stall"))) pause();
  const cl_int code = real<decltype(clEnqueueNDRangeKernel)>("clEnqueueNDRangeKernel")(
      queue, kernel, rank, offset, all, group, waits, wait, event);
  if (code == CL_SUCCESS && is_named(kernel, fault("wrong"))) {
    const LastBuffer& last = last_buffers[kernel];
    cl_uint number = 0;
    if (clEnqueueReadBuffer(queue, last.buffer, CL_TRUE, last.start, sizeof number, &number, 0, nullptr,
                            nullptr) == CL_SUCCESS) {
      number ^= 0x40500000;  // another exponent: more than an error of rounding
      clEnqueueWriteBuffer(queue, last.buffer, CL_TRUE, last.start, sizeof number, &number, 0, nullptr,
                           nullptr);
    }
  }
  return code;
}

cl_int clFinish(cl_command_queue queue) {
  return lost() ? CL_OUT_OF_RESOURCES : real<decltype(clFinish)>("clFinish")(queue);
}

}  // extern "C"
