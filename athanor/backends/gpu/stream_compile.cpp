// Programs of CUDA and HIP: from source by NVRTC or hipRTC, and from binaries.
#include <fmt/format.h>

#include <mutex>
#include <string>
#include <utility>

#include "athanor/backends/gpu/stream_driver.h"
#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/kernels/compile_apart.h"

namespace athanor::gpu {

Module StreamDriver::load(const std::string& binary) {
  enter();
  Module module = nullptr;
  const int code = api_.module_load(&module, binary.c_str());
  if (is_of_earlier_work(code) || code == api_.out_of_memory) check(code, "load a kernel");
  if (code == 0) return module;
  refused_ = code;
  return nullptr;
}

void StreamDriver::refuse_compilation(const Compilation& failed, const std::string& name) const {
  constexpr size_t most = 2000, few = 300;  // characters
  // Not an empty source: hipRTC may refuse that for any device.
  const Compilation nothing(compiler_, compiled_for_, "extern \"C\" __global__ void nothing() {}", "nothing");
  if (!nothing.failed()) fail_to_compile(name, failed.problem(most));
  refuse(
      fmt::format("{} compiles nothing for {}: {}", compiler_.version, architecture_, nothing.problem(few)),
      "It may be older than the device: install a newer one ('athanor detect' shows which is used), "
      "or use the device by another backend.");
}

Module StreamDriver::compile(const std::string& source, const GpuLaunch& launch, std::string* binary) {
  const std::string& name = launch.name;
  static std::mutex compiling;
  std::unique_lock turn(compiling, std::defer_lock);
  if (!compiler_.apart.empty() && (prefers_to_compile_apart() || !turn.try_lock())) {
    if (auto made = compile_apart(compiler_.apart, compiler_.target_apart(compiler_, compiled_for_, form_),
                                  source, name))
      if (const Module module = load(*made); module != nullptr) {
        if (binary != nullptr) *binary = std::move(*made);
        return module;
      }
    turn.lock();
  }
  const Compilation compilation(compiler_, compiled_for_, source, name);
  if (compilation.failed()) refuse_compilation(compilation, name);
  for (size_t i = form_; i < compiler_.forms.size(); ++i) {
    std::string made = compilation.result(compiler_.forms[i]);
    if (made.empty()) continue;
    if (const Module module = load(made); module != nullptr) {
      form_ = i;  // a driver that refused the better one for this kernel will do so for all
      if (binary != nullptr) *binary = std::move(made);
      return module;
    }
  }
  throw Error(
      ErrorCode::device,
      fmt::format("{} cannot compile the kernel '{}': the driver does not load what {} makes for {}: {}",
                  to_string(facts_.info.device), name, compiler_.version, architecture_,
                  error_name(refused_)),
      {}, compiler_.refused(compiler_, version_));
}

Function StreamDriver::find(Module module, const GpuLaunch& launch) {
  enter();
  Function function = nullptr;
  check(api_.module_function(&function, module, launch.name.c_str()),
        fmt::format("find the kernel '{}'", launch.name));
  if (launch.local_at_launch && launch.local_bytes > facts_.traits.local_bytes) {
    enum : int { most_local_bytes = 8 };
    check(api_.function_allow(function, most_local_bytes, static_cast<int>(launch.local_bytes)),
          fmt::format("give the kernel '{}' {} of local memory", launch.name,
                      format_bytes(static_cast<uint64_t>(launch.local_bytes))));
  }
  return function;
}

void StreamDriver::unload(Module module, std::span<const Function>) noexcept {
  quietly([&] { api_.module_unload(module); });
}

}  // namespace athanor::gpu
