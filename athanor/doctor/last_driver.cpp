#include "athanor/doctor/last_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace athanor::doctor {
namespace {

const Compatibility::DriverBranch* branch_by_chip(const Gpu& gpu) {
  return Compatibility::known().last_driver(sm_number(gpu.arch));
}

bool is_nvidia_without_driver(const Gpu& gpu) {
  return gpu.vendor == Vendor::nvidia && (gpu.driver.empty() || gpu.driver == "nouveau");
}

// A driver's message about a card that it has dropped, one message of several lines:
//   NVRM: The NVIDIA GeForce GTX 1050 GPU installed in this system is
//   NVRM:  supported through the NVIDIA 580.xx Legacy drivers. Please
//   NVRM:  ... The 595.58.03 NVIDIA driver will ignore this GPU.
std::optional<LastDriver> last_driver_in_log(const Facts& facts) {
  for (const std::string& line : facts.log_lines({"NVRM", ".xx Legacy drivers"}, 1)) {
    const size_t at = line.find("NVIDIA ");
    LastDriver last{0, {}, "kernel log", line};
    if (at == std::string::npos) continue;
    const auto end = std::from_chars(line.data() + at + 7, line.data() + line.size(), last.branch);
    if (end.ec == std::errc() && last.branch > 0) return last;
  }
  return std::nullopt;
}

// Whether the log means this card: yes if its chip is unknown; otherwise only if all chips are known, and
// the data lists none of them as dropped.
bool log_means(const Facts& facts, const Gpu& gpu) {
  if (!is_nvidia_without_driver(gpu) || facts.system().wsl) return false;
  if (gpu.arch.empty()) return true;
  const auto gpus = facts.gpus(Vendor::nvidia);
  return std::none_of(gpus.begin(), gpus.end(), [](const Gpu* other) {
    return other->arch.empty() || branch_by_chip(*other) != nullptr;
  });
}

}  // namespace

std::optional<LastDriver> last_driver(const Facts& facts, const Gpu& gpu) {
  if (gpu.vendor != Vendor::nvidia) return std::nullopt;
  if (const auto* row = branch_by_chip(gpu))
    return LastDriver{row->branch, row->chips, gpu.arch_source, gpu.arch};
  if (!log_means(facts, gpu)) return std::nullopt;
  auto last = last_driver_in_log(facts);
  if (!last) return std::nullopt;
  const auto* row = Compatibility::known().driver_branch(last->branch);
  last->chips = row == nullptr ? gpu.title() : row->chips;
  return last;
}

std::optional<LastDriver> last_driver(const Facts& facts, const std::vector<const Gpu*>& gpus) {
  std::optional<LastDriver> oldest;
  for (const Gpu* gpu : gpus)
    if (const auto last = last_driver(facts, *gpu); last && (!oldest || last->branch < oldest->branch))
      oldest = last;
  return oldest;
}

std::string newest_nvidia_driver(const Facts& facts) {
  const NvidiaDriver& nvidia = facts.nvidia();
  return nvidia.module_version.empty() ? nvidia.library_version : nvidia.module_version;
}

bool is_left_behind(const Facts& facts, const Gpu& gpu) {
  if (!is_nvidia_without_driver(gpu) || facts.system().wsl) return false;
  const auto last = last_driver(facts, gpu);
  if (!last) return false;
  const auto there = Version::parse(newest_nvidia_driver(facts));
  return there ? there->at(0) > last->branch : last_driver_in_log(facts).has_value();
}

Text left_behind_reason(const Facts& facts, const LastDriver& last) {
  const std::string there = newest_nvidia_driver(facts);
  return {fmt::format("the driver{} is too new: {} is the last branch that runs {}; athanor doctor says how "
                      "to change it",
                      there.empty() ? "" : " " + there, last.branch, last.chips),
          fmt::format("驱动{}太新：{} 是支持 {} 的最后一个分支；athanor doctor 会说明如何更换",
                      there.empty() ? "" : " " + there + " ", last.branch, last.chips)};
}

std::optional<Version> usable_driver(const Facts& facts, const std::vector<const Gpu*>& gpus) {
  auto loaded = Version::parse(facts.nvidia().version);
  const auto last = last_driver(facts, gpus);
  if (!last || (loaded && loaded->at(0) <= last->branch)) return loaded;
  // If the loaded driver runs the cards, the data about them is wrong.
  if (loaded && std::all_of(gpus.begin(), gpus.end(), [](const Gpu* gpu) { return gpu->is_driven(); }))
    return loaded;
  return Version::parse(fmt::format("{}.999", last->branch));
}

namespace {

// The chips that a GPU may have, from one to below another.
std::pair<int, int> chips_of(const Facts& facts, const Gpu& gpu) {
  if (const int sm = sm_number(gpu.arch); sm > 0) return {sm, sm + 1};
  const auto last = last_driver(facts, gpu);
  const auto* row = last ? Compatibility::known().driver_branch(last->branch) : nullptr;
  return row == nullptr ? std::pair{0, std::numeric_limits<int>::max()}
                        : std::pair{row->from_sm, row->below_sm};
}

}  // namespace

bool may_run(const Facts& facts, const Gpu& gpu, int oldest_sm) {
  return chips_of(facts, gpu).second > oldest_sm;
}

bool may_run(const Facts& facts, const Gpu& gpu, const Compatibility::SmList& kernels) {
  const auto [from, below] = chips_of(facts, gpu);
  return below == from + 1 ? kernels.run_on(from) : kernels.run_between(from, below);
}

}  // namespace athanor::doctor
