#include "athanor/doctor/opencl_drivers.h"

#include <algorithm>

#include "athanor/base/text.h"
#include "athanor/doctor/probes/shared.h"

namespace athanor::doctor {
namespace {

constexpr const char* enable = "RUSTICL_ENABLE";

bool has(const std::string& name, std::string_view part) { return name.find(part) != std::string::npos; }

// Whether a list like "iris:1,radeonsi:0,2" (drivers, some with their devices' numbers) names a driver.
bool names_driver(const std::string& value, const std::string& driver) {
  const auto parts = split(value, ',');
  return std::any_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return trim(part.substr(0, part.find(':'))) == driver; });
}

}  // namespace

bool OpenclDriver::is_rusticl() const { return has(library, "Rusticl"); }

std::string OpenclDriver::name() const { return file.substr(file.rfind('/') + 1); }

bool OpenclDriver::serves(const Gpu& gpu) const {
  const std::string base = library.substr(library.rfind('/') + 1);
  // Mesa's drivers run AMD's and Intel's GPUs.
  if (has(base, "Rusticl") || has(base, "MesaOpenCL"))
    return gpu.vendor == Vendor::amd || gpu.vendor == Vendor::intel;
  if (gpu.vendor == Vendor::amd) return has(base, "amdocl");
  if (gpu.vendor == Vendor::nvidia) return has(base, "nvidia-opencl");
  return gpu.vendor == Vendor::intel && (has(base, "igdrcl") || has(base, "intelocl"));
}

std::string opencl_vendors_folder(const Facts& facts) {
  const std::string folder = facts.variable("OCL_ICD_VENDORS").value_or("/etc/OpenCL/vendors");
  return folder.empty() ? "/etc/OpenCL/vendors" : folder;
}

std::string opencl_loader(const Facts& facts) {
  for (const std::string& path : facts.machine().libraries("libOpenCL.so*"))
    if (path.find(".so.1") != std::string::npos) return path;
  return {};
}

std::vector<OpenclDriver> opencl_drivers(const Facts& facts) {
  std::vector<OpenclDriver> all;
  for (const std::string& file : facts.machine().glob(opencl_vendors_folder(facts) + "/*.icd")) {
    OpenclDriver one{file, shortened(facts.machine().read_line(file).value_or("")), false};
    const Machine& machine = facts.machine();
    if (one.library.starts_with("/") && machine.covers(one.library))
      one.there = machine.exists(one.library);
    else if (!machine.covers_libraries())
      one.there = !one.library.empty();  // no libraries were recorded: trust the file
    else
      one.there = !one.library.empty() && !machine.libraries(one.library).empty();
    all.push_back(std::move(one));
  }
  return all;
}

bool predates_opencl_drivers(const Gpu& gpu) {
  return gpu.vendor == Vendor::intel && (gpu.arch == "ivb" || gpu.arch == "hsw");
}

// The kernel's radeon also runs the first chips of GCN; Mesa's radeonsi runs all chips of GCN.
std::string rusticl_driver(const Gpu& gpu) {
  if (gpu.vendor == Vendor::amd)
    return gpu.driver == "radeon" && !gpu.arch.starts_with("gfx") ? "r600" : "radeonsi";
  return gpu.vendor == Vendor::intel && !predates_opencl_drivers(gpu) ? "iris" : "";
}

std::string rusticl_enable_with(const Facts& facts, const std::string& driver) {
  const std::string now = facts.variable(enable).value_or("");
  if (now.empty()) return driver;
  return names_driver(now, driver) ? now : now + "," + driver;
}

bool opencl_answered(const Facts& facts) {
  const auto& states = facts.detection().runtimes;
  return std::any_of(states.begin(), states.end(),
                     [](const RuntimeState& state) { return state.name == "opencl" && state.answered; });
}

bool own_runtime_asked(const Facts& facts, const Gpu& gpu) {
  const char* own = gpu.vendor == Vendor::nvidia ? "cuda" : gpu.vendor == Vendor::amd ? "hip" : "";
  const auto& states = facts.detection().runtimes;
  return std::none_of(states.begin(), states.end(),
                      [&](const RuntimeState& state) { return state.name == own && !state.asked; });
}

OpenclUse opencl_use(const Facts& facts, const Gpu& gpu) {
  using State = OpenclUse::State;
  OpenclUse use;
  const std::string rusticl = rusticl_driver(gpu);
  for (const OpenclDriver& driver : opencl_drivers(facts)) {
    if (!driver.there || !driver.serves(gpu)) continue;
    const bool shows = !driver.is_rusticl() || names_driver(facts.variable(enable).value_or(""), rusticl);
    if (use.state == State::served || (use.state == State::hidden && !shows)) continue;
    use.state = shows ? State::served : State::hidden;
    use.driver = driver.name();
  }
  if (use.state == State::hidden) use.variable = enable, use.value = rusticl_enable_with(facts, rusticl);
  if (!gpu.opencl.empty())
    use = {State::listed, use.driver, {}, {}};  // some builds of Mesa show it without the variable
  else if (predates_opencl_drivers(gpu) ||
           (gpu.driver == "dxg" && (gpu.vendor == Vendor::nvidia || gpu.vendor == Vendor::amd)))
    use = {State::impossible, {}, {}, {}};
  return use;
}

}  // namespace athanor::doctor
