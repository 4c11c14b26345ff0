// athanor kernels
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/cli/command_line.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/model_step.h"
#include "athanor/cli/numbers.h"
#include "athanor/cli/trained_model.h"
#include "athanor/compile/plan.h"
#include "athanor/kernels/gpu/gpu_access.h"
#include "athanor/runtime/evaluate.h"

namespace athanor::cli {
namespace {

constexpr const char* list_name = "launches.json";

struct DumpOptions {
  ModelStepOptions step;
  std::string target, architecture, out;
};

constexpr const char* offline = "offline";

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const GpuTargetName& one : gpu_targets()) names.emplace_back(one.name);
  return names;
}

const GpuTargetName& target_named(const std::string& name) {
  for (const GpuTargetName& one : gpu_targets())
    if (one.name == name) return one;
  throw Error(ErrorCode::usage, fmt::format("'{}' is not a target", name), "--target",
              "Give one of " + join(target_names()));
}

// The sizes of the buffers of a step's kernel: values, then scratch.
std::vector<int64_t> buffer_bytes(const Plan& plan, const PlanStep& step) {
  std::vector<int64_t> bytes;
  for (const BufferRef& buffer : step.buffers)
    bytes.push_back(static_cast<int64_t>(plan.values[static_cast<size_t>(buffer.value)].type.bytes()) -
                    buffer.byte_offset);
  bytes.push_back(static_cast<int64_t>(step.kernel.scratch_bytes));
  return bytes;
}

std::string files(size_t count) { return fmt::format("{} file{}", count, count == 1 ? "" : "s"); }

/// The files in a folder other than those of the dump to be written.
struct OlderDump {
  std::vector<std::string> ours;  // files that an older dump wrote, by its launches.json
  std::vector<std::string> others;
};

/// Throws Error(usage) for a launches.json or a header that no dump wrote: they would be overwritten.
OlderDump older_dump(const std::filesystem::path& folder) {
  OlderDump found;
  const auto list = folder / list_name;
  std::error_code failed;
  if (std::filesystem::exists(list, failed)) {
    const auto json = nlohmann::json::parse(read_text_file(list), nullptr, false);
    const bool is_ours = json.is_array() && std::ranges::all_of(json, [](const nlohmann::json& one) {
                           return one.is_object() && one.value("entry", nlohmann::json()).is_string() &&
                                  one.value("file", nlohmann::json()).is_string();
                         });
    if (!is_ours)
      throw Error(ErrorCode::usage, "the folder has a launches.json that Athanor did not write",
                  list.string(), "Choose another folder with --out");
    for (const auto& one : json) {
      const std::filesystem::path file = one["file"].get<std::string>();
      const bool named_by_us =
          file == file.filename() && file.stem().string().ends_with("_" + one["entry"].get<std::string>());
      if (named_by_us && std::filesystem::is_regular_file(folder / file, failed))
        found.ours.push_back(file.string());
    }
  } else if (std::filesystem::exists(folder / language_header_name, failed)) {
    throw Error(ErrorCode::usage,
                fmt::format("the folder has a {} that Athanor did not write", language_header_name),
                (folder / language_header_name).string(), "Choose another folder with --out");
  }
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
       at.increment(failed))
    if (const std::string name = at->path().filename().string();
        name != list_name && name != language_header_name &&
        std::ranges::find(found.ours, name) == found.ours.end())
      found.others.push_back(name);
  std::ranges::sort(found.others);
  return found;
}

/// The resources that a dump's kernels take of a device, as its driver counts them.
struct Takes {
  size_t told = 0, spilled = 0;
  int least_registers = 0, most_registers = 0;
  KernelResources fewest;  // of the kernel with the fewest waves
  std::string of;          // its file

  void add(const KernelResources& one, const std::string& file) {
    least_registers = told == 0 ? one.registers : std::min(least_registers, one.registers);
    most_registers = std::max(most_registers, one.registers);
    spilled += one.private_bytes > 0 ? 1 : 0;
    if (one.most_waves > 0 && (of.empty() || one.waves < fewest.waves)) fewest = one, of = file;
    ++told;
  }
  std::string text(Device device) const {
    std::string said = fmt::format("On {} a work-item takes {} to {} registers; ", to_string(device),
                                   least_registers, most_registers);
    said += spilled == 0 ? "none of the kernels spills."
                         : fmt::format("{} of {} kernels spill or keep arrays in memory.", spilled, told);
    if (!of.empty())
      said += fmt::format(" The fewest waves at once on a multiprocessor: {} of {}, of {}.", fewest.waves,
                          fewest.most_waves, of);
    return said + "\n";
  }
};

/// What the device's driver reports for each launch; {} if it does not.
std::vector<KernelResources> resources_of(Device device, const GpuCandidate& generated) {
  const auto access = gpu_access(device);
  return access && access->resources ? access->resources(generated) : std::vector<KernelResources>();
}

// The target, which an architecture also determines; the offline device becomes one of that architecture.
const GpuTargetName& take_target(const DumpOptions& options) {
  if (options.architecture.empty())
    return options.target.empty() ? gpu_targets().front() : target_named(options.target);
  const auto target = target_of_architecture(options.architecture);
  if (!target)
    throw Error(ErrorCode::usage, fmt::format("'{}' is not an architecture", options.architecture), "--arch",
                "Give one as drivers name it: gfx1100 (AMD), sm_86 (NVIDIA)");
  const std::string name(to_string(*target));
  if (!options.target.empty() && options.target != name)
    throw Error(ErrorCode::usage, fmt::format("{} is an architecture of {}", options.architecture, name),
                "--target", fmt::format("Leave it out, or give {}", name));
  if (options.step.config.device != offline)
    throw Error(ErrorCode::usage, fmt::format("{} has an architecture", options.step.config.device), "--arch",
                "Give --arch or --device, not both");
  set_offline_architecture(*target, options.architecture);
  return name_of(*target);
}

// What the precision costs on the architecture that was asked for, or on the device.
std::string about_precision(const DumpOptions& options, Device device) {
  const Precision precision = parse_precision(options.step.config.precision);
  const bool unknown = options.step.config.device == offline && options.architecture.empty();
  if (unknown || stored_in(precision) == DType::f32) return {};
  const std::string cost = backend_of(device).slow_in(device.index, stored_in(precision));
  if (cost.empty()) return {};
  return fmt::format("On {}, {}.\n", options.architecture.empty() ? to_string(device) : options.architecture,
                     cost);
}

// A note on whether the kernels can use matrix units.
std::string about_matrix_units(const DumpOptions& options, const GpuTargetName& target) {
  if (options.step.config.device != offline || !target.by_architecture) return {};
  if (options.architecture.empty())
    return "None of them uses matrix units, which differ between GPUs: --arch gfx1100 or sm_86 uses those of "
           "an architecture.\n";
  return matrix_units(target.target, options.architecture).empty()
             ? fmt::format("Athanor knows no matrix units of {}.\n", options.architecture)
             : std::string();
}

int dump(const DumpOptions& options) {
  const GpuTargetName& target = take_target(options);
  const Device device = device_option(options.step.config.device);
  ModelStep step(options.step, device);
  const auto plan = step.plan();
  const std::filesystem::path folder(options.out);
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    throw Error(ErrorCode::io, "cannot make the folder: " + failed.message(), options.out,
                "Choose another with --out");
  OlderDump older = older_dump(folder);
  Takes takes;
  auto list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < plan->steps.size(); ++i) {
    const PlanStep& one = plan->steps[i];
    const GpuCandidate* generated = one.kernel.kernel ? one.kernel.kernel->generated() : nullptr;
    if (generated == nullptr)
      throw Error(ErrorCode::usage, fmt::format("the kernels of {} are not generated", to_string(one.device)),
                  "--device", "Leave it out: then the plan is made for a GPU that need not be there");
    const auto bytes = buffer_bytes(*plan, one);
    const auto resources = resources_of(one.device, *generated);
    for (size_t k = 0; k < generated->launches.size(); ++k) {
      const GpuLaunch& launch = generated->launches[k];
      const std::string file = fmt::format("{:03}_{}_{}.{}", i, k, launch.name, target.suffix);
      write_file_atomically((folder / file).string(), render_for_reading(launch));
      std::erase(older.ours, file);
      std::erase(older.others, file);
      auto arguments = nlohmann::ordered_json::array();
      for (const auto& argument : launch.arguments)
        arguments.push_back({{"buffer", argument.buffer},
                             {"byte_offset", argument.byte_offset},
                             {"bytes", bytes[static_cast<size_t>(argument.buffer)] - argument.byte_offset}});
      for (const BoxedTensor& tensor : launch.tensors)
        arguments[tensor.argument]["tensor"] = {{"element_bytes", tensor.element_bytes},
                                                {"extents", tensor.extents},
                                                {"strides", tensor.strides},
                                                {"box", tensor.box}};
      if (launch.can_fault) arguments.push_back({{"fault", true}, {"byte_offset", 0}, {"bytes", 16}});
      list.push_back({{"step", i},
                      {"ops", one.name()},
                      {"kernel", generated->name},
                      {"parameters", generated->parameters},
                      {"file", file},
                      {"entry", launch.name},
                      {"groups", launch.groups},
                      {"group_size", launch.group_size},
                      {"local_bytes", launch.local_bytes},
                      {"arguments", arguments}});
      if (!launch.compile_options.empty()) list.back()["compile_options"] = launch.compile_options;
      if (k >= resources.size()) continue;
      takes.add(resources[k], file);
      list.back()["compiled"] = {{"registers", resources[k].registers},
                                 {"private_bytes", resources[k].private_bytes},
                                 {"local_bytes", resources[k].local_bytes},
                                 {"waves", resources[k].waves},
                                 {"most_waves", resources[k].most_waves}};
    }
  }
  write_file_atomically(folder / language_header_name, language_header(target.target));
  write_file_atomically((folder / list_name).string(), list.dump(2) + "\n");
  for (const std::string& file : older.ours) std::filesystem::remove(folder / file, failed);
  std::cout
      << fmt::format(
             "{} kernels of {} for {} are in {}; launches.json says how each is launched, and {} has the "
             "words that they use.\n",
             list.size(), options.step.config.model,
             options.architecture.empty() ? std::string(target.name) : options.architecture, options.out,
             language_header_name)
      << about_matrix_units(options, target) << about_precision(options, device);
  if (takes.told > 0) std::cout << takes.text(plan->steps.front().device);
  if (!older.ours.empty())
    std::cout << fmt::format("Removed {} of an older dump.\n", files(older.ours.size()));
  if (!older.others.empty())
    std::cout << fmt::format("{} that no dump wrote {} kept, such as {}.\n", files(older.others.size()),
                             older.others.size() == 1 ? "is" : "are", older.others.front());
  return 0;
}

}  // namespace

void add_kernels(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand("kernels", "Look at generated kernels");
  command->require_subcommand(1);
  CLI::App* dump_command =
      command->add_subcommand("dump", "Write the source and the launch of every kernel of a step");
  const auto options = std::make_shared<DumpOptions>();
  options->step.config.device = offline;
  add_step_options(*dump_command, options->step, "a device of this machine (default: no device; see --arch)");
  dump_command->remove_option(
      dump_command->get_option("--target"));  // a table's column; here a target is a GPU's
  dump_command->add_flag("--inference", options->step.inference, "only the forward pass");
  suggest(dump_command->add_option("--target", options->target,
                                   fmt::format("{} (default {}, or that of --arch)", join(target_names()),
                                               gpu_targets().front().name)),
          target_names())
      ->option_text("NAME");
  suggest(dump_command->add_option("--arch", options->architecture,
                                   "write the kernels of this architecture, with its matrix units, for which "
                                   "no GPU is needed: gfx1100, sm_86, ..."),
          {"gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201", "sm_61", "sm_75", "sm_80",
           "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"})
      ->option_text("NAME");
  dump_command->add_option("--out", options->out, "a folder")->required()->option_text("DIR");
  dump_command->callback([options, &exit_code] { exit_code = dump(*options); });
}

}  // namespace athanor::cli
