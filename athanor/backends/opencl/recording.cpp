#include "athanor/backends/opencl/recording.h"

#include <array>
#include <memory>
#include <type_traits>

namespace athanor::opencl {

Recorder::Recorder(cl_platform_id platform, cl_device_id id) {
  if (!has_extension(id, "cl_khr_command_buffer")) return;
  cl_command_queue_properties needed = 0;
  cl_device_command_buffer_capabilities_khr can = 0;
  if (api().GetDeviceInfo(id, CL_DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES_KHR, sizeof needed, &needed,
                          nullptr) != CL_SUCCESS ||
      (needed & ~cl_command_queue_properties{CL_QUEUE_PROFILING_ENABLE}) != 0)
    return;
  at_once_ = api().GetDeviceInfo(id, CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR, sizeof can, &can, nullptr) ==
                 CL_SUCCESS &&
             (can & CL_COMMAND_BUFFER_CAPABILITY_SIMULTANEOUS_USE_KHR) != 0;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        api().GetExtensionFunctionAddressForPlatform(platform, name));
    return function != nullptr;
  };
  if (!find(create_, "clCreateCommandBufferKHR") || !find(add_, "clCommandNDRangeKernelKHR") ||
      !find(finalize_, "clFinalizeCommandBufferKHR") || !find(release_, "clReleaseCommandBufferKHR") ||
      !find(enqueue_, "clEnqueueCommandBufferKHR"))
    enqueue_ = nullptr;
}

cl_int Recorder::begin(cl_command_queue queue) {
  const cl_command_buffer_properties_khr flags = at_once_ ? CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR : 0;
  const std::array<cl_command_buffer_properties_khr, 3> properties = {CL_COMMAND_BUFFER_FLAGS_KHR, flags, 0};
  cl_int code = CL_SUCCESS;
  const cl_command_buffer_khr commands = create_(1, &queue, properties.data(), &code);
  if (code == CL_SUCCESS) open_[queue] = {commands};
  return code;
}

cl_int Recorder::make_own(cl_command_queue queue, cl_kernel& kernel) {
  cl_program program = nullptr;
  std::array<char, 1024> name{};  // in its program, which may have several kernels
  cl_int code = api().GetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof(cl_program), &program, nullptr);
  if (code == CL_SUCCESS)
    code = api().GetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, name.size(), name.data(), nullptr);
  if (code == CL_SUCCESS) kernel = api().CreateKernel(program, name.data(), &code);
  if (code == CL_SUCCESS) open_.at(queue).kernels.push_back(kernel);
  return code;
}

cl_int Recorder::add(cl_command_queue queue, cl_kernel kernel, const size_t* all, const size_t* group) {
  return add_(open_.at(queue).commands, nullptr, nullptr, kernel, 3, nullptr, all, group, 0, nullptr, nullptr,
              nullptr);
}

gpu::Captured Recorder::end(cl_command_queue queue, std::string& why) {
  const auto found = open_.find(queue);
  if (found == open_.end()) return nullptr;
  auto recording = std::make_unique<Recording>(std::move(found->second));
  open_.erase(found);
  const cl_int code = finalize_(recording->commands);
  if (code == CL_SUCCESS) return recording.release();
  why = error_name(code);
  release(recording.release());
  return nullptr;
}

cl_int Recorder::replay(cl_command_queue queue, gpu::Captured captured) const {
  return enqueue_(1, &queue, static_cast<Recording*>(captured)->commands, 0, nullptr, nullptr);
}

void Recorder::release(gpu::Captured captured) const noexcept {
  const std::unique_ptr<Recording> recording(static_cast<Recording*>(captured));
  release_(recording->commands);
  for (const cl_kernel kernel : recording->kernels) api().ReleaseKernel(kernel);
}

}  // namespace athanor::opencl
