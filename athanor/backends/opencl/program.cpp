#include "athanor/backends/opencl/program.h"

#include <fmt/format.h>

#include <string>

#include "athanor/backends/opencl/driver.h"

namespace athanor::opencl {
namespace {

std::string build_log(cl_program program, cl_device_id device) {
  size_t size = 0;
  api().GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
  std::string log(size, '\0');
  api().GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  constexpr size_t most = 2000;
  return log.size() > most ? log.substr(0, most) + " ..." : log;
}

std::string binary_of(cl_program program) {
  size_t size = 0;
  if (api().GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr) != CL_SUCCESS ||
      size == 0)
    return {};
  std::string binary(size, '\0');
  char* bytes = binary.data();
  if (api().GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof bytes, static_cast<void*>(&bytes), nullptr) !=
      CL_SUCCESS)
    return {};
  return binary;
}

}  // namespace

gpu::Module OpenClDriver::load(const std::string& binary) {
  cl_int code = CL_SUCCESS, status = CL_SUCCESS;
  const size_t size = binary.size();
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  const cl_program program = api().CreateProgramWithBinary(context_, 1, &id_, &size, &bytes, &status, &code);
  if (code != CL_SUCCESS || status != CL_SUCCESS) return nullptr;
  // A driver may refuse a binary that it wrote before an update: then the source is compiled again.
  if (api().BuildProgram(program, 1, &id_, compile_options, nullptr, nullptr) == CL_SUCCESS) return program;
  api().ReleaseProgram(program);
  return nullptr;
}

gpu::Module OpenClDriver::compile(const std::string& source, const GpuLaunch& launch, std::string* binary) {
  cl_int code = CL_SUCCESS;
  const char* text = source.c_str();
  const cl_program program = api().CreateProgramWithSource(context_, 1, &text, nullptr, &code);
  check(code, "make a program");
  const std::string options = fmt::format("{} {}", compile_options, launch.compile_options);
  code = api().BuildProgram(program, 1, &id_, options.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS) {
    const std::string log = build_log(program, id_);
    api().ReleaseProgram(program);
    fail_to_compile(launch.name, error_name(code) + "\n" + log);
  }
  if (binary != nullptr) *binary = binary_of(program);
  return program;
}

gpu::Function OpenClDriver::find(gpu::Module module, const GpuLaunch& launch) {
  cl_int code = CL_SUCCESS;
  const cl_kernel kernel = api().CreateKernel(static_cast<cl_program>(module), launch.name.c_str(), &code);
  if (code != CL_SUCCESS) check(code, fmt::format("make the kernel '{}'", launch.name));
  return kernel;
}

void OpenClDriver::unload(gpu::Module module, std::span<const gpu::Function> functions) noexcept {
  for (const gpu::Function function : functions) api().ReleaseKernel(static_cast<cl_kernel>(function));
  api().ReleaseProgram(static_cast<cl_program>(module));
}

}  // namespace athanor::opencl
