// detect, doctor and every plan use the same device list: the same GPUs with the same names on every machine.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "athanor/device/detect.h"
#include "athanor/doctor/diagnosis.h"
#include "athanor/doctor/plan.h"
#include "athanor/doctor/report.h"
#include "tests/doctor/fixture.h"

namespace athanor::doctor {
namespace {

using ::athanor::testing::machines_folder;
using ::athanor::testing::UnpackedMachine;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> all_machines() {
  std::vector<std::string> names;
  for (const char* folder : {"", "doctor/"})
    for (const auto& file : std::filesystem::directory_iterator(machines_folder() / folder))
      if (file.path().extension() == ".machine") names.push_back(folder + file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class OneList : public ::testing::TestWithParam<std::string> {};

std::vector<const FoundDevice*> gpus_by_detect(const Detection& found) {
  std::vector<const FoundDevice*> gpus;
  for (const FoundDevice& device : found.devices)
    if (device.kind != "cpu") gpus.push_back(&device);
  return gpus;
}

// Joins the lines of a wrapped text.
std::string flat(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

TEST_P(OneList, IsWhatDoctorLooksAt) {
  const UnpackedMachine machine(GetParam());
  const Detection found = detect(*machine);
  const auto gpus = gpus_by_detect(found);
  const Facts facts(*machine);
  const Diagnosis diagnosis = diagnose(checks(), facts);
  const auto json = report_json(diagnosis, facts, Language::en);
  const auto& said = json.at("machine").at("gpus");
  const std::string text = report_text(diagnosis, facts, {});
  ASSERT_EQ(said.size(), gpus.size());
  std::string usable;
  bool unknown = false;  // OpenCL's answer
  for (size_t i = 0; i < gpus.size(); ++i) {
    EXPECT_EQ(said[i].at("name"), gpus[i]->name);
    EXPECT_EQ(said[i].at("address"), gpus[i]->text("pci_address"));
    EXPECT_EQ(said[i].at("arch"), gpus[i]->text("architecture"));
    for (const BackendUse& use : gpus[i]->backends) {
      if (use.usable) usable = use.device;
      unknown |= use.backend == "opencl" && use.not_known;
    }
  }
  if (gpus.empty()) {
    EXPECT_THAT(text, HasSubstr("no GPU found"));
  }
  // If detect offers a GPU for --device, doctor says that it works. If not, doctor must not, except if only
  // files are known because OpenCL's answer was not recorded. A build without backends asks no runtime.
  const Result* goal = diagnosis.find("works.athanor.gpu");
  const auto state_of = [&](const std::string& name) {
    const auto state = std::ranges::find(found.runtimes, name, &RuntimeState::name);
    return state == found.runtimes.end() ? RuntimeState{name, false, true, {}, {}} : *state;
  };
  if (usable.empty() && unknown) {
    EXPECT_FALSE(state_of("opencl").answered);
  } else if (usable.empty() && !provider_names().empty()) {
    EXPECT_NE(goal->verdict, Verdict::ok);
  } else if (!usable.empty()) {
    EXPECT_EQ(goal->finding.status, Status::pass);
  }
  // No text may say what a runtime lists if that runtime was not asked.
  const std::string plan = plan_text(make_plan(facts, "athanor"), Language::en);
  for (const std::string& words : {flat(text), flat(plan)})
    if (!state_of("cuda").asked && !state_of("hip").asked) {
      EXPECT_THAT(words, Not(HasSubstr("neither CUDA nor HIP lists")));
    }
}

void expect_same_gpus(const InstallPlan& plan, const std::vector<const FoundDevice*>& gpus) {
  ASSERT_EQ(plan.gpus.size(), gpus.size());
  for (size_t i = 0; i < gpus.size(); ++i) {
    const PlannedGpu& gpu = plan.gpus[i];
    EXPECT_EQ(gpu.index, i);
    EXPECT_THAT(gpu.name, ::testing::StartsWith(gpus[i]->name));
    EXPECT_EQ(gpu.address, gpus[i]->text("pci_address"));
    EXPECT_FALSE(gpu.reason.en.empty() || gpu.reason.zh.empty()) << gpu.name;
  }
}

// Every form of a plan names every GPU, and says what happens to it.
void expect_gpus_are_said(const InstallPlan& plan) {
  std::vector<std::string> forms{plan_text(plan, Language::en), plan_json(plan, Language::en).dump()};
  if (plan.broken() == nullptr)
    for (const char* form : {"script", "dockerfile", "conda"})
      if (plan.goal != "athanor" || std::string(form) != "conda") forms.push_back(plan_as(plan, form));
  for (const std::string& form : forms) {
    for (const PlannedGpu& gpu : plan.gpus) {
      EXPECT_THAT(form, HasSubstr(gpu.name));
    }
  }
}

TEST_P(OneList, IsWhatPlansSpeakOf) {
  const UnpackedMachine machine(GetParam());
  const Detection found = detect(*machine);
  const auto gpus = gpus_by_detect(found);
  const Facts facts(*machine);
  for (const char* goal : {"athanor", "pytorch", "tensorflow", "jax"}) {
    SCOPED_TRACE(goal);
    const InstallPlan plan = make_plan(facts, goal);
    expect_same_gpus(plan, gpus);
    expect_gpus_are_said(plan);
    const auto used = std::count_if(plan.gpus.begin(), plan.gpus.end(),
                                    [](const PlannedGpu& gpu) { return gpu.use == PlannedGpu::Use::used; });
    // A plan that is possible but uses no GPU here is for the CPU. It says this of each GPU.
    if (used == 0 && plan.broken() == nullptr)
      for (const PlannedGpu& gpu : plan.gpus) {
        EXPECT_THAT(gpu.reason.en, ::testing::AnyOf(HasSubstr("CPU"), HasSubstr("virtual machine"),
                                                    HasSubstr("no backend lists it")))
            << gpu.name;
        EXPECT_THAT(gpu.reason.en, HasSubstr("not used")) << gpu.name;
      }
    if (used > 0) {
      EXPECT_EQ(plan.index.ends_with("/cpu"), false);
    }
  }
}

// Without a driver, or in a virtual machine, a GPU cannot compute, and no text may promise that it does.
TEST_P(OneList, PromisesNoGpuWithoutADriver) {
  const UnpackedMachine machine(GetParam());
  const Facts facts(*machine);
  if (facts.system().wsl || !machine->covers("/sys/bus/pci/devices")) return;  // drivers cannot be seen
  const Diagnosis diagnosis = diagnose(checks(), facts);
  const Result* goal = diagnosis.find("works.athanor.gpu");
  const Detection found = detect(*machine);
  const auto gpus = gpus_by_detect(found);
  for (size_t i = 0; i < gpus.size(); ++i) {
    const std::string driver = gpus[i]->text("kernel_driver");
    const bool bound = std::filesystem::exists(machine.root() / "sys/bus/pci/devices" /
                                               gpus[i]->text("pci_address") / "driver");
    if (bound || gpus[i]->text("pci_address").empty() || !driver.empty()) continue;
    SCOPED_TRACE(gpus[i]->name);
    for (const BackendUse& use : gpus[i]->backends) EXPECT_FALSE(use.usable) << use.backend;
    for (const Evidence& seen : goal->finding.evidence) {
      EXPECT_TRUE(goal->verdict != Verdict::ok || seen.said.find(gpus[i]->name) == std::string::npos);
    }
    for (const char* name : {"athanor", "pytorch", "tensorflow", "jax"}) {
      const PlannedGpu planned = make_plan(facts, name).gpus.at(i);
      if (planned.use == PlannedGpu::Use::used) {
        EXPECT_THAT(planned.reason.en, HasSubstr("once this is mended")) << name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, OneList, ::testing::ValuesIn(all_machines()), [](const auto& instance) {
  std::string name = instance.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '/'; }, '_');
  return name;
});

}  // namespace
}  // namespace athanor::doctor
