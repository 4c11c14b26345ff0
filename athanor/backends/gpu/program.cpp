#include "athanor/backends/gpu/program.h"

#include <utility>
#include <vector>

#include "athanor/kernels/cache.h"
#include "athanor/kernels/trust.h"

namespace athanor::gpu {

Program::Program(GpuDevice& device, const GpuLaunch& launch, const std::string& source) : device_(device) {
  Driver& driver = device.driver();
  KernelCache& cache = KernelCache::instance();
  const std::string key =
      KernelCache::binary_key(driver.facts().fingerprint, launch.compile_options + "\n" + source);
  const auto from_cache = [&]() -> Module {
    const std::string binary = cache.find_binary(key);
    return binary.empty() ? nullptr : driver.load(binary);
  };
  module_ = from_cache();
  if (module_ == nullptr) {
    const auto turn = KernelCache::turn_to_compile(key);
    module_ = from_cache();  // another process may have compiled it meanwhile
    if (module_ == nullptr) {
      // PoCL takes as long for a binary as for compiling, and what is examined once is not run again.
      const bool keep = !examining();
      std::string binary;
      module_ = driver.compile(source, launch, keep ? &binary : nullptr);
      count_compilation();
      if (!binary.empty()) cache.store_binary(key, driver.facts().info.name, launch.name, binary);
    }
  }
  try {
    function_ = driver.find(module_, launch);
  } catch (...) {
    driver.unload(module_, nullptr);
    throw;
  }
}

Program::~Program() { device_.driver().unload(module_, function_); }

std::shared_ptr<const Program> program_for(GpuDevice& device, const GpuLaunch& launch) {
  const std::string source = render(launch, device.facts().target);
  const std::string key = launch.compile_options + "\n" + source;
  {
    const std::scoped_lock lock(device.programs_mutex);
    if (auto found = device.programs.find(key); found != device.programs.end()) return found->second;
  }
  auto program = std::make_shared<const Program>(device, launch, source);
  const std::scoped_lock lock(device.programs_mutex);
  return device.programs.emplace(key, std::move(program)).first->second;
}

void unload_unused_programs(GpuDevice& device) {
  std::vector<std::shared_ptr<const Program>> unused;
  {
    const std::scoped_lock lock(device.programs_mutex);
    std::erase_if(device.programs, [&](auto& entry) {
      if (entry.second.use_count() > 1) return false;
      unused.push_back(std::move(entry.second));
      return true;
    });
  }
  if (!unused.empty()) device.kernels().finish();
}

}  // namespace athanor::gpu
