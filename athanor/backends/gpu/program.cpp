#include "athanor/backends/gpu/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/base/in_threads.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/base/text.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/compile_apart.h"
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

// PoCL compiles one program at a time. Meanwhile other threads compile in processes of their own. On a GPU
// such a process would take memory of the device.
Module compile(GpuDevice& device, const GpuLaunch& launch, const std::string& source, std::string* binary) {
  Driver& driver = device.driver();
  static std::mutex compiling;
  std::unique_lock turn(compiling, std::defer_lock);
  const bool apart = device.facts().shares_host_memory && !device.facts().compiles_side_by_side;
  if (apart && binary != nullptr && (prefers_to_compile_apart() || !turn.try_lock())) {
    const std::string compiler = driver_compiler(provider_of(device.facts().info.device).name());
    if (auto made = compile_apart(compiler, driver_target(device), launch.compile_options + '\n' + source,
                                  launch.name))
      if (const Module module = driver.load(*made); module != nullptr) {
        *binary = std::move(*made);
        return module;
      }
    turn.lock();
  }
  return driver.compile(source, launch, binary);
}

// `names`: of the kernels in the source, for 'athanor cache ls'.
ModulePtr compiled_module(GpuDevice& device, const GpuLaunch& launch, const std::string& source,
                          const std::string& key, const std::string& names) {
  // An examination keeps no binaries: PoCL takes as long for a binary as for compiling, and the kernels are
  // not run again.
  const bool keep = !examining();
  std::string binary;
  const Module module = compile(device, launch, source, keep ? &binary : nullptr);
  count_compilation();
  if (!binary.empty()) KernelCache::instance().store_binary(key, device.facts().info.name, names, binary);
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

namespace {

// A launch whose program is compiled with others.
struct Part {
  const GpuLaunch* launch;
  std::string key;  // the program's, if it is compiled alone
};

void compile_in_one_program(GpuDevice& device, const std::vector<Part>& parts) {
  std::vector<const GpuLaunch*> launches;
  std::vector<std::string> names;
  for (const Part& part : parts) {
    launches.push_back(part.launch);
    names.push_back(part.launch->name);
  }
  const std::string source = render_together(launches, device.facts().target);
  const std::string together = binary_key(device, program_key(*launches.front(), source));
  try {
    const auto turn = KernelCache::turn_to_compile(together);
    ModulePtr module = kept_module(device, together);  // compiled by another process
    if (!module) module = compiled_module(device, *launches.front(), source, together, join(names));
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string name = name_together(*launches[i], i);
      if (!examining())
        KernelCache::instance().store_part(binary_key(device, parts[i].key), {together, name});
      add_program(device, parts[i].key, program_in(module, *launches[i], name));
    }
  } catch (const Error&) {
    return;
  }
}

// The kernels of each program. Programs should end at the same time: each core has as many, and each program
// has some of the first kernels, which are the largest. An examination is a process of its own for each core.
std::vector<std::vector<Part>> divided(std::vector<Part> parts, size_t cores) {
  constexpr size_t most = 8;  // Ctrl-C waits until a program is compiled
  const size_t rounds = (parts.size() + most * cores - 1) / (most * cores);
  const size_t count = examining() ? 1 : std::clamp<size_t>(rounds * cores, 1, parts.size() / 2);
  std::vector<std::vector<Part>> programs(count);
  for (size_t i = 0; i < parts.size(); ++i) programs[i % count].push_back(std::move(parts[i]));
  return programs;
}

}  // namespace

void compile_together(GpuDevice& device, const std::vector<const GpuLaunch*>& launches) {
  const GpuTarget target = device.facts().target;
  std::map<std::string, std::vector<Part>> fresh;  // by the compiler's options
  for (const GpuLaunch* launch : launches) {
    std::string key = program_key(*launch, render(*launch, target));
    std::vector<Part>& alike = fresh[launch->compile_options];  // a program's kernels share them
    if (is_loaded(device, key) || std::ranges::find(alike, key, &Part::key) != alike.end() ||
        KernelCache::instance().has_binary(binary_key(device, key)))
      continue;
    alike.push_back({launch, std::move(key)});
  }
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  size_t count = 0;
  std::vector<std::vector<Part>> programs;
  for (auto& [options, parts] : fresh) {
    if (parts.size() < 2) continue;
    count += parts.size();
    std::ranges::move(divided(std::move(parts), cores), std::back_inserter(programs));
  }
  if (programs.empty()) return;
  tell_wait("compiling kernels",
            fmt::format("{} in {} program{}", count, programs.size(), programs.size() == 1 ? "" : "s"));
  in_threads(
      programs.size(), cores,
      [&](size_t i) {
        throw_if_interrupted();
        compile_in_one_program(device, programs[i]);
      },
      [examines = examining()](const auto& calls) {
        const ExaminationScope scope(examines);
        const CompileApartScope apart;
        calls();
      });
}

std::string driver_compiler(const std::string& backend) { return backend + "-driver"; }

// A device's number and what its programs depend on, which another process may see otherwise.
std::string driver_target(GpuDevice& device) {
  return fmt::format("{} {}", device.facts().info.device.index,
                     KernelCache::hash(device.driver().facts().fingerprint));
}

std::string compile_for_another_process(GpuDevice& device, const std::string& target,
                                        const std::string& source, const std::string& name) try {
  const size_t end = source.find('\n');
  if (target != driver_target(device) || end == std::string::npos) return {};
  const GpuLaunch launch{.name = name, .compile_options = source.substr(0, end)};
  std::string binary;
  device.driver().unload(device.driver().compile(source.substr(end + 1), launch, &binary), {});
  return binary;
} catch (const Error&) {
  return {};  // the other process compiles it itself, and says what is wrong with it
}

}  // namespace athanor::gpu
