#include "athanor/doctor/compatibility.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/doctor/data.h"

namespace athanor::doctor {
namespace {

// The data that `use` has loaded in place of the built-in data.
std::unique_ptr<const Compatibility>& in_use() {
  static std::unique_ptr<const Compatibility> one;
  return one;
}

bool within(const Version& version, const Version& from, const Version& to) {
  return version.first(2) >= from && version.first(2) <= to;
}

}  // namespace

const Compatibility& Compatibility::built_in() {
  static const Compatibility all = parse(data_file("compatibility.toml"));
  return all;
}

const Compatibility& Compatibility::known() { return in_use() ? *in_use() : built_in(); }

void Compatibility::use(const std::string& file) {
  constexpr uint64_t most = uint64_t{4} << 20;
  auto all = std::make_unique<Compatibility>(parse(read_text_file(file, most), file));
  all->file = file;
  in_use() = std::move(all);
}

void Compatibility::use_built_in() { in_use().reset(); }

const Compatibility::Framework* Compatibility::find(const std::vector<Framework>& releases,
                                                    const Version& version) {
  for (const Framework& release : releases)
    if (release.version == version.first(2)) return &release;
  return nullptr;
}

const Compatibility::Toolkit* Compatibility::toolkit(const Version& version) const {
  for (const Toolkit& one : cuda)
    if (one.version == version.first(2)) return &one;
  return nullptr;
}

const Compatibility::Rocm* Compatibility::rocm_release(const Version& version) const {
  for (const Rocm& one : rocm)
    if (one.version == version.first(2)) return &one;
  return nullptr;
}

std::optional<Version> Compatibility::oldest_driver(const Version& cuda_version) const {
  const auto driver = minimum_driver.find(cuda_version.at(0));
  return driver == minimum_driver.end() ? std::nullopt : std::optional(driver->second);
}

const Compatibility::DriverBranch* Compatibility::last_driver(int sm) const {
  for (const DriverBranch& one : last_branch)
    if (sm > 0 && sm < one.below_sm) return &one;
  return nullptr;
}

const Compatibility::DriverBranch* Compatibility::driver_branch(uint32_t number) const {
  const auto found = std::ranges::find(last_branch, number, &DriverBranch::branch);
  return found == last_branch.end() ? nullptr : &*found;
}

const Compatibility::OnnxRuntime* Compatibility::onnxruntime_gpu(const Version& version) const {
  const OnnxRuntime* found = nullptr;
  for (const OnnxRuntime& one : onnxruntime)
    if (version >= one.version) found = &one;
  return version.first(2) > newest_onnxruntime ? nullptr : found;
}

bool Compatibility::SmList::run_on(int sm) const {
  return (ptx && sm >= all.back()) ||
         std::ranges::any_of(all, [&](int one) { return one / 10 == sm / 10 && one <= sm; });
}

bool Compatibility::SmList::run_between(int from, int below) const {
  return (ptx && below > all.back()) ||
         std::ranges::any_of(all, [&](int one) { return one < below && (one / 10 + 1) * 10 > from; });
}

std::optional<Compatibility::TorchSm> Compatibility::torch_sm(const Version& torch,
                                                              const Version& cuda_version) const {
  for (const TorchArch& arch : torch_arch)
    if (arch.version == torch.first(2) && arch.cuda == cuda_version.first(2)) return TorchSm{arch.sm, true};
  if (const Toolkit* made_with = toolkit(cuda_version)) return TorchSm{made_with->sm, false};
  return std::nullopt;
}

const Compatibility::TorchGfx* Compatibility::torch_targets(const Version& torch,
                                                            const Version& rocm_version) const {
  const auto row = std::find_if(torch_gfx.begin(), torch_gfx.end(), [&](const TorchGfx& one) {
    return within(torch, one.torch_from, one.torch_to) && within(rocm_version, one.rocm_from, one.rocm_to);
  });
  return row == torch_gfx.end() ? nullptr : &*row;
}

Compatibility::Has Compatibility::torch_has(const Version& torch, const Version& rocm_version,
                                            std::string_view gfx) const {
  const TorchGfx* row = torch_targets(torch, rocm_version);
  if (row == nullptr) return Has::unknown;
  if (row->targets.contains(std::string(gfx))) return Has::yes;
  return row->some ? Has::unknown : Has::no;
}

bool Compatibility::torch_had(std::string_view gfx) const {
  return std::any_of(torch_gfx.begin(), torch_gfx.end(),
                     [&](const TorchGfx& row) { return row.targets.contains(std::string(gfx)); });
}

const Compatibility::TheRock* Compatibility::therock_for(const Chips& gfx,
                                                         const std::optional<Version>& python) const {
  for (auto index = therock.rbegin(); index != therock.rend(); ++index)
    if (std::ranges::includes(index->targets, gfx, ChipOrder()) && !gfx.empty() &&
        (!python || within(*python, index->oldest_python, index->newest_python)))
      return &*index;
  return nullptr;
}

const Compatibility::Room* Compatibility::room_for(std::string_view goal, std::string_view on) const {
  const auto row = std::find_if(room.begin(), room.end(),
                                [&](const Room& one) { return one.goal == goal && one.on == on; });
  return row == room.end() ? nullptr : &*row;
}

}  // namespace athanor::doctor
