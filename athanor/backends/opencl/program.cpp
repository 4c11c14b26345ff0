#include "athanor/backends/opencl/program.h"

#include <fmt/format.h>

#include <vector>

#include "athanor/base/error.h"
#include "athanor/kernels/cache.h"

namespace athanor::opencl {
namespace {

// -cl-std: the version that the language needs and every driver has. Division and square roots round as in
// IEEE 754 if the device can. (Relaxed mathematics would change NaN and infinity.) -w: no warnings, because
// PoCL prints them to the user's terminal.
constexpr const char* options = "-cl-std=CL1.2 -w";

std::string build_log(cl_program program, cl_device_id device) {
  size_t size = 0;
  api().GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
  std::string log(size, '\0');
  api().GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  constexpr size_t most = 2000;
  return log.size() > most ? log.substr(0, most) + " ..." : log;
}

cl_program from_binary(ClDevice& device, const std::string& binary) {
  cl_int code = CL_SUCCESS, status = CL_SUCCESS;
  const size_t size = binary.size();
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  const cl_device_id id = device.id();
  const cl_program program =
      api().CreateProgramWithBinary(device.context(), 1, &id, &size, &bytes, &status, &code);
  if (code != CL_SUCCESS || status != CL_SUCCESS) return nullptr;
  // A driver may refuse a binary that it wrote before an update. Then the source is compiled again.
  if (api().BuildProgram(program, 1, &id, options, nullptr, nullptr) == CL_SUCCESS) return program;
  api().ReleaseProgram(program);
  return nullptr;
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

cl_program from_source(ClDevice& device, const GpuLaunch& launch, const std::string& source) {
  cl_int code = CL_SUCCESS;
  const char* text = source.c_str();
  const cl_program program = api().CreateProgramWithSource(device.context(), 1, &text, nullptr, &code);
  check(code, "cannot create a program");
  const cl_device_id id = device.id();
  code = api().BuildProgram(program, 1, &id, options, nullptr, nullptr);
  if (code != CL_SUCCESS) {
    const std::string log = build_log(program, id);
    api().ReleaseProgram(program);
    throw Error(ErrorCode::device,
                fmt::format("{} cannot compile the kernel '{}': {}\n{}", to_string(device.device()),
                            launch.name, error_name(code), log),
                {}, "Please report it with this log. The driver's version is in 'athanor detect'.");
  }
  count_compilation();
  return program;
}

}  // namespace

Program::Program(ClDevice& device, const GpuLaunch& launch) {
  const std::string source = render(launch, GpuTarget::opencl);
  const std::string key = KernelCache::binary_key(device.fingerprint() + "|" + options, source);
  const auto from_cache = [&]() -> cl_program {
    const std::string binary = KernelCache::instance().find_binary(key);
    return binary.empty() ? nullptr : from_binary(device, binary);
  };
  program_ = from_cache();
  if (program_ == nullptr) {
    const auto turn = KernelCache::turn_to_compile(key);
    program_ = from_cache();  // another process may have compiled it in the meantime
    if (program_ == nullptr) {
      program_ = from_source(device, launch, source);
      KernelCache::instance().store_binary(key, device.info().name, launch.name, binary_of(program_));
    }
  }
  cl_int code = CL_SUCCESS;
  kernel_ = api().CreateKernel(program_, launch.name.c_str(), &code);
  if (code != CL_SUCCESS) api().ReleaseProgram(program_);
  check(code, fmt::format("cannot make the kernel '{}'", launch.name));
}

Program::~Program() {
  api().ReleaseKernel(kernel_);
  api().ReleaseProgram(program_);
}

std::shared_ptr<const Program> program_for(ClDevice& device, const GpuLaunch& launch) {
  const std::string source = render(launch, GpuTarget::opencl);
  {
    const std::scoped_lock lock(device.programs_mutex);
    if (auto found = device.programs.find(source); found != device.programs.end()) return found->second;
  }
  auto program = std::make_shared<const Program>(device, launch);
  const std::scoped_lock lock(device.programs_mutex);
  return device.programs.emplace(source, std::move(program)).first->second;
}

}  // namespace athanor::opencl
