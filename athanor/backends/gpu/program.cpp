#include "athanor/backends/gpu/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/trust.h"
#include "athanor/kernels/waiting.h"

namespace athanor::gpu {

LoadedModule::~LoadedModule() { device_.driver().unload(module_, functions_); }

Function LoadedModule::find(const GpuLaunch& launch, const std::string& name) {
  GpuLaunch named = launch;
  named.name = name;
  const std::scoped_lock lock(mutex_);
  return functions_.emplace_back(device_.driver().find(module_, named));
}

namespace {

using ModulePtr = std::shared_ptr<LoadedModule>;
using ProgramPtr = std::shared_ptr<const Program>;

std::string program_key(const GpuLaunch& launch, const std::string& source) {
  return launch.compile_options + "\n" + source;
}

std::string binary_key(GpuDevice& device, const std::string& program_key) {
  return KernelCache::binary_key(device.driver().facts().fingerprint, program_key);
}

ProgramPtr program_in(const ModulePtr& module, const GpuLaunch& launch, const std::string& name) {
  return std::make_shared<const Program>(module, module->find(launch, name));
}

// A module of the cache's binary; nullptr if there is none, or the driver refuses it.
ModulePtr kept_module(GpuDevice& device, const std::string& key) {
  const std::string binary = KernelCache::instance().find_binary(key);
  const Module module = binary.empty() ? nullptr : device.driver().load(binary);
  return module == nullptr ? nullptr : std::make_shared<LoadedModule>(device, module);
}

// The same, loaded once for all kernels in it.
ModulePtr shared_module(GpuDevice& device, const std::string& key) {
  const std::scoped_lock lock(device.modules_mutex);
  std::weak_ptr<LoadedModule>& known = device.modules[key];
  ModulePtr module = known.lock();
  if (!module) known = module = kept_module(device, key);
  return module;
}

ProgramPtr kept_program(GpuDevice& device, const GpuLaunch& launch, const std::string& key) {
  if (const ModulePtr alone = kept_module(device, key)) return program_in(alone, launch, launch.name);
  if (const auto part = KernelCache::instance().find_part(key))
    if (const ModulePtr shared = shared_module(device, part->program))
      return program_in(shared, launch, part->name);
  return nullptr;
}

// `names`: of the kernels in the source, for 'athanor cache ls'.
ModulePtr compiled_module(GpuDevice& device, const GpuLaunch& launch, const std::string& source,
                          const std::string& key, const std::string& names) {
  Driver& driver = device.driver();
  // An examination keeps no binaries: PoCL takes as long for a binary as for compiling, and the kernels are
  // not run again.
  const bool keep = !examining();
  std::string binary;
  const Module module = driver.compile(source, launch, keep ? &binary : nullptr);
  count_compilation();
  if (!binary.empty()) KernelCache::instance().store_binary(key, driver.facts().info.name, names, binary);
  return std::make_shared<LoadedModule>(device, module);
}

ProgramPtr kept_or_compiled(GpuDevice& device, const GpuLaunch& launch, const std::string& source,
                            const std::string& key) {
  if (auto program = kept_program(device, launch, key)) return program;
  const auto turn = KernelCache::turn_to_compile(key);
  if (auto program = kept_program(device, launch, key)) return program;  // compiled by another process
  return program_in(compiled_module(device, launch, source, key, launch.name), launch, launch.name);
}

bool is_loaded(GpuDevice& device, const std::string& program_key) {
  const std::scoped_lock lock(device.programs_mutex);
  return device.programs.contains(program_key);
}

ProgramPtr add_program(GpuDevice& device, const std::string& program_key, ProgramPtr program) {
  const std::scoped_lock lock(device.programs_mutex);
  return device.programs.emplace(program_key, std::move(program)).first->second;
}

}  // namespace

std::shared_ptr<const Program> program_for(GpuDevice& device, const GpuLaunch& launch) {
  const std::string source = render(launch, device.facts().target);
  const std::string key = program_key(launch, source);
  {
    const std::scoped_lock lock(device.programs_mutex);
    if (auto found = device.programs.find(key); found != device.programs.end()) return found->second;
  }
  return add_program(device, key, kept_or_compiled(device, launch, source, binary_key(device, key)));
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
  KernelCache& cache = KernelCache::instance();
  std::vector<const GpuLaunch*> fresh;
  std::vector<std::string> keys, names;
  for (const GpuLaunch* launch : launches) {
    std::string key = program_key(*launch, render(*launch, target));
    if (is_loaded(device, key) || std::ranges::find(keys, key) != keys.end() ||
        (!fresh.empty() && fresh.front()->compile_options != launch->compile_options) ||
        cache.has_binary(binary_key(device, key)))
      continue;
    fresh.push_back(launch);
    keys.push_back(std::move(key));
    names.push_back(launch->name);
  }
  if (fresh.size() < 2) return;
  tell_wait("compiling kernels", fmt::format("{} in one program", fresh.size()));
  const std::string source = render_together(fresh, target);
  const std::string together = binary_key(device, program_key(*fresh.front(), source));
  try {
    const auto turn = KernelCache::turn_to_compile(together);
    ModulePtr module = kept_module(device, together);  // compiled by another process
    if (!module) module = compiled_module(device, *fresh.front(), source, together, join(names));
    for (size_t i = 0; i < fresh.size(); ++i) {
      const std::string name = name_together(*fresh[i], i);
      if (!examining()) cache.store_part(binary_key(device, keys[i]), {together, name});
      add_program(device, keys[i], program_in(module, *fresh[i], name));
    }
  } catch (const Error&) {
    return;
  }
}

}  // namespace athanor::gpu
