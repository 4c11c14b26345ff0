// The OpenCL library, loaded at run time: the functions that are used, by their own names.
#pragma once
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <string>
#include <vector>

namespace athanor::opencl {

// clGetPlatformIDs becomes api().GetPlatformIDs.
#define ATHANOR_OPENCL_FUNCTIONS(F)         \
  F(GetPlatformIDs)                         \
  F(GetPlatformInfo)                        \
  F(GetDeviceIDs)                           \
  F(GetDeviceInfo)                          \
  F(GetExtensionFunctionAddressForPlatform) \
  F(CreateContext)                          \
  F(CreateCommandQueue)                     \
  F(ReleaseCommandQueue)                    \
  F(CreateBuffer)                           \
  F(ReleaseMemObject)                       \
  F(SetMemObjectDestructorCallback)         \
  F(CreateProgramWithSource)                \
  F(CreateProgramWithBinary)                \
  F(BuildProgram)                           \
  F(GetProgramInfo)                         \
  F(GetProgramBuildInfo)                    \
  F(ReleaseProgram)                         \
  F(CreateKernel)                           \
  F(ReleaseKernel)                          \
  F(GetKernelInfo)                          \
  F(SetKernelArg)                           \
  F(EnqueueNDRangeKernel)                   \
  F(EnqueueReadBuffer)                      \
  F(EnqueueWriteBuffer)                     \
  F(EnqueueFillBuffer)                      \
  F(EnqueueCopyBuffer)                      \
  F(EnqueueBarrierWithWaitList)             \
  F(EnqueueMapBuffer)                       \
  F(EnqueueMarkerWithWaitList)              \
  F(WaitForEvents)                          \
  F(GetEventInfo)                           \
  F(GetEventProfilingInfo)                  \
  F(ReleaseEvent)                           \
  F(Flush)                                  \
  F(Finish)

struct Api {
#define ATHANOR_DECLARE(name) decltype(&cl##name) name = nullptr;
  ATHANOR_OPENCL_FUNCTIONS(ATHANOR_DECLARE)
#undef ATHANOR_DECLARE
  /// Why there is no OpenCL here; "" if there is.
  std::string missing;
};

/// Loaded at the first call. If `missing` is not empty, no function may be called.
const Api& api();

/// A platform's or device's answer in words, trimmed; "" if it gives none.
std::string platform_text(cl_platform_id platform, cl_platform_info what);
std::string device_text(cl_device_id id, cl_device_info what);
bool has_extension(cl_device_id id, const std::string& name);

/// "CL_OUT_OF_RESOURCES"
std::string error_name(cl_int code);

struct Listed {
  cl_platform_id platform;
  cl_device_id device;
};
/// Every device of every platform, in order: the numbers of --device opencl:N. {} if there is no OpenCL.
std::vector<cl_platform_id> list_platforms();
std::vector<Listed> list();

}  // namespace athanor::opencl
