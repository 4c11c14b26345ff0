#include "athanor/backends/gpu/program.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/trust.h"

namespace athanor::gpu {

LoadedModule::~LoadedModule() { device_.driver().unload(module_, functions_); }

Function LoadedModule::find(const GpuLaunch& launch) {
  return functions_.emplace_back(device_.driver().find(module_, launch));
}

namespace {

std::string program_key(const GpuLaunch& launch, const std::string& source) {
  return launch.compile_options + "\n" + source;
}

Module module_for(GpuDevice& device, const GpuLaunch& launch, const std::string& source) {
  Driver& driver = device.driver();
  KernelCache& cache = KernelCache::instance();
  const std::string key = KernelCache::binary_key(driver.facts().fingerprint, program_key(launch, source));
  const auto from_cache = [&]() -> Module {
    const std::string binary = cache.find_binary(key);
    return binary.empty() ? nullptr : driver.load(binary);
  };
  if (const Module module = from_cache()) return module;
  const auto turn = KernelCache::turn_to_compile(key);
  if (const Module module = from_cache()) return module;  // another process may have compiled it meanwhile
  // PoCL takes as long for a binary as for compiling, and what is examined once is not run again.
  const bool keep = !examining();
  std::string binary;
  const Module module = driver.compile(source, launch, keep ? &binary : nullptr);
  count_compilation();
  if (!binary.empty()) cache.store_binary(key, driver.facts().info.name, launch.name, binary);
  return module;
}

}  // namespace

std::shared_ptr<const Program> program_for(GpuDevice& device, const GpuLaunch& launch) {
  const std::string source = render(launch, device.facts().target);
  const std::string key = program_key(launch, source);
  {
    const std::scoped_lock lock(device.programs_mutex);
    if (auto found = device.programs.find(key); found != device.programs.end()) return found->second;
  }
  const auto module = std::make_shared<LoadedModule>(device, module_for(device, launch, source));
  auto program = std::make_shared<const Program>(module, module->find(launch));
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

void compile_together(GpuDevice& device, const std::vector<const GpuLaunch*>& launches) {
  const GpuTarget target = device.facts().target;
  std::vector<const GpuLaunch*> fresh;
  std::vector<std::string> keys;
  for (const GpuLaunch* launch : launches) {
    std::string key = program_key(*launch, render(*launch, target));
    const std::scoped_lock lock(device.programs_mutex);
    if (device.programs.contains(key) || std::ranges::find(keys, key) != keys.end() ||
        (!fresh.empty() && fresh.front()->compile_options != launch->compile_options))
      continue;
    fresh.push_back(launch);
    keys.push_back(std::move(key));
  }
  if (fresh.size() < 2) return;
  try {
    const auto module = std::make_shared<LoadedModule>(
        device, device.driver().compile(render_together(fresh, target), *fresh.front(), nullptr));
    count_compilation();
    for (size_t i = 0; i < fresh.size(); ++i) {
      GpuLaunch renamed = *fresh[i];
      renamed.name = name_together(*fresh[i], i);
      auto program = std::make_shared<const Program>(module, module->find(renamed));
      const std::scoped_lock lock(device.programs_mutex);
      device.programs.emplace(keys[i], std::move(program));
    }
  } catch (const Error&) {
    return;
  }
}

}  // namespace athanor::gpu
